package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/phorge-gantry/gantry/plugins/pluginpb"
	"github.com/phorge-gantry/gantry/tasks"
)

// leaveTime is how long a process may take to end after its stream has. The
// SDK allows its handlers two seconds.
const leaveTime = 4 * time.Second

// serve carries the work of the process until it is dead, which it makes sure
// of, and then answers the calls that are left. It answers why the process
// ended. draining is called once no more tasks are taken.
func (l *link) serve(ctx context.Context, draining func()) error {
	work, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := l.service.Run(work)
	if err != nil {
		l.client.Kill()
		return fmt.Errorf("open the stream of handler binary %s: %w", l.name, err)
	}
	sender, receiver := make(chan struct{}), make(chan struct{})
	go func() { defer close(sender); l.send(stream) }()
	go func() { defer close(receiver); err = l.receive(stream) }()

	select {
	case <-receiver:
		l.close(died, "")
	case <-l.ended:
	case <-ctx.Done():
		l.close(stopped, "Gantry stopped")
	}
	draining()
	end, why := l.ending()
	if end == died {
		why = l.obituary(err)
	}
	l.client.Kill()
	cancel()
	<-sender
	<-receiver
	l.bury(end, why)
	return errors.New(why)
}

// obituary waits for the death of a process whose stream has ended, and says
// what it died of.
func (l *link) obituary(stream error) string {
	select {
	case <-l.child.done:
		return fmt.Sprintf("handler binary %s (pid %d) died: %s", l.name, l.child.pid, l.child.epitaph())
	case <-time.After(leaveTime):
		return fmt.Sprintf("handler binary %s (pid %d) ended its stream and had to be killed: %v", l.name, l.child.pid, stream)
	}
}

// send is the one sender of the stream: it puts all that has gathered into one
// message.
func (l *link) send(stream grpc.BidiStreamingClient[pluginpb.Dispatch, pluginpb.Report]) {
	for {
		orders := l.outbox.Take(l.ended)
		if orders == nil {
			return
		}
		for len(orders) > 0 {
			var message *pluginpb.Dispatch
			message, orders = fill(orders)
			if stream.Send(message) != nil {
				return // the receiver learns why
			}
		}
	}
}

// fill makes a message of the first orders, as many as fit, and answers the
// others. A task that is in a message counts as sent.
func fill(orders []order) (*pluginpb.Dispatch, []order) {
	message, size := &pluginpb.Dispatch{}, 0
	for i, o := range orders {
		switch {
		case o.what == tellCancel:
			message.Cancels = append(message.Cancels, o.task.Run)
		case o.what == tellLeased:
			message.Leased = append(message.Leased, o.task.Run)
		case size > 0 && size+len(o.task.Data) > pluginpb.MaxBatch:
			return message, orders[i:]
		case o.fate.CompareAndSwap(unsent, sent):
			message.Tasks = append(message.Tasks, o.task)
			size += len(o.task.Data)
		}
	}
	return message, nil
}

// receive hands outcomes to their calls until the stream ends, and answers
// why it did.
func (l *link) receive(stream grpc.BidiStreamingClient[pluginpb.Dispatch, pluginpb.Report]) error {
	for {
		report, err := stream.Recv()
		if err != nil {
			return err
		}
		l.mu.Lock()
		for _, lease := range report.GetLeases() {
			if c := l.calls[lease.GetRun()]; c != nil {
				select {
				case c.lease <- time.Duration(lease.GetLeaseMs()) * time.Millisecond:
				default: // a second one; only the first counts
				}
			}
		}
		for _, o := range report.GetOutcomes() {
			if c := l.calls[o.GetRun()]; c != nil {
				delete(l.calls, o.GetRun())
				c.done <- answer{outcomeOf(o), o.GetEffects()}
			}
		}
		l.mu.Unlock()
	}
}

// outcomeOf reads an outcome. One that cannot be understood is a failed
// attempt: the work may have been done.
func outcomeOf(o *pluginpb.Outcome) tasks.Outcome {
	outcome, err := o.Vocabulary()
	if err != nil {
		return tasks.Outcome{Kind: tasks.Retry, Wait: tasks.DefaultWait, Reason: err.Error()}
	}
	return outcome
}
