package plugins

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/phorge-gantry/gantry/plugins/pluginpb"
	"github.com/phorge-gantry/gantry/tasks"
)

// runs are the tasks that came over one stream.
type runs struct {
	server *server
	outbox *pluginpb.Outbox[report]

	mu   sync.Mutex
	runs map[uint64]*run
}

// run is a task that is being executed.
type run struct {
	cancel context.CancelFunc
	leased chan struct{} // closed when the lease that it required is there
}

// report is something to tell the host: one of the two.
type report struct {
	lease   *pluginpb.LeaseRequired
	outcome *pluginpb.Outcome
}

// start executes a task in a goroutine of its own. How many run at once is the
// host's business: it sends no more than the handler allows.
func (r *runs) start(ctx context.Context, task *pluginpb.Task) {
	ctx, cancel := context.WithCancel(ctx)
	id, this := task.GetRun(), &run{cancel: cancel, leased: make(chan struct{})}
	r.mu.Lock()
	r.runs[id] = this
	r.mu.Unlock()
	r.server.running.Go(func() {
		// A handler that calls runtime.Goexit never comes back; this is what
		// its task has come to then.
		outcome := tasks.Outcome{Kind: tasks.Retry, Wait: DefaultWait, Reason: "the handler ended its goroutine instead of returning"}
		var effects *pluginpb.Effects
		defer func() {
			cancel()
			r.mu.Lock()
			delete(r.runs, id)
			r.mu.Unlock()
			message := pluginpb.FromOutcome(id, outcome)
			message.Effects = effects
			r.outbox.Put(report{outcome: message})
		}()
		handler, site := r.server.handler(task), r.server.site.Load()
		if task.GetShadow() {
			var done Effects
			outcome, done = handler.Shadow(ctx, site, task.Vocabulary())
			effects = done.message()
			return
		}
		outcome = handler.ExecuteAt(ctx, site, task.Vocabulary(), func(lease time.Duration) {
			r.outbox.Put(report{lease: &pluginpb.LeaseRequired{Run: id, LeaseMs: lease.Milliseconds()}})
			select {
			case <-this.leased:
			case <-ctx.Done():
			}
		})
	})
}

// handler answers the handler of a task, with the policy that the
// administrator put in place of its own.
func (s *server) handler(task *pluginpb.Task) Handler {
	h, ok := s.handlers[task.GetTaskClass()]
	if !ok {
		h.Handle = func(context.Context, *Task) error {
			return Decline("this binary has no handler for class " + task.GetTaskClass())
		}
	}
	if task.MaxRetries != nil {
		h.MaxRetries = func(*Task) int { return int(task.GetMaxRetries()) }
	}
	if task.RetryWaitMs != nil {
		h.WaitBeforeRetry = func(*Task, error) time.Duration {
			return time.Duration(task.GetRetryWaitMs()) * time.Millisecond
		}
	}
	return h
}

// control does what the host says about runs. Those that are not found have
// ended.
func (r *runs) control(dispatch *pluginpb.Dispatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range dispatch.GetLeased() {
		if this := r.runs[id]; this != nil {
			close(this.leased)
		}
	}
	for _, id := range dispatch.GetCancels() {
		if this := r.runs[id]; this != nil {
			this.cancel()
		}
	}
}

// send is the one sender of the stream: it puts all that has gathered into one
// message.
func (r *runs) send(stream grpc.BidiStreamingServer[pluginpb.Dispatch, pluginpb.Report]) {
	for {
		reports := r.outbox.Take(stream.Context().Done())
		if reports == nil {
			return
		}
		for len(reports) > 0 {
			var message *pluginpb.Report
			message, reports = fill(reports)
			if stream.Send(message) != nil {
				return // the stream has ended; Run sees it too
			}
		}
	}
}

// fill makes a message of the first reports, as many as fit, and answers the
// others.
func fill(reports []report) (*pluginpb.Report, []report) {
	message, size := &pluginpb.Report{}, 0
	for i, rep := range reports {
		if rep.lease != nil {
			message.Leases = append(message.Leases, rep.lease)
			continue
		}
		bytes := len(rep.outcome.GetReason())
		for _, n := range rep.outcome.GetFollowUps() {
			bytes += len(n.GetData())
		}
		if effects := rep.outcome.GetEffects(); effects != nil {
			bytes += proto.Size(effects)
		}
		if size > 0 && size+bytes > pluginpb.MaxBatch {
			return message, reports[i:]
		}
		message.Outcomes = append(message.Outcomes, rep.outcome)
		size += bytes
	}
	return message, nil
}
