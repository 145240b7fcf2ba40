package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// limits bound a JSON text.
type limits struct {
	bytes, depth, values int
	unique               bool // refuse an object with one property twice
}

// The limits of schemas and arguments. The largest real schemas seen have 90 KB, 3,000 values and a depth of 24.
func schemaLimits() limits { return limits{bytes: 1 << 20, depth: 64, values: 10_000} }
func argsLimits() limits {
	return limits{bytes: 16 << 20, depth: 128, values: 100_000, unique: true}
}

// Args reads the arguments of a call as [Validator.Validate] does: an object of values of
// encoding/json with every number a json.Number. nil is an object without properties. Larger ones, and ones in
// which an object has a property twice, are errors, whose texts hold nothing of the arguments.
func Args(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	v, _, err := decode(raw, argsLimits())
	if err != nil {
		return nil, err
	}
	if m, ok := v.(map[string]any); ok {
		return m, nil
	}
	return nil, errors.New("it is no object")
}

// decode reads raw with exact numbers, and returns how many values it holds.
func decode(raw json.RawMessage, l limits) (v any, values int, err error) {
	if len(raw) > l.bytes {
		return nil, 0, fmt.Errorf("it has %d bytes; want at most %d", len(raw), l.bytes)
	}
	depth, members := scan(raw)
	if depth > l.depth {
		return nil, 0, fmt.Errorf("it is nested %d deep; want at most %d", depth, l.depth)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, 0, fmt.Errorf("it is no valid JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, 0, errors.New("it is no valid JSON: something follows the value")
	}
	var c counter
	if err := c.count(v); err != nil {
		return nil, 0, err
	}
	if c.values > l.values {
		return nil, 0, fmt.Errorf("it holds %d values; want at most %d", c.values, l.values)
	}
	if l.unique && c.members != members {
		return nil, 0, errors.New("an object in it has the same property twice")
	}
	return v, c.values, nil
}

// scan returns the depth of a JSON text and the number of members of its
// objects, those counted that a decoder drops because their name comes again. Its result
// means nothing where raw is not valid.
func scan(raw []byte) (depth, members int) {
	level, inString := 0, false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if inString {
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
			continue
		}
		switch c {
		case '"':
			inString = true
		case '{', '[':
			level++
			depth = max(depth, level)
		case '}', ']':
			level--
		case ':':
			members++
		}
	}
	return depth, members
}

type counter struct{ values, members int }

func (c *counter) count(v any) error {
	c.values++
	switch v := v.(type) {
	case json.Number:
		return checkNumber(string(v))
	case []any:
		for _, item := range v {
			if err := c.count(item); err != nil {
				return err
			}
		}
	case map[string]any:
		c.members += len(v)
		for _, item := range v {
			if err := c.count(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNumber refuses numbers that are so long that exact arithmetic with them takes long.
func checkNumber(n string) error {
	const longest, largest = 400, 400
	if len(n) > longest {
		return fmt.Errorf("a number in it has %d digits; want at most %d", len(n), longest)
	}
	if i := strings.IndexAny(n, "eE"); i >= 0 {
		if e, err := strconv.Atoi(n[i+1:]); err != nil || e > largest || e < -largest {
			return fmt.Errorf("a number in it is out of range; want an exponent from -%d to %d", largest, largest)
		}
	}
	return nil
}
