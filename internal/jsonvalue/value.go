package jsonvalue

import (
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a [Value] is.
type Kind uint8

// The kinds. Absent is that of the zero Value: no value at all, which is not
// the same as null.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	List
	Object

	chunk Kind = 255 // a part of a long list, inside this package alone
)

// String is the kind in words, as messages use it.
func (k Kind) String() string {
	switch k {
	case Absent:
		return "nothing"
	case Null:
		return "null"
	case Bool:
		return "a boolean"
	case Number:
		return "a number"
	case String:
		return "a string"
	case List:
		return "a list"
	}
	return "an object"
}

// Value is a JSON value, or absent. It never changes.
type Value struct {
	kind  Kind
	truth bool
	text  string // of a string, or of a number as it was written
	node  *node
}

// node is the inside of a list or an object.
type node struct {
	owner *owner // the document that may write here; nil: nobody may
	items []Value
	keys  []string       // of an object: the name of each item
	index map[string]int // of an object with more than smallObject slots
	size  int            // about its length as JSON text; of a chunk nothing
	dead  int32          // slots of an object whose item is absent: removed members
	// levels is how deep it is nested, itself included, or was once: at least
	// as deep as it is.
	levels int32
	// printed is it as JSON text, if that is known: it was parsed from just that,
	// or printed and not changed since. Of a chunk it is empty.
	printed string
}

// owner is the identity of one document between two snapshots.
type owner struct{ _ byte }

// smallObject is how many members are searched one by one.
const smallObject = 8

// NewNull returns null.
func NewNull() Value { return Value{kind: Null} }

// NewBool returns true or false.
func NewBool(b bool) Value { return Value{kind: Bool, truth: b} }

// NewString returns the string s, WTF-8.
func NewString(s string) Value { return Value{kind: String, text: s} }

// NewInt returns the number n.
func NewInt(n int64) Value { return Value{kind: Number, text: strconv.FormatInt(n, 10)} }

// NewList returns a list of values, none of which may be absent.
func NewList(values ...Value) Value {
	return Value{kind: List, node: newList(slices.Clone(values))}
}

// newList makes a list of what is its own from now on.
func newList(items []Value) *node {
	n := &node{items: items, size: 2, levels: 1}
	for _, item := range items {
		n.size += item.size() + itemSize
		n.holds(item)
	}
	return n
}

// Member is a named value of an object.
type Member struct {
	Name  string
	Value Value
}

// NewObject returns an object with these members in this order. Members that
// are absent are left out; of several with one name the last counts, in the
// place of the first.
func NewObject(members ...Member) Value {
	n := newObject(len(members))
	for _, m := range members {
		if m.Value.Present() {
			n.put(m.Name, m.Value)
		}
	}
	return Value{kind: Object, node: n}
}

func newObject(size int) *node {
	return &node{items: make([]Value, 0, size), keys: make([]string, 0, size), size: 2, levels: 1}
}

// Kind returns what v is.
func (v Value) Kind() Kind { return v.kind }

// Present reports whether there is a value; null is one.
func (v Value) Present() bool { return v.kind != Absent }

// IsNull reports whether v is null. An absent value is not.
func (v Value) IsNull() bool { return v.kind == Null }

// Bool returns a boolean; ok is false if v is none.
func (v Value) Bool() (b, ok bool) { return v.truth, v.kind == Bool }

// Text returns the text of a string, WTF-8; ok is false if v is none.
func (v Value) Text() (s string, ok bool) {
	if v.kind != String {
		return "", false
	}
	return v.text, true
}

// Literal returns a number as it was written; ok is false if v is none.
func (v Value) Literal() (s string, ok bool) {
	if v.kind != Number {
		return "", false
	}
	return v.text, true
}

// Float returns a number as the nearest double, infinite where it is beyond
// their range; ok is false if v is no number.
func (v Value) Float() (f float64, ok bool) {
	if v.kind != Number {
		return 0, false
	}
	f, _ = strconv.ParseFloat(v.text, 64)
	return f, true
}

// maxSafe is the largest integer below which doubles have no gaps.
const maxSafe = 1<<53 - 1

// Int returns a number that is an integer from -(2^53-1) to 2^53-1, however it
// is written (1.0 and 1e0 are 1); ok is false for anything else.
func (v Value) Int() (n int64, ok bool) {
	f, ok := v.Float()
	if !ok || f != math.Trunc(f) || math.Abs(f) > maxSafe {
		return 0, false
	}
	return int64(f), true
}

// Len is the number of elements of a list or members of an object, else 0.
func (v Value) Len() int {
	if v.node == nil {
		return 0
	}
	if v.node.chunked() {
		return v.node.count()
	}
	return len(v.node.items) - int(v.node.dead)
}

// At returns element i of a list, which must have one. In a long list it is
// searched for: [Value.Items] is the way to see all.
func (v Value) At(i int) Value { return v.node.at(i) }

// Items yields the elements of a list; nothing if v is none.
func (v Value) Items() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.kind != List {
			return
		}
		if v.node.chunked() {
			v.node.eachOfChunks(yield)
			return
		}
		for i, item := range v.node.items {
			if !yield(i, item) {
				return
			}
		}
	}
}

// Members yields the members of an object in order; nothing if v is none.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.kind != Object {
			return
		}
		for i, item := range v.node.items {
			if item.Present() && !yield(v.node.keys[i], item) {
				return
			}
		}
	}
}

// Get returns a member of an object, absent if there is none or v is no object.
func (v Value) Get(name string) Value {
	if v.kind != Object {
		return Value{}
	}
	if i := v.node.slot(name); i >= 0 {
		return v.node.items[i]
	}
	return Value{}
}

// GetText returns the text of a member that is a string.
func (v Value) GetText(name string) (s string, ok bool) { return v.Get(name).Text() }

// slot returns where a member stands, -1 if there is none.
func (n *node) slot(name string) int {
	if n.index != nil {
		if i, ok := n.index[name]; ok {
			return i
		}
		return -1
	}
	for i, key := range n.keys {
		if key == name && n.items[i].Present() {
			return i
		}
	}
	return -1
}

// put sets a member, in its old place if there is one.
func (n *node) put(name string, v Value) {
	if i := n.slot(name); i >= 0 {
		n.size += v.size() - n.items[i].size()
		n.items[i] = v
	} else {
		n.size += v.size() + nameSize(name)
		n.push(name, v)
	}
	n.holds(v)
}

// push adds a member that is not there yet.
func (n *node) push(name string, v Value) {
	n.items = append(n.items, v)
	n.keys = append(n.keys, name)
	switch {
	case n.index != nil:
		n.index[name] = len(n.items) - 1
	case len(n.items) > smallObject:
		n.reindex()
	}
}

func (n *node) reindex() {
	n.index = nil
	if n.keys == nil || len(n.items) <= smallObject {
		return
	}
	n.index = make(map[string]int, len(n.items)+1)
	for i, key := range n.keys {
		if n.items[i].Present() {
			n.index[key] = i
		}
	}
}

// copyFor returns a copy of n that o may write to. What is inside has two
// places from now on, so it is nobody's.
func (n *node) copyFor(o *owner) *node {
	c := &node{owner: o, size: n.size, levels: n.levels}
	if n.keys == nil && len(n.items) > maxFlat && !n.chunked() {
		c.items = chunksOf(n.items, nil)
		return c
	}
	for _, item := range n.items {
		item.disown(o)
	}
	if n.dead > 0 {
		c.items = make([]Value, 0, len(n.items)-int(n.dead))
		c.keys = make([]string, 0, len(n.items)-int(n.dead))
		for i, item := range n.items {
			if item.Present() {
				c.items = append(c.items, item)
				c.keys = append(c.keys, n.keys[i])
			}
		}
		c.reindex()
		return c
	}
	// One slot to spare: most copies are made to add something.
	c.items = append(make([]Value, 0, len(n.items)+1), n.items...)
	if n.keys != nil {
		c.keys = append(make([]string, 0, len(n.keys)+1), n.keys...)
		c.index = maps.Clone(n.index)
	}
	return c
}

// squeeze gives up the slots of removed members.
func (n *node) squeeze() {
	at := 0
	for i, item := range n.items {
		if item.Present() {
			n.items[at], n.keys[at] = item, n.keys[i]
			at++
		}
	}
	clear(n.items[at:])
	clear(n.keys[at:])
	n.items, n.keys, n.dead = n.items[:at], n.keys[:at], 0
	n.reindex()
}

// Detach returns v without a hold on the text it was parsed from: a small value
// kept for long would otherwise keep all of it.
func (v Value) Detach() Value {
	v.text = strings.Clone(v.text)
	if v.node != nil {
		n := v.node.copyFor(nil)
		for i := range n.items {
			n.items[i] = n.items[i].Detach()
		}
		if n.keys != nil {
			for i := range n.keys {
				n.keys[i] = strings.Clone(n.keys[i])
			}
			n.reindex()
		}
		v.node = n
	}
	return v
}

// Equal reports whether two values are the same JSON value: numbers by the
// double they denote, strings by code unit, objects whatever the order of their
// members. Absent equals only absent.
func Equal(a, b Value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case Bool:
		return a.truth == b.truth
	case String:
		return a.text == b.text
	case Number:
		if a.text == b.text {
			return true
		}
		x, _ := a.Float()
		y, _ := b.Float()
		return x == y
	case List:
		return a.node == b.node || a.Len() == b.Len() && slices.EqualFunc(a.node.elements(), b.node.elements(), Equal)
	case Object:
		if a.node == b.node {
			return true
		}
		if a.Len() != b.Len() {
			return false
		}
		for name, x := range a.Members() {
			if !Equal(x, b.Get(name)) {
				return false
			}
		}
	}
	return true
}
