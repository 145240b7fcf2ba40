package embedded

import (
	"fmt"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// catalogue returns tools tools in listings of equal size, and queries to them.
func catalogue(tools, listings int) ([]*contracts.Listing, []string) {
	l := newLanguage(1, 8000)
	var list []*contracts.Listing
	for i := range listings {
		list = append(list, l.listing(fmt.Sprintf("server%d", i), tools/listings))
	}
	var queries []string
	for range 500 {
		queries = append(queries, l.text(3+l.IntN(8)))
	}
	return list, queries
}

// shapes are catalogues of the same size.
var shapes = []struct{ tools, listings int }{{10_000, 1}, {10_000, 100}, {10_000, 1000}}

func benchmark(b *testing.B, run func(b *testing.B, listings []*contracts.Listing, queries []string)) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("tools=%d/listings=%d", s.tools, s.listings), func(b *testing.B) {
			listings, queries := catalogue(s.tools, s.listings)
			b.ReportAllocs()
			run(b, listings, queries)
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	benchmark(b, func(b *testing.B, listings []*contracts.Listing, _ []string) {
		for b.Loop() {
			size := int64(0)
			for _, l := range listings {
				size += Build(l).Size()
			}
			b.ReportMetric(float64(size)/1e6, "MB")
		}
	})
}

func BenchmarkAssemble(b *testing.B) {
	benchmark(b, func(b *testing.B, listings []*contracts.Listing, _ []string) {
		parts := build(listings)
		for i := range parts {
			parts[i].Hidden = []int{0, 3}
		}
		for b.Loop() {
			NewView(parts)
		}
	})
}

func BenchmarkSearch(b *testing.B) {
	benchmark(b, func(b *testing.B, listings []*contracts.Listing, queries []string) {
		v := NewView(build(listings))
		for i := 0; b.Loop(); i++ {
			v.Search(queries[i%len(queries)], 8)
		}
	})
}

func BenchmarkSearchMisspelt(b *testing.B) {
	benchmark(b, func(b *testing.B, listings []*contracts.Listing, queries []string) {
		v := NewView(build(listings))
		l := newLanguage(1, 8000)
		for i := range queries {
			queries[i] += " " + l.misspelt(l.word()) + " " + l.misspelt(l.word())
		}
		for i := 0; b.Loop(); i++ {
			v.Search(queries[i%len(queries)], 8)
		}
	})
}

func build(listings []*contracts.Listing) []Part {
	var parts []Part
	for _, l := range listings {
		parts = append(parts, Part{Segment: Build(l)})
	}
	return parts
}
