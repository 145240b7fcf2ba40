module github.com/toolcrib/toolcrib/cmd/toolcrib

go 1.26.0

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/google/go-cmp v0.7.0
	github.com/modelcontextprotocol/go-sdk v1.8.0
	github.com/nats-io/nats-server/v2 v2.15.3
	github.com/nats-io/nats.go v1.55.0
	github.com/spf13/cobra v1.10.2
	github.com/toolcrib/toolcrib/examples v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/examples/plugin-ledger v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/internal/core v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/internal/kit v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/pkg/client v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/pkg/contracts v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/services/executor v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/services/gateway v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/services/indexer v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/services/planner v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/services/sandbox v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/services/telemetry v0.0.0-00010101000000-000000000000
	go.opentelemetry.io/proto/otlp v1.11.0
	google.golang.org/protobuf v1.36.12
)

require (
	cel.dev/cel-go v0.33.2 // indirect
	cel.dev/expr v0.25.2 // indirect
	github.com/antithesishq/antithesis-sdk-go v0.9.0-default-no-op // indirect
	github.com/antlr4-go/antlr/v4 v4.13.1 // indirect
	github.com/aymanbagabas/go-udiff v0.4.2 // indirect
	github.com/blevesearch/snowballstem v0.9.0 // indirect
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/danielgtaylor/huma/v2 v2.37.2 // indirect
	github.com/dlclark/regexp2/v2 v2.5.1 // indirect
	github.com/go-jose/go-jose/v4 v4.1.9 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/gofrs/flock v0.13.2 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.30.0 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.3 // indirect
	github.com/nats-io/nkeys v0.4.17 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	github.com/tetratelabs/wazero v1.12.0 // indirect
	github.com/tiktoken-go/tokenizer v0.10.0 // indirect
	github.com/toolcrib/toolcrib/pkg/plugin v0.0.0-00010101000000-000000000000 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.47.0 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.opentelemetry.io/otel/sdk v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/exp v0.0.0-20240823005443-9b4947da3948 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/grpc v1.83.2 // indirect
)

replace (
	github.com/toolcrib/toolcrib/examples => ../../examples
	github.com/toolcrib/toolcrib/examples/plugin-ledger => ../../examples/plugin-ledger
	github.com/toolcrib/toolcrib/internal/core => ../../internal/core
	github.com/toolcrib/toolcrib/internal/kit => ../../internal/kit
	github.com/toolcrib/toolcrib/pkg/client => ../../pkg/client
	github.com/toolcrib/toolcrib/pkg/contracts => ../../pkg/contracts
	github.com/toolcrib/toolcrib/pkg/plugin => ../../pkg/plugin
	github.com/toolcrib/toolcrib/services/executor => ../../services/executor
	github.com/toolcrib/toolcrib/services/gateway => ../../services/gateway
	github.com/toolcrib/toolcrib/services/indexer => ../../services/indexer
	github.com/toolcrib/toolcrib/services/planner => ../../services/planner
	github.com/toolcrib/toolcrib/services/sandbox => ../../services/sandbox
	github.com/toolcrib/toolcrib/services/telemetry => ../../services/telemetry
)
