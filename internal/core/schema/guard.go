package schema

import (
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// heavy is the weight of a schema that refers to itself: no budget is as large.
const heavy = 1 << 30

// budget returns how many evaluations a check of arguments with so many values may take:
// some hundred milliseconds, and more for more values as long as it is in proportion.
func budget(values int) int { return 200_000 + 20*values }

// A guard is a schema that counts its evaluations and panics with [spent] when
// there are too many. A schema can need a number that is exponential in its own
// size or in the depth of the arguments, and the library knows no limit.
type guard struct {
	sch  *jsonschema.Schema
	left int // evaluations
}

// spent is what a guard panics with.
type spent struct{}

// newGuard puts a counter into every subschema of sch, where the library looks
// first: in its format.
func newGuard(sch *jsonschema.Schema) *guard {
	g := &guard{sch: sch}
	for s := range reachable(sch) {
		g.watch(s)
	}
	return g
}

func (g *guard) watch(s *jsonschema.Schema) {
	// The library compares with an enumeration before it looks at the format, so the schema around pays for it.
	once, each := 1, 0
	for _, c := range children(s) {
		once += comparing(c)
	}
	for _, c := range elementwise(s) {
		each += comparing(c)
	}
	format := s.Format
	watch := &jsonschema.Format{Name: "watched", Validate: func(v any) error {
		n := size(v)
		if g.left -= once + n/2 + n*each + matching(s, v); g.left < 0 {
			panic(spent{})
		}
		if format == nil {
			return nil
		}
		return format.Validate(v)
	}}
	if format != nil {
		watch.Name = format.Name
	}
	s.Format = watch
}

// own returns what one evaluation of s costs without its subschemas and its pattern.
func own(s *jsonschema.Schema) int { return 1 + comparing(s) }

// comparing returns what comparing one value with the enumeration of s costs.
func comparing(s *jsonschema.Schema) int {
	if s.Enum == nil {
		return 0
	}
	numbers := 0
	for _, v := range s.Enum.Values {
		if _, ok := v.(json.Number); ok {
			numbers++ // both are parsed for every comparison
		}
	}
	return len(s.Enum.Values)/8 + 2*numbers
}

// matchUnit is how many instructions times bytes of matching cost as much as an evaluation.
const matchUnit = 256

// matching returns what matching v against the pattern of s costs.
func matching(s *jsonschema.Schema, v any) int {
	text, ok := v.(string)
	if p, has := s.Pattern.(*pattern); ok && has && p.checks(text) {
		return len(text) * p.size / matchUnit
	}
	return 0
}

// instructions returns the size of the pattern of s.
func instructions(s *jsonschema.Schema) int {
	if p, ok := s.Pattern.(*pattern); ok {
		return p.size
	}
	return 0
}

// size returns how many values v holds directly.
func size(v any) int {
	switch v := v.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	return 0
}

// weigh returns the sum of a measure over all evaluations of subschemas that one
// value can need at most, [heavy] where there is no bound or it is at least that.
func weigh(sch *jsonschema.Schema, measure func(*jsonschema.Schema) int) int {
	const open = -1
	weights := map[*jsonschema.Schema]int{}
	var visit func(*jsonschema.Schema) int
	visit = func(s *jsonschema.Schema) int {
		switch w, ok := weights[s]; {
		case w == open: // it refers to itself
			return heavy
		case ok:
			return w
		}
		weights[s] = open
		w := min(heavy, measure(s))
		for _, c := range children(s) {
			w = min(heavy, w+visit(c))
		}
		weights[s] = w
		return w
	}
	return visit(sch)
}
