package jsonvalue

import "slices"

// A list of up to maxFlat elements is a slice of them. In a longer one an insert
// far from the end would move too much, so it is then cut into chunks: its items
// are values of the kind chunk, whose nodes hold the elements. Chunks are copied
// when they are written to, as lists are, so that a long list is not copied
// whole for one element of it.
const (
	maxFlat   = 4096
	maxChunk  = 4096 // a chunk that would have more is cut in two
	fullChunk = 2048 // what chunks are made with, and neighbours joined to
	minChunk  = 512  // one that has fewer is joined to a neighbour, if that is small
)

// chunked reports whether n is a list in chunks.
func (n *node) chunked() bool { return len(n.items) > 0 && n.items[0].kind == chunk }

// chunksOf cuts elements, which are nobody's to write to from now on but the
// owner's, into chunks.
func chunksOf(items []Value, o *owner) []Value {
	nodes := make([]node, 0, len(items)/fullChunk+1)
	out := make([]Value, 0, cap(nodes)+1)
	for part := range slices.Chunk(items, fullChunk) {
		nodes = append(nodes, node{owner: o, items: part})
		out = append(out, Value{kind: chunk, node: &nodes[len(nodes)-1]})
	}
	return out
}

// count is how many elements a list has.
func (n *node) count() int {
	if !n.chunked() {
		return len(n.items)
	}
	count := 0
	for _, c := range n.items {
		count += len(c.node.items)
	}
	return count
}

// locate finds element i of a list in chunks: in which chunk it is, and where
// there. One behind the last is in no chunk.
func (n *node) locate(i int) (at, inside int) {
	for at, c := range n.items {
		if i < len(c.node.items) {
			return at, i
		}
		i -= len(c.node.items)
	}
	return len(n.items), i
}

// has reports whether a list has an element i.
func (n *node) has(i int) bool {
	if !n.chunked() {
		return i < len(n.items)
	}
	at, _ := n.locate(i)
	return at < len(n.items)
}

// at gives element i of a list, or what is in a slot of an object.
func (n *node) at(i int) Value {
	if !n.chunked() {
		return n.items[i]
	}
	at, inside := n.locate(i)
	return n.items[at].node.items[inside]
}

// setAt changes element i of a list, or what is in a slot of an object.
func (n *node) setAt(i int, v Value) {
	if !n.chunked() {
		n.items[i] = v
		return
	}
	at, inside := n.locate(i)
	n.writable(at).items[inside] = v
}

// writable gives a chunk of n that may be written to, as n itself may. What a
// list that is no longer the document's still has to undo it undoes in copies:
// its chunks may be those of others as well.
func (n *node) writable(at int) *node {
	c := n.items[at].node
	if n.owner == nil || c.owner != n.owner {
		c = c.copyFor(n.owner)
		n.items[at].node = c
	}
	return c
}

// elements lists the elements of a list, which may be the list's own slice.
func (n *node) elements() []Value {
	if !n.chunked() {
		return n.items
	}
	out := make([]Value, 0, n.count())
	for _, c := range n.items {
		out = append(out, c.node.items...)
	}
	return out
}

// eachOfChunks yields the elements of a list in chunks.
func (n *node) eachOfChunks(yield func(int, Value) bool) {
	i := 0
	for _, c := range n.items {
		for _, item := range c.node.items {
			if !yield(i, item) {
				return
			}
			i++
		}
	}
}

// insert puts v before element i of a list.
func (n *node) insert(i int, v Value) {
	if !n.chunked() {
		if len(n.items)-i <= maxFlat {
			n.items = slices.Insert(n.items, i, v)
			return
		}
		n.items = chunksOf(n.items, n.owner)
	}
	at, inside := n.locate(i)
	if at == len(n.items) {
		at--
		inside = len(n.items[at].node.items)
	}
	c := n.writable(at)
	c.items = slices.Insert(c.items, inside, v)
	if len(c.items) > maxChunk {
		half := len(c.items) / 2
		upper := &node{owner: n.owner, items: slices.Clone(c.items[half:])}
		clear(c.items[half:])
		c.items = c.items[:half]
		n.items = slices.Insert(n.items, at+1, Value{kind: chunk, node: upper})
	}
}

// cut takes element i out of a list.
func (n *node) cut(i int) {
	if !n.chunked() {
		if len(n.items)-i <= maxFlat {
			n.items = slices.Delete(n.items, i, i+1)
			return
		}
		n.items = chunksOf(n.items, n.owner)
	}
	at, inside := n.locate(i)
	c := n.writable(at)
	c.items = slices.Delete(c.items, inside, inside+1)
	if len(c.items) < minChunk {
		n.join(at)
	}
}

// join puts a small chunk together with a neighbour, if both are small.
func (n *node) join(at int) {
	small := func(i int) bool {
		return i >= 0 && i < len(n.items) && len(n.items[i].node.items)+len(n.items[at].node.items) <= fullChunk
	}
	switch {
	case len(n.items) == 1:
		// It is no long list any more; without an element it has no chunk.
		n.items = slices.Clone(n.items[0].node.items)
	case len(n.items[at].node.items) == 0:
		n.items = slices.Delete(n.items, at, at+1)
	case small(at + 1):
		n.joinNext(at)
	case small(at - 1):
		n.joinNext(at - 1)
	}
}

func (n *node) joinNext(at int) {
	next := n.items[at+1].node
	c := n.writable(at)
	for _, item := range next.items {
		// What may be in a chunk of others as well is not ours.
		if next.owner != n.owner {
			item.disown(n.owner)
		}
	}
	c.items = append(c.items, next.items...)
	n.items = slices.Delete(n.items, at+1, at+2)
}
