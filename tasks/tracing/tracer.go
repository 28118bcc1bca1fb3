package tracing

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// closeTime is how long Close waits for the collector.
const closeTime = 5 * time.Second

// Tracer makes spans and sends them. Its methods may be called on nil, and at
// the same time.
type Tracer struct {
	provider *sdk.TracerProvider
	trace.Tracer
	endCalls context.CancelFunc // to the collector
}

// Start answers what sends spans to the collector that the environment names,
// nil when it names none. Beside the endpoint, the variables of the OpenTelemetry
// SDK hold: OTEL_SERVICE_NAME (default: gantry), OTEL_TRACES_SAMPLER, OTEL_BSP_*,
// OTEL_EXPORTER_OTLP_HEADERS and their like; OTEL_SDK_DISABLED=true and
// OTEL_TRACES_EXPORTER=none turn it off. It speaks http/protobuf; another
// protocol is an error, as is an endpoint that is no URL. Whether the collector
// can be reached is not looked at.
func Start(version string, log zerolog.Logger) (*Tracer, error) {
	if variable, err := Collector(); variable == "" || err != nil {
		return nil, err
	}
	otel.SetErrorHandler(&complaints{log: log})
	exporter, err := otlptracehttp.New(context.Background())
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	calls, endCalls := context.WithCancel(context.Background())
	about, err := resource.New(calls,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "gantry"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		endCalls()
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	t := &Tracer{endCalls: endCalls}
	t.provider = sdk.NewTracerProvider(sdk.WithBatcher(&mortal{exporter, calls}), sdk.WithResource(about))
	t.Tracer = t.provider.Tracer("github.com/phorge-gantry/gantry", trace.WithInstrumentationVersion(version))
	return t, nil
}

// Collector answers which variable of the environment names the collector, "" when
// traces are off, and what is wrong with the variables.
func Collector() (variable string, err error) {
	if variable = endpointVariable(); variable == "" {
		return "", nil
	}
	return variable, check(variable)
}

// endpointVariable answers which variable names the collector, "" when traces
// are off.
func endpointVariable() string {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return ""
	}
	if exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter != "" && exporter != "otlp" {
		return ""
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// check refuses what the SDK would pass over. It does not repeat the endpoint,
// which can hold a password.
func check(variable string) error {
	where, err := url.Parse(os.Getenv(variable))
	if err != nil || where.Scheme != "http" && where.Scheme != "https" || where.Host == "" {
		return fmt.Errorf("traces: %s must be the URL of a collector, such as http://localhost:4318", variable)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := os.Getenv(name); protocol {
		case "":
		case "http/protobuf":
			return nil
		default:
			return fmt.Errorf("traces: %s is %q, and only http/protobuf is spoken here; a collector takes that on port 4318 by default", name, protocol)
		}
	}
	return nil
}

// Close sends what was gathered, until ctx ends and for a few seconds at most,
// and ends. It may be called on nil, and more than once.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	err := t.provider.Shutdown(ctx)
	t.endCalls()
	if err != nil {
		return fmt.Errorf("traces: the last spans may be lost: %w", err)
	}
	return nil
}

// mortal is an exporter whose calls end with the tracer: the SDK would leave
// behind one that the collector does not answer.
type mortal struct {
	sdk.SpanExporter
	calls context.Context
}

// ExportSpans implements sdk.SpanExporter.
func (m *mortal) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.calls, cancel)()
	err := m.SpanExporter.ExportSpans(ctx, spans)
	if m.calls.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // Close has said so
	}
	return err
}
