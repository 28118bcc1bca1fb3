package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// standing says where a task stands: in a word, and in a sentence for people.
func standing(r tasks.Record, now int64) (word, sentence string) {
	if r.Archive != nil {
		return archived(r)
	}
	due := r.Expires == nil || *r.Expires < now
	if r.Owner == nil {
		if due || *r.Expires == now {
			return "ready", "ready to be leased"
		}
		return "delayed", "waits until " + clock(*r.Expires, now)
	}
	if r.Expires == nil {
		return "stuck", "stuck: it has an owner and no expiry, so nobody ever leases it; 'gantry tasks free' mends it"
	}
	if tasks.Nobody(*r.Owner) || *r.Owner == "" {
		return waiting(*r.Owner, due, clock(*r.Expires, now))
	}
	holder := holder(*r.Owner)
	if due {
		return "expired", fmt.Sprintf("the lease of %s ended %s and nobody has taken the task since", holder, clock(*r.Expires, now))
	}
	return "leased", fmt.Sprintf("leased by %s until %s", holder, clock(*r.Expires, now))
}

func archived(r tasks.Record) (word, sentence string) {
	switch r.Result {
	case tasks.ResultSuccess:
		word = "succeeded"
	case tasks.ResultFailure:
		word = "failed"
	case tasks.ResultCancelled:
		word = "cancelled"
	default:
		word = "result " + strconv.Itoa(r.Result)
	}
	return word, "archived: " + word
}

// waiting reads the owners that hold nobody's lease.
func waiting(owner string, due bool, until string) (word, sentence string) {
	mark, _, _ := strings.Cut(owner, ":")
	switch mark {
	case tasks.YieldOwner:
		word, sentence = "yielded", "yielded"
	case tasks.DelayOwner:
		word, sentence = "delayed", "delayed"
	case "(retry)":
		word, sentence = "retry", "failed and is tried again"
	case "(back)":
		word, sentence = "back", "given back without counting an attempt"
	default:
		word, sentence = "waiting", fmt.Sprintf("waits under the owner %q", owner)
	}
	if n := tasks.Crashes(owner); n > 0 {
		sentence += fmt.Sprintf(", crashes so far: %d", n)
	}
	if due {
		return word, sentence + "; due since " + until
	}
	return word, sentence + "; due at " + until
}

// holder reads the owners that hold a lease: those of Gantry, and those of
// PhabricatorWorkerLeaseQuery, which are pid:epoch:host:sequence.
func holder(owner string) string {
	if o, ok := tasks.ParseOwner(owner); ok {
		return fmt.Sprintf("Gantry on %s (process %s, fence %d, crashes %d)", o.Host, o.Nonce, o.Fence, o.Crashes)
	}
	parts := strings.Split(owner, ":")
	if len(parts) == 4 {
		if pid, err := strconv.Atoi(parts[0]); err == nil {
			return fmt.Sprintf("a taskmaster of Phorge on %s (process %d)", parts[2], pid)
		}
	}
	return fmt.Sprintf("%q", owner)
}

// clock shows an epoch, and how far it is from now.
func clock(epoch, now int64) string {
	at := time.Unix(epoch, 0).UTC().Format("2006-01-02 15:04:05Z")
	switch {
	case epoch > now:
		return fmt.Sprintf("%s (in %s)", at, span(epoch-now))
	case epoch < now:
		return fmt.Sprintf("%s (%s ago)", at, span(now-epoch))
	}
	return at + " (now)"
}

// span shows seconds: as a duration, or in days when there are many.
func span(seconds int64) string {
	const day = 24 * 60 * 60
	if seconds < 3*day {
		return (time.Duration(seconds) * time.Second).String()
	}
	return fmt.Sprintf("%d days", seconds/day)
}
