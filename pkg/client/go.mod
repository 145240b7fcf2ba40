module github.com/toolcrib/toolcrib/pkg/client

go 1.26.0

require github.com/toolcrib/toolcrib/pkg/contracts v0.0.0-00010101000000-000000000000

replace github.com/toolcrib/toolcrib/pkg/contracts => ../contracts
