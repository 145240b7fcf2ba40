module github.com/toolcrib/toolcrib/internal/house

go 1.26.0
