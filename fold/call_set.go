package fold

import (
	"cmp"
	"slices"
)

// callSet is the calls of the transcript that have one id: in the order of the
// list as the last snapshot made it, and behind them those that came since.
//
// The latter are not always where the list has them, but then the next snapshot
// touches them: a call that is not of a new, last message has an id that is new,
// or of which a call has been answered.
type callSet struct {
	all     []*call
	waiting []*call // those without a result
	moves   int     // the transcript's when all was ordered
}

// set gives the calls with an id, nil if there are none.
func (t *transcript) set(id string) *callSet {
	s := t.calls[id]
	if s != nil {
		t.ordered(s)
	}
	return s
}

// ordered puts the calls of an id in order, if a snapshot that did not touch them
// has moved them. None of them has a result: a result that stays is touched.
func (t *transcript) ordered(s *callSet) {
	if s.moves == t.moves {
		return
	}
	s.moves = t.moves
	if len(s.all) > 1 {
		t.sort(s.all)
		s.waiting = append(s.waiting[:0], s.all...)
	}
}

// sort puts calls in the order of the list.
func (t *transcript) sort(calls []*call) {
	before := t.order(len(calls))
	slices.SortFunc(calls, func(a, b *call) int {
		switch {
		case a.owner == b.owner:
			return cmp.Compare(a.position, b.position)
		case before(a.owner, b.owner):
			return -1
		}
		return 1
	})
}

// rankEach is how much longer the list may be than what is to be sorted, for
// going through the list to cost no more.
const rankEach = 32

// order gives a function that reports whether one message stands before another,
// to be asked about n of them which were in the list when the last snapshot had
// come. Only one of the two ways that it has depends on how long the list is.
func (t *transcript) order(n int) func(a, b *message) bool {
	if t.ranked != t.shape && n > t.count/rankEach {
		t.ranked = t.shape
		rank := 0
		for m := t.first; m != nil; m = m.next {
			m.spot.rank = rank
			rank++
		}
	}
	if t.ranked == t.shape {
		return func(a, b *message) bool { return a.spot.rank < b.spot.rank }
	}
	return func(a, b *message) bool { return a.spot.before(b.spot) }
}

// newest gives the call that events mean by an id, nil if there is none.
func (t *transcript) newest(id string) *call {
	s := t.set(id)
	if s == nil {
		return nil
	}
	return s.all[len(s.all)-1]
}

// unanswered gives the call that a result belongs to: the newest without one,
// else the newest (R14).
func (t *transcript) unanswered(id string) *call {
	if s := t.set(id); s != nil && len(s.waiting) > 0 {
		return s.waiting[len(s.waiting)-1]
	}
	return t.newest(id)
}

// index adds a call of a message of the list to those with its id.
func (t *transcript) index(c *call) {
	s := t.set(c.id)
	if s == nil {
		s = &callSet{moves: t.moves}
		t.calls[c.id] = s
	}
	t.shared = t.shared || len(s.all) > 0
	s.all = append(s.all, c)
	if c.results == 0 {
		s.waiting = append(s.waiting, c)
	}
}

// answer makes m, which answers none, a result of c.
func (t *transcript) answer(m *message, c *call) {
	m.answers = c
	m.changed()
	if !c.resulted {
		c.resulted = true
		c.changed()
	}
	if c.results++; c.results == 1 {
		s := t.calls[c.id]
		for i := len(s.waiting) - 1; i >= 0; i-- {
			if s.waiting[i] == c {
				s.waiting = slices.Delete(s.waiting, i, i+1)
				break
			}
		}
	}
}
