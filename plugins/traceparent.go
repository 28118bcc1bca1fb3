package plugins

import "context"

type traceparentKey struct{}

// Traceparent answers the W3C trace context of the task that a handler works on,
// from the context that it was given; "" when nobody traces it. A handler that
// makes spans of its own begins them under it. What it queues is a part of the
// same trace without any more ado.
func Traceparent(ctx context.Context) string {
	text, _ := ctx.Value(traceparentKey{}).(string)
	return text
}
