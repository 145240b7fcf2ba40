module github.com/toolcrib/toolcrib/examples/plugin-ledger

go 1.26.0

require (
	github.com/nats-io/nats.go v1.55.0
	github.com/toolcrib/toolcrib/pkg/contracts v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/pkg/plugin v0.0.0-00010101000000-000000000000
)

require (
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/nats-io/nkeys v0.4.17 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace (
	github.com/toolcrib/toolcrib/pkg/contracts => ../../pkg/contracts
	github.com/toolcrib/toolcrib/pkg/plugin => ../../pkg/plugin
)
