package plugins

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"sync"
)

// ErrLocked says that somebody else holds a lock.
var ErrLocked = errors.New("somebody else holds the lock")

// ErrLockLost is the cause of the end of a task's context, as context.Cause
// answers it, when the task holds a lock and the connection to its server
// died. Somebody else may have the lock by now. Task.Lock says what to do.
var ErrLockLost = errors.New("a lock was lost")

// Lock takes the lock that PHP takes by PhabricatorGlobalLock::newLock(name),
// on the server where PHP takes it. It does not wait: errors.Is(err, ErrLocked)
// says that a task of this process or anybody else holds it. A handler then
// yields, as workers do in PHP. What is not unlocked is when the task ends; to
// unlock twice does no harm.
//
// The locks of a process share one connection, whoever tries and fails. When it
// dies, because the server restarts or somebody kills it, they are all lost,
// and the context of every task that holds one ends within seconds, with the
// cause ErrLockLost. What the lock protects must not be begun then: the handler
// answers ctx.Err(), and the task is tried again. What is under way and cannot
// be taken back, it finishes, under UntilCancelled, and stores what came of it
// (Store); PHP, which does not see the loss, finishes it too. A lock that was
// lost may be unlocked all the same.
//
// A shadow run does not take the lock, it looks whether it could. A lock is
// taken before a transaction begins and not within one.
func (t *Task) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if unlock, err = t.reach().lock(ctx, name); err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return unlock, nil
}

// UntilCancelled answers a context that ends when Gantry cancels the task, as
// that of the handler does, but not when a lock is lost. It is for what cannot
// be taken back and is under way: a call that is given up then has been made
// all the same, and is made again.
func (t *Task) UntilCancelled() context.Context {
	if ctx := t.reach().given; ctx != nil {
		return ctx
	}
	return context.Background()
}

func (a *attempt) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := a.free(false); err != nil {
		return nil, err
	}
	digest := LockName(a.site.Namespace, name)
	if a.shadow != nil {
		return func() {}, a.lookAtLock(ctx, digest)
	}
	held, err := a.site.lock(ctx, digest, func(why error) {
		a.cancel(fmt.Errorf("lock %s: %w: %w", name, ErrLockLost, why))
	})
	if err != nil {
		return nil, err
	}
	return a.holds(held)
}

// holds notes a lock that is the task's to unlock.
func (a *attempt) holds(l *lock) (unlock func(), err error) {
	once := sync.OnceFunc(func() {
		a.mu.Lock()
		delete(a.locks, l)
		a.mu.Unlock()
		l.release()
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		go once()
		return nil, errOver
	}
	if a.locks == nil {
		a.locks = map[*lock]func(){}
	}
	a.locks[l] = once
	return once, nil
}

// LockName answers the name that GET_LOCK is given for a lock without
// parameters, as PhabricatorGlobalLock::newLock makes it.
func LockName(namespace, name string) string {
	return "ph:" + digestToLength20(namespace) + ":" + digestToLength20(name+"()")
}

// digestToLength20 is PhabricatorHash::digestToLength for twenty bytes.
func digestToLength20(text string) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._"
	sum := sha1.Sum([]byte(text))
	index := make([]byte, 12) // as PhabricatorHash::digestForIndex
	for i := range index {
		index[i] = letters[sum[i]&0x3f]
	}
	return text[:min(len(text), 7)] + "-" + string(index)
}
