package agui

import (
	"slices"
	"strings"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// The makers of fields. Their last argument says where the value goes.

func optText[T any](name string, n need, at func(*T) *Opt[string], allowed ...string) field[T] {
	return field[T]{name: name, need: n, read: func(d *decoder, v Value, to *T) bool {
		s, ok := readText(d, v, allowed)
		if ok {
			*at(to) = Some(s)
		}
		return ok
	}}
}

func text[T any](name string, at func(*T) *string, allowed ...string) field[T] {
	return field[T]{name: name, need: required, read: func(d *decoder, v Value, to *T) bool {
		s, ok := readText(d, v, allowed)
		if ok {
			*at(to) = s
		}
		return ok
	}}
}

// textOr is a text that a lenient decoder takes for "" when it is not there.
func textOr[T any](name string, at func(*T) *string) field[T] {
	f := text(name, at)
	f.need = expected
	return f
}

func readText(d *decoder, v Value, allowed []string) (string, bool) {
	s, ok := v.Text()
	if !ok {
		return "", d.wrong(v, "a string")
	}
	if len(allowed) > 0 && !slices.Contains(allowed, s) {
		return "", d.fail("is none of " + strings.Join(allowed, ", "))
	}
	return s, true
}

// fixed is a member that can only be this text and says nothing.
func fixed[T any](name string, n need, text string) field[T] {
	return field[T]{name: name, need: n, read: func(d *decoder, v Value, _ *T) bool {
		_, ok := readText(d, v, []string{text})
		return ok
	}}
}

// tag is the member that decided which fields there are.
func tag[T any](name string) field[T] { return field[T]{name: name, null: nullData} }

func object[T any](name string, n need, at func(*T) *Value) field[T] {
	return field[T]{name: name, need: n, read: func(d *decoder, v Value, to *T) bool {
		if v.Kind() != jsonvalue.Object {
			return d.wrong(v, "an object")
		}
		*at(to) = v
		return true
	}}
}

// opaque is any value but null.
func opaque[T any](name string, n need, at func(*T) *Value) field[T] {
	return field[T]{name: name, need: n, read: func(d *decoder, v Value, to *T) bool {
		if v.IsNull() {
			return d.fail("is null")
		}
		*at(to) = v
		return true
	}}
}

// anything is any value, null included.
func anything[T any](name string, n need, at func(*T) *Value) field[T] {
	return field[T]{name: name, need: n, null: nullData, read: func(_ *decoder, v Value, to *T) bool {
		*at(to) = v
		return true
	}}
}

// legacyNull is f, with null forgiven everywhere.
func legacyNull[T any](f field[T]) field[T] {
	f.null = nullLegacy
	return f
}

func optBool[T any](name string, at func(*T) *Opt[bool]) field[T] {
	return field[T]{name: name, read: func(d *decoder, v Value, to *T) bool {
		b, ok := v.Bool()
		if !ok {
			return d.wrong(v, "a boolean")
		}
		*at(to) = Some(b)
		return true
	}}
}

func optInt[T any](name string, smallest int64, at func(*T) *Opt[int64]) field[T] {
	return field[T]{name: name, read: func(d *decoder, v Value, to *T) bool {
		n, ok := v.Int()
		switch {
		case !ok:
			return d.fail("is not an integer in the range of AG-UI")
		case n < smallest:
			return d.fail("is too small")
		}
		*at(to) = Some(n)
		return true
	}}
}

func list[T, E any](name string, n need, at func(*T) *[]E, one func(d *decoder, v Value, to *E) verdict) field[T] {
	return field[T]{name: name, need: n, read: func(d *decoder, v Value, to *T) bool {
		out, ok := readList(d, v, one)
		if ok {
			*at(to) = out
		}
		return ok
	}}
}

func texts[T any](name string, at func(*T) *[]string) field[T] {
	return list(name, optional, at, func(d *decoder, v Value, to *string) verdict {
		s, ok := readText(d, v, nil)
		*to = s
		return element(ok)
	})
}

// objects is a list of objects with these fields.
func objects[T, E any](name string, at func(*T) *[]E, fields []field[E]) field[T] {
	return list(name, optional, at, func(d *decoder, v Value, to *E) verdict {
		return element(readObject(d, v, fields, to))
	})
}
