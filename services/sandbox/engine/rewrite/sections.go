package rewrite

import (
	"fmt"
	"slices"
)

const (
	typeI32 = 0x7f
	typeI64 = 0x7e
	typeF32 = 0x7d
	typeF64 = 0x7c
)

// types notes the signatures and adds the one that the bulk functions have.
func (m *module) types() error {
	r, n := m.section(secType)
	for range r.times(n) {
		if form := r.byte(); form != 0x60 && r.err == nil {
			return fmt.Errorf("a type has the form %#x, not that of a function", form)
		}
		params := r.take(r.u32())
		results := r.take(r.u32())
		m.signatures = append(m.signatures, letters(params)+":"+letters(results))
	}
	if r.err != nil {
		return fmt.Errorf("read the types: %w", r.err)
	}
	m.more(secType, 1, []byte{0x60, 3, typeI32, typeI32, typeI32, 0})
	return nil
}

func letters(types []byte) string {
	s := make([]byte, len(types))
	for i, t := range types {
		switch t {
		case typeI32:
			s[i] = 'i'
		case typeI64:
			s[i] = 'I'
		case typeF32:
			s[i] = 'f'
		case typeF64:
			s[i] = 'F'
		default:
			s[i] = '?'
		}
	}
	return string(s)
}

// imports checks that nothing but what is known is imported, and finds the hook.
func (m *module) imports() error {
	known := Imports()
	r, n := m.section(secImport)
	m.hook = -1
	for range r.times(n) {
		mod, name, kind := r.name(), r.name(), r.byte()
		if r.err != nil {
			break
		}
		if kind != 0 {
			return fmt.Errorf("import %q %q is no function", mod, name)
		}
		t := r.u32()
		if r.err != nil {
			break
		}
		i := slices.IndexFunc(known, func(k Import) bool { return k.Module == mod && k.Name == name })
		if i < 0 {
			return fmt.Errorf("import %q %q is unknown", mod, name)
		}
		if want := known[i].Params + ":" + known[i].Results; int64(t) >= int64(len(m.signatures)) || m.signatures[t] != want {
			return fmt.Errorf("import %q %q does not have the type %s", mod, name, want)
		}
		if name == m.Hook && known[i].Params == "" && known[i].Results == "i" {
			m.hook = int(m.funcs)
		}
		m.funcs++
	}
	if r.err != nil {
		return fmt.Errorf("read the imports: %w", r.err)
	}
	if m.hook < 0 {
		return fmt.Errorf("the hook %q is not imported", m.Hook)
	}
	return nil
}

// functions adds the two bulk functions.
func (m *module) functions() error {
	r, n := m.section(secFunction)
	if r.err != nil {
		return fmt.Errorf("read the functions: %w", r.err)
	}
	m.funcs += n
	bulkType := appendUint(nil, uint32(len(m.signatures)))
	m.more(secFunction, 2, append(bulkType, bulkType...))
	return nil
}

// tables checks that there is one table, of functions.
func (m *module) tables() error {
	r, n := m.section(secTable)
	if kind := r.byte(); r.err != nil || n != 1 || kind != 0x70 {
		return fmt.Errorf("the module has %d tables, or one that is not of functions", n)
	}
	return nil
}

// memories gives the memory its bounds.
func (m *module) memories() error {
	r, n := m.section(secMemory)
	flags := r.byte()
	least := r.u32()
	if r.err != nil || n != 1 || flags > 1 {
		return fmt.Errorf("the module has %d memories, or one that is shared or has 64 bits", n)
	}
	if least > m.MinPages {
		return fmt.Errorf("the module needs a memory of %d pages, not %d", least, m.MinPages)
	}
	m.sections[secMemory] = appendUint(appendUint([]byte{1, 1}, m.MinPages), m.MaxPages)
	return nil
}

// globals checks that one changes, the stack pointer, and adds the fuel.
func (m *module) globals() error {
	r, n := m.section(secGlobal)
	changeable := ""
	for range r.times(n) {
		kind, mutable := r.byte(), r.byte()
		if mutable != 0 {
			changeable += letters([]byte{kind})
		}
		r.constant()
	}
	if r.err != nil {
		return fmt.Errorf("read the globals: %w", r.err)
	}
	if changeable != "i" {
		return fmt.Errorf("the changeable globals are of the types %q, not one of type i", changeable)
	}
	m.nglobals = n
	m.more(secGlobal, 1, append(appendInt([]byte{typeI32, 1, 0x41}, int32(m.Fuel)), 0x0b))
	return nil
}

// exports checks that the memory and the stack pointer can be reached under their names.
func (m *module) exports() error {
	r, n := m.section(secExport)
	kinds := map[string]byte{}
	for range r.times(n) {
		name := r.name()
		kinds[name] = r.byte()
		r.u32()
	}
	if r.err != nil {
		return fmt.Errorf("read the exports: %w", r.err)
	}
	for name, kind := range map[string]byte{"memory": 2, "__stack_pointer": 3} {
		if got, ok := kinds[name]; !ok || got != kind {
			return fmt.Errorf("the module does not export its %s", name)
		}
	}
	return nil
}
