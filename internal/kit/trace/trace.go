// Package trace carries W3C trace context over the bus and wraps the few parts
// of OpenTelemetry that services use. Without [Setup] spans cost next to nothing and go nowhere.
package trace

import (
	"context"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

const scope = "github.com/toolcrib/toolcrib"

// Setup sends the spans of this process to the OTLP/HTTP endpoint, such as
// http://127.0.0.1:4318, under the name service. Call the returned function at
// the end to send what is left. An empty endpoint does nothing.
func Setup(ctx context.Context, endpoint, service string) (shutdown func(context.Context) error, err error) {
	if endpoint == "" {
		return func(context.Context) error { return nil }, nil
	}
	exp, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint+"/v1/traces"))
	if err != nil {
		return nil, fmt.Errorf("export traces to %s: %w", endpoint, err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exp),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))
	otel.SetTracerProvider(tp)
	return tp.Shutdown, nil
}

// Start begins a span; call end with the error that ended it, nil for none.
func Start(ctx context.Context, name string, attrs ...attribute.KeyValue) (_ context.Context, end func(error)) {
	ctx, span := otel.Tracer(scope).Start(ctx, name, oteltrace.WithAttributes(attrs...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Inject writes the trace context of ctx to h, Extract returns ctx with that of h.
func Inject(ctx context.Context, h nats.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(http.Header(h)))
}

// Extract returns ctx with the trace context that h carries, if any.
func Extract(ctx context.Context, h nats.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, carrier(h))
}

// Parent returns the traceparent of ctx, "" where there is none, and WithParent the opposite.
func Parent(ctx context.Context) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c["traceparent"]
}

// WithParent returns ctx with the trace context of a traceparent; "" changes nothing.
func WithParent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// carrier finds a header under whatever case it was sent.
type carrier nats.Header

func (c carrier) Get(key string) string {
	if v := nats.Header(c).Get(key); v != "" {
		return v
	}
	return nats.Header(c).Get(http.CanonicalHeaderKey(key))
}
func (c carrier) Set(key, value string) { nats.Header(c).Set(key, value) }
func (c carrier) Keys() []string        { return nil }
