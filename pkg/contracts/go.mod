module github.com/toolcrib/toolcrib/pkg/contracts

go 1.26.0
