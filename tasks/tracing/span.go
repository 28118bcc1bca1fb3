package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/phorge-gantry/gantry/tasks"
)

// system is what OpenTelemetry calls the messaging system.
var system = attribute.String("messaging.system", "gantry")

// under answers a context in which spans are children of a trace context; "" is
// none.
func under(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// traceparentIn answers the trace context of a context, "" when there is none.
func traceparentIn(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// Enqueue begins the span of queueing tasks in an instance, under the trace
// context of who asked for it, "" for none, and gives it to the tasks. end ends
// the span with what came of it. A nil tracer gives them that of who asked.
func (t *Tracer) Enqueue(instance, traceparent string, news []tasks.NewTask) (end func(ids []int64, err error)) {
	own := traceparent
	defer func() {
		for i := range news {
			news[i].Traceparent = own
		}
	}()
	if t == nil {
		return func([]int64, error) {}
	}
	attributes := []attribute.KeyValue{
		system,
		attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.operation.name", "enqueue"),
		attribute.String("messaging.destination.name", instance),
		attribute.Int("messaging.batch.message_count", len(news)),
	}
	if len(news) == 1 {
		attributes = append(attributes, attribute.String("gantry.task.class", news[0].Class))
	}
	ctx, span := t.Start(under(context.Background(), traceparent), "enqueue "+instance,
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...))
	own = traceparentIn(ctx)
	return func(ids []int64, err error) {
		if len(ids) == 1 {
			span.SetAttributes(attribute.Int64("messaging.message.id", ids[0]))
		}
		if err != nil {
			span.SetStatus(codes.Error, "not queued")
		}
		span.End()
	}
}

// Executor answers an executor that runs tasks as another one does, each in a
// span. Instance and route stand in it.
func (t *Tracer) Executor(inner tasks.Executor, instance, route string) tasks.Executor {
	if t == nil || inner == nil {
		return inner
	}
	return &executor{inner, t, []attribute.KeyValue{
		system,
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.operation.name", "execute"),
		attribute.String("messaging.destination.name", instance),
		attribute.String("gantry.route", route),
	}}
}

type executor struct {
	tasks.Executor
	tracer     *Tracer
	attributes []attribute.KeyValue
}

// Execute implements tasks.Executor.
func (e *executor) Execute(ctx context.Context, task tasks.Task, require func(time.Duration)) (outcome tasks.Outcome) {
	ctx, span := e.tracer.Start(under(ctx, task.Traceparent), "execute "+task.Class,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(e.attributes...), trace.WithAttributes(
			attribute.Int64("messaging.message.id", task.ID),
			attribute.String("gantry.task.class", task.Class),
			attribute.Int("gantry.task.failure_count", task.FailureCount)))
	task.Traceparent = traceparentIn(ctx)
	ended := false
	defer func() {
		if !ended { // it panicked
			span.SetStatus(codes.Error, tasks.CategoryPanic)
		}
		span.End()
	}()
	outcome = e.Executor.Execute(ctx, task, require)
	ended = true
	for i := range outcome.FollowUps {
		if outcome.FollowUps[i].Traceparent == "" {
			outcome.FollowUps[i].Traceparent = task.Traceparent
		}
	}
	span.SetAttributes(attribute.String("gantry.task.outcome", string(outcome.Kind)))
	switch outcome.Kind {
	case tasks.Retry, tasks.Failed, tasks.Crashed:
		span.SetStatus(codes.Error, outcome.Category)
	}
	return outcome
}
