package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/tasks"
)

// passing are answers of a server after which the same call may succeed, and what
// a person can do about them.
var passing = map[string]string{
	"OOM":         "its memory is full; raise maxmemory, or keep less in the archive",
	"MISCONF":     "it cannot save to its disk; see its log, and whether the disk is full",
	"READONLY":    "it is a replica; name the master, or its Sentinels",
	"LOADING":     "it is loading its data",
	"BUSY":        "it runs a script that takes long; see SLOWLOG",
	"MASTERDOWN":  "it is a replica without a master",
	"NOREPLICAS":  "it has fewer replicas than min-replicas-to-write",
	"CLUSTERDOWN": "the cluster has no node for the queue",
	"TRYAGAIN":    "the cluster moves the queue to another node",
	"MOVED":       "the cluster moved the queue to another node",
	"ASK":         "the cluster moves the queue to another node",
}

// rights are what a user of the server needs, as ACL SETUSER takes them. Without
// CONFIG GET nothing is said of appendfsync.
const rights = "~{gantry:* +@read +@write +@scripting +@connection +time +scan +info +command +config|get +cluster|slots +cluster|shards +cluster|nodes"

// remedies are for answers that do not pass.
var remedies = map[string]string{
	"NOAUTH":    "it asks for a password; put it in the URL",
	"WRONGPASS": "it does not know this user and password",
	"NOPERM":    "its user may not do that; give it " + rights,
	"WRONGTYPE": "a key of the queue holds something else; find out who wrote it",
}

// explain puts the place and, where there is one, the remedy to an error. What may
// pass wraps tasks.ErrUnavailable.
func (s *Store) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tasks.ErrUnavailable) || strings.HasPrefix(err.Error(), s.place) {
		return err
	}
	var answer goredis.Error
	if !errors.As(err, &answer) {
		return fmt.Errorf("%w: %s: %w", tasks.ErrUnavailable, s.place, err)
	}
	code, _, _ := strings.Cut(answer.Error(), " ")
	if why, ok := passing[code]; ok {
		return fmt.Errorf("%w: %s: %s: %w", tasks.ErrUnavailable, s.place, why, err)
	}
	if strings.Contains(answer.Error(), "max number of clients") {
		return fmt.Errorf("%w: %s: raise maxclients: %w", tasks.ErrUnavailable, s.place, err)
	}
	if remedy, ok := remedies[code]; ok {
		return fmt.Errorf("%s: %s: %w", s.place, remedy, err)
	}
	return fmt.Errorf("%s: %w", s.place, err)
}

// unanswered reports whether a call may have taken effect although it failed: it
// was sent, and the server did not answer.
func unanswered(err error) bool {
	var answer goredis.Error
	var network *net.OpError
	switch {
	case err == nil, errors.As(err, &answer):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false // once a call is sent, ctx does not end it
	case errors.Is(err, goredis.ErrClosed), errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted):
		return false
	}
	return !errors.As(err, &network) || network.Op != "dial"
}
