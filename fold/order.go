package fold

// spot is where a message stands in the transcript, for a MESSAGES_SNAPSHOT: it
// takes messages away and puts others in another order, with what stays behind
// them, and must not walk through what stays (see [transcript.arrange]).
//
// Spots make a splay tree, in the order of the messages. What stays behind a
// message is a part of the tree that is cut off and put elsewhere, in time that
// on average grows with the logarithm of what there is.
type spot struct {
	message         *message
	up, left, right *spot
	in              *removable
	group           *group // nil: no snapshot can take it away as it is
	prev, next      *spot  // of the group
	rank            int    // see [transcript.rank]
}

// splay makes s the root of its tree.
func (s *spot) splay() {
	for p := s.up; p != nil; p = s.up {
		if above := p.up; above != nil {
			if (above.left == p) == (p.left == s) {
				p.rotate()
			} else {
				s.rotate()
			}
		}
		s.rotate()
	}
}

// rotate puts s above the one it is under.
func (s *spot) rotate() {
	p := s.up
	above := p.up
	if p.left == s {
		if p.left = s.right; p.left != nil {
			p.left.up = p
		}
		s.right = p
	} else {
		if p.right = s.left; p.right != nil {
			p.right.up = p
		}
		s.left = p
	}
	p.up, s.up = s, above
	switch {
	case above == nil:
	case above.left == p:
		above.left = s
	default:
		above.right = s
	}
}

// insert puts s, which is in no tree, behind another one, or before all the
// others: then behind is nil, and next the first of them, nil if there is none.
func (s *spot) insert(behind, next *spot) {
	switch {
	case behind != nil:
		behind.splay()
		if s.right = behind.right; s.right != nil {
			s.right.up = s
		}
		behind.right = nil
		s.left, behind.up = behind, s
	case next != nil:
		next.splay()
		s.right, next.up = next, s
	}
}

// remove takes s out of its tree.
func (s *spot) remove() {
	s.splay()
	left, right := s.left, s.right
	s.left, s.right = nil, nil
	if right != nil {
		right.up = nil
	}
	if left != nil {
		left.up = nil
		left.last().join(right)
	}
}

// cut makes a tree of its own of what stands before s.
func (s *spot) cut() {
	s.splay()
	if s.left != nil {
		s.left.up = nil
		s.left = nil
	}
}

// last gives the last spot of a tree, its new root, from the root it has.
func (s *spot) last() *spot {
	for s.right != nil {
		s = s.right
	}
	s.splay()
	return s
}

// join puts a tree behind s, the last of its own and its root.
func (s *spot) join(root *spot) {
	if s.right = root; root != nil {
		root.up = s
	}
}

// before reports whether s stands before another one of its tree.
func (s *spot) before(other *spot) bool {
	if s == other {
		return false
	}
	s.splay()
	other.splay()
	for s.up != other {
		s = s.up
	}
	return other.left == s
}

// arrange makes what snapshots need to find what they take away and what they
// move. It walks through the transcript once; from then on it is kept up to date.
func (t *transcript) arrange() {
	if t.removable != nil {
		return
	}
	t.removable = &removable{activities: make(map[string]*group)}
	var behind *spot
	for m := t.first; m != nil; m = m.next {
		t.arranged(m, behind, nil)
		behind = m.spot
		m.calls.over = nil
		for c := m.calls.first; c != nil; c = c.next {
			c.over = false
			m.calls.ended(c)
		}
	}
}

// arranged gives a message of the list its spot.
func (t *transcript) arranged(m *message, behind, next *spot) {
	m.spot = &spot{message: m, in: t.removable}
	m.spot.insert(behind, next)
	t.removable.join(m.spot)
}

// reorder makes the list the messages of a snapshot, each with what stood behind
// it and stays. What stays and stood before all of those that were there comes
// first (R9 d).
func (t *transcript) reorder(messages []*message, carried map[*message]bool) {
	var before *spot
	for _, m := range messages {
		if !t.lists(m) {
			continue
		}
		// The one before it in the snapshot, if it also was before it in the list, is
		// in the same tree, of which it is the root no longer.
		m.spot.cut()
		if before != nil && before.up == nil {
			t.moves++
		}
		before = m.spot
	}
	var last *spot
	switch {
	case t.first == nil:
	case carried[t.first]:
		t.first = nil
	default:
		t.first.spot.splay()
		last = t.first.spot.last()
	}
	for _, m := range messages {
		if !t.lists(m) {
			m.spot = &spot{message: m, in: t.removable}
			t.removable.join(m.spot)
			m.place.message = m
			t.count++
		}
		m.spot.splay()
		end := m.spot.last()
		if m.prev = nil; last == nil {
			t.first = m
		} else {
			m.prev, last.message.next = last.message, m
			last.join(end)
			end.splay()
		}
		last = end
	}
	if t.last = nil; last != nil {
		t.last = last.message
		t.last.next = nil
	}
}

// unlink takes a message out of the list.
func (t *transcript) unlink(m *message) {
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		t.first = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		t.last = m.prev
	}
	m.prev, m.next, m.place.message = nil, nil, nil
	t.places.lose(m.place)
	t.count--
	m.spot.leave()
	m.spot.remove()
	m.spot = nil
}
