package jsonvalue

import "slices"

// Document is a value that changes. The zero Document is absent. It is not safe
// for concurrent use and must not be copied once it is in use; its snapshots
// may go anywhere.
type Document struct {
	root  Value
	owner *owner // marks the nodes that may be changed in place
}

// NewDocument returns a document that begins as v.
func NewDocument(v Value) *Document {
	d := new(Document)
	d.Set(v)
	return d
}

// Set makes v the document.
func (d *Document) Set(v Value) { d.root = v }

// Snapshot returns what the document is now. It never changes; the document
// copies, of what it changes from now on, the lists and objects on the way
// there.
func (d *Document) Snapshot() Value {
	d.owner = nil
	return d.root
}

// AppendJSON appends what the document is now as [Value.AppendJSON] does.
func (d *Document) AppendJSON(dst []byte) []byte {
	// Escapes may take more; mostly this is enough.
	return d.root.print(slices.Grow(dst, d.Size()+d.Size()/64), d.owner)
}

// Present reports whether the document is not absent.
func (d *Document) Present() bool { return d.root.Present() }

// Kind is what the document is.
func (d *Document) Kind() Kind { return d.root.kind }

// Size is about the length of the document as JSON text in bytes.
func (d *Document) Size() int { return d.root.size() }

// Merge sets every member of the object v in the document, which becomes an
// object if it is none. Values are replaced whole (SEMANTICS R-META-1). If v is
// no object, nothing happens.
func (d *Document) Merge(v Value) {
	if v.kind != Object {
		return
	}
	if d.root.kind != Object {
		d.Set(v)
		return
	}
	n := d.own(&d.root)
	for name, item := range v.Members() {
		n.put(name, item)
	}
}

// own makes the list or object at place one that may be changed in place.
func (d *Document) own(place *Value) *node {
	if d.owner == nil {
		d.owner = new(owner)
	}
	if place.node.owner != d.owner {
		place.node = place.node.copyFor(d.owner)
	}
	place.node.printed = ""
	return place.node
}

// size is about the length of v as JSON text.
func (v Value) size() int {
	switch v.kind {
	case Absent:
		return 0
	case Null, Bool:
		return 4
	case Number:
		return len(v.text)
	case String:
		return len(v.text) + 2
	}
	return v.node.size
}

// holds takes note that v is inside n now.
func (n *node) holds(v Value) {
	if v.node != nil {
		n.levels = max(n.levels, v.node.levels+1)
	}
}

// levels counts how deep v is nested.
func (v Value) levels() int {
	if v.node == nil {
		return 0
	}
	deepest := 0
	for _, item := range v.node.items {
		deepest = max(deepest, item.levels())
	}
	if v.kind == chunk {
		return deepest
	}
	return deepest + 1
}

// nameSize is what a member adds to the size of its object beside its value.
func nameSize(name string) int { return len(name) + 4 }

// itemSize is what an element adds to the size of its list beside itself.
const itemSize = 1
