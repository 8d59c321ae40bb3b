package fold

import "github.com/agstore/agstore/agui"

// ApplySlowly is Apply, but that a MESSAGES_SNAPSHOT goes through the whole
// transcript and makes every index anew: R9 as it is written. A fold is given
// all its records in this way or none.
func ApplySlowly(f *Fold, r Record) {
	if ref, ok := f.reducer.(*reference); ok {
		ref.transcript.twice = true // which sends a snapshot through the list
		f.Apply(r)
		return
	}
	d := f.reducer.(*durable)
	var e agui.Event
	in := d.byKey[r.Run]
	if d.decoder.Decode(r.Raw, &e) != nil || e.Type != agui.TypeMessagesSnapshot || in == nil || in.EndSeq != 0 {
		f.Apply(r)
		return
	}
	d.settle()
	d.pieces.latest = target{}
	d.seq, d.raw = r.Seq, r.Raw
	defer func() { d.raw = nil }()
	d.report(&e)
	slim(&e)
	d.overlapping(in)
	d.closeForEvent(in, &e)
	d.slowSnapshot(&e)
}

func (d *durable) slowSnapshot(e *agui.Event) {
	t := &d.transcript
	s := slow{snapshot{
		d: d, spared: d.spared(e), carried: make(map[*message]bool),
		calls: make(map[*call]bool), touched: make(map[string]bool), results: make(map[string][]*message),
	}}
	s.read(e.Messages)
	s.match()
	removed := s.rebuild(s.kept(e))
	if len(e.Messages) == 0 && removed > 0 {
		d.diagnose("snapshot_removed", "count", removed)
	}
	t.slowReindex()
}

type slow struct{ snapshot }

// match finds which call each of the snapshot's is, and which calls are left.
func (s *slow) match() {
	t := &s.d.transcript
	lists := make([][]*call, len(s.messages))
	for i, m := range s.messages {
		lists[i] = make([]*call, len(s.from[i].ToolCalls))
		for j := range lists[i] {
			for c := m.calls.first; c != nil && lists[i][j] == nil; c = c.next {
				if c.id == s.from[i].ToolCalls[j].ID && !s.calls[c] {
					lists[i][j], s.calls[c] = c, true
				}
			}
		}
	}
	for i := range lists {
		for j, c := range lists[i] {
			from := &s.from[i].ToolCalls[j]
			if set := t.calls[from.ID]; set != nil {
				for _, other := range set.all {
					if c == nil && !s.calls[other] {
						c, s.calls[other] = other, true
					}
				}
			}
			if c == nil {
				c = &call{id: from.ID}
			}
			c.fill(from)
			lists[i][j] = c
		}
	}
	left := make(map[*message][]*call)
	for m := t.first; m != nil; m = m.next {
		for c := m.calls.first; c != nil; c = c.next {
			switch {
			case s.calls[c]:
			case !s.carried[m] || c.isOpen():
				left[m] = append(left[m], c)
			default:
				c.owner = nil
			}
		}
		m.shown = nil
		m.setCalls(left[m])
	}
	for i, m := range s.messages {
		m.setCalls(append(lists[i], left[m]...))
	}
}

func (m *message) setCalls(calls []*call) {
	m.calls = callList{}
	for _, c := range calls {
		c.prev, c.next = nil, nil
		m.push(c)
	}
}

// kept finds the messages that stay though the snapshot does not carry them.
func (s *slow) kept(e *agui.Event) map[*message]bool {
	var reasoning, activity bool
	for _, m := range s.messages {
		reasoning = reasoning || m.kind == kindReasoning
		activity = activity || m.kind == kindActivity
	}
	owned := ownedActivities(e, activity)
	kept := make(map[*message]bool)
	for m := s.d.transcript.first; m != nil; m = m.next {
		open := m.open != nil
		for c := m.calls.first; c != nil; c = c.next {
			open = open || c.isOpen()
		}
		switch {
		case s.carried[m]:
		case s.spared[m], open,
			m.kind == kindReasoning && !reasoning,
			m.kind == kindActivity && !owned.owns(m.activity.V):
			kept[m] = true
		}
	}
	return kept
}

// rebuild makes the list anew. It returns how many messages are gone.
func (s *slow) rebuild(kept map[*message]bool) (removed int) {
	t := &s.d.transcript
	var former []*message
	for m := t.first; m != nil; m = m.next {
		former = append(former, m)
		m.place.message = nil
	}
	t.first, t.last, t.count = nil, nil, 0
	for _, m := range s.messages {
		t.append(m)
	}
	var behind *message
	for _, m := range former {
		switch {
		case kept[m]:
			t.insert(m, behind)
			behind = m
		case t.lists(m):
			behind = m
		default:
			removed++
			for c := m.calls.first; c != nil; c = c.next {
				c.owner = nil
			}
		}
	}
	return removed
}

// slowReindex finds the calls of the list, and which of them its results answer.
func (t *transcript) slowReindex() {
	t.shape++
	clear(t.numbers)
	t.calls = make(map[string]*callSet)
	var orphans []*message
	for m := t.first; m != nil; m = m.next {
		for c := m.calls.first; c != nil; c = c.next {
			c.results = 0
			t.index(c)
		}
		if m.kind != kindTool {
			continue
		}
		m.answers = nil
		if c := t.unanswered(m.toolCallID.V); c != nil {
			t.answer(m, c)
		} else {
			orphans = append(orphans, m)
		}
	}
	for _, m := range orphans {
		if c := t.unanswered(m.toolCallID.V); c != nil {
			t.answer(m, c)
		}
	}
}
