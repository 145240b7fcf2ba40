module github.com/toolcrib/toolcrib/services/indexer

go 1.26.0

require (
	github.com/blevesearch/snowballstem v0.9.0
	github.com/toolcrib/toolcrib/internal/core v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/internal/kit v0.0.0-00010101000000-000000000000
	github.com/toolcrib/toolcrib/pkg/contracts v0.0.0-00010101000000-000000000000
	golang.org/x/text v0.44.0
)

replace (
	github.com/toolcrib/toolcrib/internal/core => ../../internal/core
	github.com/toolcrib/toolcrib/internal/kit => ../../internal/kit
	github.com/toolcrib/toolcrib/pkg/contracts => ../../pkg/contracts
)
