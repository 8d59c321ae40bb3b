package fold

import "github.com/agstore/agstore/agui"

// removable are the messages that a snapshot takes away unless it carries them:
// those of the list that are not open, in groups of which a snapshot takes all or
// none (R9 b, c). One that has been opened may still be in its group: it leaves
// when a snapshot finds it there, and comes back when it is closed. So a snapshot
// looks at what it takes away, what it carries, and at what has been opened
// since the last one, but not at all that stays.
type removable struct {
	others     group             // text and tool messages
	reasoning  group             //
	activities map[string]*group // by type; none is empty
}

type group struct {
	first    *spot
	activity string // the type
}

// join puts a message into its group.
func (r *removable) join(s *spot) {
	g := &r.others
	switch m := s.message; m.kind {
	case kindReasoning:
		g = &r.reasoning
	case kindActivity:
		if g = r.activities[m.activity.V]; g == nil {
			g = &group{activity: m.activity.V}
			r.activities[g.activity] = g
		}
	}
	s.group, s.prev, s.next = g, nil, g.first
	if g.first != nil {
		g.first.prev = s
	}
	g.first = s
}

// leave takes a message out of its group, if it is in one.
func (s *spot) leave() {
	g := s.group
	if g == nil {
		return
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		g.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.group, s.prev, s.next = nil, nil, nil
	if g.first == nil && g == s.in.activities[g.activity] {
		delete(s.in.activities, g.activity)
	}
}

// isOpen reports whether the text of a message is open, or one of its calls.
func (m *message) isOpen() bool { return m.open != nil || m.calls.open > 0 }

// close ends the text of a message.
func (m *message) close() {
	m.open = nil
	m.closed()
}

// closed puts a message that may have been open where a snapshot finds it.
func (m *message) closed() {
	if s := m.spot; s != nil && s.group == nil && !m.isOpen() {
		s.in.join(s)
	}
}

// retype sets the type of an activity, and with it its group.
func (m *message) retype(activity agui.Opt[string]) {
	m.activity = activity
	if s := m.spot; s != nil && m.kind == kindActivity && s.group != nil && s.group.activity != activity.V {
		s.leave()
		s.in.join(s)
	}
}
