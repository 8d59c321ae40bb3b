package agui

import "github.com/agstore/agstore/internal/jsonvalue"

// Value is a JSON value that never changes: members in order, numbers as they
// were written, strings as WTF-8. The zero Value is absent, which is not null.
type Value = jsonvalue.Value

// Op is one operation of a JSON Patch.
type Op = jsonvalue.Op

// Opt is a field that may be absent.
type Opt[T any] struct {
	V   T
	Set bool
}

// Some returns a field that is there.
func Some[T any](v T) Opt[T] { return Opt[T]{V: v, Set: true} }

// Or returns the field's value, or v if it is absent.
func (o Opt[T]) Or(v T) T {
	if o.Set {
		return o.V
	}
	return v
}

// members collects the members of an object that is to be printed.
type members []jsonvalue.Member

func (m *members) add(name string, v Value) {
	if v.Present() {
		*m = append(*m, jsonvalue.Member{Name: name, Value: v})
	}
}

func (m *members) text(name, s string) { m.add(name, jsonvalue.NewString(s)) }

func (m *members) opt(name string, s Opt[string]) {
	if s.Set {
		m.text(name, s.V)
	}
}

func (m *members) object() Value { return jsonvalue.NewObject(*m...) }

// listOf is the list of what one returns of each element.
func listOf[T any](list []T, one func(*T) Value) Value {
	out := make([]Value, len(list))
	for i := range list {
		out[i] = one(&list[i])
	}
	return jsonvalue.NewList(out...)
}
