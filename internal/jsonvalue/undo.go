package jsonvalue

import "slices"

// change is one step of a patch, with what it takes to undo it.
type change struct {
	kind changeKind
	in   *node // nil: the root
	slot int
	old  Value
}

// resize is what a change has added to the size of a container.
type resize struct {
	of *node
	by int
}

type changeKind uint8

const (
	itemSet       changeKind = iota // item slot was old
	itemInserted                    // into a list, at slot
	itemRemoved                     // from a list, at slot
	memberAdded                     // to an object, in its last slot
	memberRemoved                   // from an object, whose slot is kept
)

// rollBack undoes all changes, the last first.
func (p *patcher) rollBack() {
	for _, c := range slices.Backward(p.changes) {
		switch c.kind {
		case itemSet:
			if c.in == nil {
				p.d.root = c.old
			} else {
				c.in.setAt(c.slot, c.old)
			}
		case itemInserted:
			c.in.cut(c.slot)
		case itemRemoved:
			c.in.insert(c.slot, c.old)
		case memberAdded:
			c.in.pop()
		case memberRemoved:
			c.in.revive(c.slot, c.old)
		}
	}
	for _, r := range p.resized {
		r.of.size -= r.by
	}
}

// settle ends a patch that succeeded: objects give up the slots of removed
// members when these are most of them.
func (p *patcher) settle() {
	for _, c := range p.changes {
		if c.kind == memberRemoved && c.in.owner == p.d.owner && int(c.in.dead) > len(c.in.items)/2 {
			c.in.squeeze()
		}
	}
}

// drop takes a member out of an object. Its slot stays, so that it can come
// back to it and no other member moves.
func (n *node) drop(slot int) {
	n.items[slot] = Value{}
	n.dead++
	if n.index != nil {
		delete(n.index, n.keys[slot])
	}
}

// revive is the opposite of drop.
func (n *node) revive(slot int, v Value) {
	n.items[slot] = v
	n.dead--
	if n.index != nil {
		n.index[n.keys[slot]] = slot
	}
}

// pop is the opposite of push.
func (n *node) pop() {
	last := len(n.items) - 1
	if n.index != nil {
		delete(n.index, n.keys[last])
	}
	n.items, n.keys = n.items[:last], n.keys[:last]
}
