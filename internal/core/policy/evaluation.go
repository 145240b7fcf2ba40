package policy

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// What all conditions of one decision are held to. The cost decides; the time only
// ends what the cost should have ended.
const (
	mostCostInAll  = 1_000_000
	longestTime    = 2 * time.Second
	longestReadAll = 4096 // bytes of an id or a label that is read whole
)

// A run is what conditions read of a run.
type run struct {
	labels    contracts.Labels
	principal string
}

// An evaluation is the reading of one decision's conditions. It gives them their variables, as an [interpreter.Activation].
type evaluation struct {
	tool Tool
	run  *run            // of the layer whose rules are being evaluated
	args json.RawMessage // nil where there is no call

	source, name string // of the id, once it is split
	split        bool
	object       ref.Val // the arguments, once they are read
	unreadable   error
	spent        uint64
	began        time.Time
}

// holds reports whether c holds; nil always does. problem says why that cannot be told, without anything of the arguments.
func (v *evaluation) holds(c *condition) (holds bool, problem string) {
	if c == nil {
		return true, ""
	}
	if v.began.IsZero() {
		v.began = time.Now()
	}
	if v.spent > mostCostInAll || time.Since(v.began) > longestTime {
		return false, "the conditions for this tool take too long together"
	}
	out, details, err := c.program.Eval(v)
	if spent := details.ActualCost(); spent != nil {
		v.spent += *spent
	}
	if err != nil {
		return false, v.problem(c, err)
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, c.place(nil) + ": it is neither true nor false"
	}
	return bool(b), ""
}

func (v *evaluation) problem(c *condition, err error) string {
	where := c.place(err)
	if _, ok := errors.AsType[interpreter.EvalCancelledError](err); ok {
		return where + ": it takes too long with these arguments"
	}
	if v.unreadable != nil && c.readsArgs {
		return where + ": the arguments cannot be read: " + v.unreadable.Error()
	}
	return where + ": a value is missing or of another type"
}

// Parent returns nil.
func (v *evaluation) Parent() interpreter.Activation { return nil }

// ResolveName returns the value of a variable, false where it is not known.
func (v *evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case varID:
		return text(string(v.tool.ID))
	case varSource, varName:
		if !v.split {
			v.split = true
			if source, name, err := v.tool.ID.Split(); err == nil {
				v.source, v.name = source.String(), name
			}
		}
		if name == varSource {
			return named(v.source)
		}
		return named(v.name)
	case varHash:
		return named(string(v.tool.Hash))
	case varTrusted:
		return types.Bool(v.tool.Trusted), true
	case varReadOnly, varDestructive, varIdempotent, varOpenWorld:
		if !v.tool.Trusted {
			return nil, false
		}
		return types.Bool(annotation(v.tool.Annotations, name)), true
	case varOfArgs:
		return v.arguments()
	case varAgent:
		return text(v.run.labels.Agent)
	case varProfile:
		return text(v.run.labels.Profile)
	case varSession:
		return text(v.run.labels.Session)
	case varSandbox:
		return text(v.run.labels.Sandbox)
	case varChannel:
		return text(v.run.labels.Channel)
	case varRuntime:
		return text(v.run.labels.Runtime)
	case varPrincipal:
		return named(v.run.principal)
	case varRunLabels:
		labels := make(map[string]any, len(v.run.labels.Labels))
		for k, s := range v.run.labels.Labels {
			labels[k] = types.String(s)
		}
		return newObject(labels), true
	}
	return nil, false
}

func text(s string) (any, bool) {
	if len(s) > longestReadAll {
		return nil, false
	}
	return types.String(s), true
}

// named is text for what is unknown where it is empty.
func named(s string) (any, bool) {
	if s == "" {
		return nil, false
	}
	return text(s)
}

// annotation returns what a trusted source means by its hints: what it leaves unsaid is by the defaults of
// MCP, by which a tool is destructive and repeating it does harm unless it is read-only.
func annotation(a *contracts.Annotations, name string) bool {
	if a == nil {
		a = &contracts.Annotations{}
	}
	said := func(hint *bool, unsaid bool) bool {
		if hint == nil {
			return unsaid
		}
		return *hint
	}
	readOnly := said(a.ReadOnlyHint, false)
	switch name {
	case varReadOnly:
		return readOnly
	case varDestructive:
		return said(a.DestructiveHint, !readOnly)
	case varIdempotent:
		return said(a.IdempotentHint, readOnly)
	}
	return said(a.OpenWorldHint, true)
}

func (v *evaluation) arguments() (any, bool) {
	if v.object == nil && v.unreadable == nil {
		var m map[string]any
		if m, v.unreadable = schema.Args(v.args); v.unreadable == nil {
			v.object, v.unreadable = value(m)
		}
	}
	return v.object, v.unreadable == nil
}

// value returns a value of encoding/json, with every number a json.Number, as CEL has it. Numbers are told apart by
// what they are, not by how they are written: 1e3, 1000.0 and 1000 are the same int.
func value(v any) (ref.Val, error) {
	var err error
	switch v := v.(type) {
	case nil:
		return types.NullValue, nil
	case bool:
		return types.Bool(v), nil
	case string:
		return types.String(v), nil
	case json.Number:
		return number(string(v))
	case []any:
		list := make([]ref.Val, len(v))
		for i := range v {
			if list[i], err = value(v[i]); err != nil {
				return nil, err
			}
		}
		return types.NewRefValList(types.DefaultTypeAdapter, list), nil
	case map[string]any:
		m := make(map[string]any, len(v))
		for k := range v {
			if m[k], err = value(v[k]); err != nil {
				return nil, err
			}
		}
		return newObject(m), nil
	}
	return nil, errors.New("it holds something that is no JSON")
}

func number(s string) (ref.Val, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return types.Int(i), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, errors.New("a number in it is out of range")
	}
	// A number that is another one once it is read could pass a rule that it should meet: the tool gets it as it is written.
	if decimalOf(s) != decimalOf(strconv.FormatFloat(f, 'e', -1, 64)) {
		return nil, errors.New("a number in it has more digits than can be compared")
	}
	if f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64 { // the upper one rounds to 2^63, which is no int64
		return types.Int(int64(f)), nil
	}
	return types.Double(f), nil
}

// A decimal is the value of a decimal number: digits, without zeros at either end, with the decimal point before the first, times ten to the exponent.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// decimalOf returns the value of a JSON number. An exponent that no float has makes it one that equals none.
func decimalOf(s string) decimal {
	s, negative := strings.CutPrefix(s, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(s), "e")
	whole, part, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+part, "0")
	exponent := len(whole) - (len(whole) + len(part) - len(digits))
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return decimal{}
	}
	if power != "" {
		n, err := strconv.Atoi(power)
		if err != nil {
			n = math.MaxInt32
		}
		exponent += n
	}
	return decimal{negative, digits, exponent}
}

// An object is a map whose keys come in order: a decision must not depend on chance.
type object struct {
	traits.Mapper
	keys []string
}

func newObject(m map[string]any) object {
	return object{types.NewStringInterfaceMap(types.DefaultTypeAdapter, m), slices.Sorted(maps.Keys(m))}
}

// Iterator returns the keys in the order of their bytes.
func (o object) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, o.keys).Iterator()
}
