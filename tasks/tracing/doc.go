// Package tracing tells an OpenTelemetry collector about tasks, when the
// standard variables name one: OTEL_EXPORTER_OTLP_ENDPOINT, or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT for traces alone. Without them there is no
// Tracer, and a nil one costs nothing.
//
// Queueing makes one span ("enqueue", of a producer), and every execution
// another ("execute", of a consumer), its child: whoever asks what became of a
// request sees in one trace how long the task waited and how often it was tried.
// Between the two the trace context travels in tasks.NewTask.Traceparent and
// tasks.Task.Traceparent, beside the data. What an execution queues is a child
// of it.
//
// Nothing waits for the collector: spans are gathered in a bounded queue of the
// OpenTelemetry SDK and sent from there; those that do not fit in are dropped.
// No span holds the data of a task or the reason of a failure.
package tracing
