package fold

import (
	"slices"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// snapshot is a MESSAGES_SNAPSHOT (R9). It is the one event that costs what the
// transcript is long: it brings one.
func (d *durable) snapshot(e *agui.Event) {
	t := &d.transcript
	s := snapshot{d: d, spared: d.spared(e)}
	s.read(e.Messages)
	s.matchCalls()
	removed := t.rebuild(s.messages, s.kept(e))
	if len(e.Messages) == 0 && removed > 0 {
		d.diagnose("snapshot_removed", "count", removed)
	}
	t.reindex()
}

// snapshot is the working state of one MESSAGES_SNAPSHOT.
type snapshot struct {
	d        *durable
	messages []*message // as they will be, in the snapshot's order
	from     []*agui.Message
	carried  map[*message]bool // those in messages
	calls    map[*call]bool    // those that its messages carry
	spared   map[*message]bool
}

// spared finds the messages that elements of the snapshot name which could not
// be read: a bad copy of a message must not cost the message (R4).
func (d *durable) spared(e *agui.Event) map[*message]bool {
	var spared map[*message]bool
	var all agui.Value
	for _, n := range e.Notes {
		if n.Code != agui.NoteMalformedPart && n.Code != agui.NoteRemoved || !isElement(elementOf(n), "/messages/") {
			continue
		}
		if !all.Present() {
			all, _ = jsonvalue.Parse(d.raw, d.limits.Nesting)
			spared = make(map[*message]bool)
		}
		id, ok := all.Resolve(elementOf(n)).GetText("id")
		if !ok {
			continue
		}
		for k := range kinds {
			if m := d.transcript.find(k, id); m != nil {
				spared[m] = true
			}
		}
	}
	return spared
}

// elementOf is the place of the message that a note is about, or in which: a
// message is lost with a required member.
func elementOf(n agui.Note) string {
	rest, ok := strings.CutPrefix(n.Path, "/messages/")
	if !ok {
		return n.Path
	}
	index, _, _ := strings.Cut(rest, "/")
	return "/messages/" + index
}

// read makes the messages of a snapshot: those that are there become what it
// says, others are new. Of those that occur twice, the last content is at the
// first place (R9 e).
func (s *snapshot) read(messages []agui.Message) {
	s.carried = make(map[*message]bool, len(messages))
	t := &s.d.transcript
	at := make(map[string]int, len(messages)) // by id in views
	for i := range messages {
		from := detached(&messages[i])
		k := kindOf(from.Role)
		m := t.find(k, from.ID)
		if m == nil {
			if p := t.places.find(k, from.ID); p != nil {
				if j, ok := at[p.id]; ok {
					m = s.messages[j]
				}
			}
			if m == nil {
				m = s.d.create(k, from.ID, from.Role)
			}
		}
		if j, ok := at[m.id]; ok {
			s.d.diagnose("duplicate_message", "messageId", m.id)
			s.from[j] = from
			continue
		}
		at[m.id] = len(s.messages)
		s.messages, s.from = append(s.messages, m), append(s.from, from)
		s.carried[m] = true
	}
	for i, m := range s.messages {
		m.fill(s.from[i])
	}
}

// matchCalls finds for each call of the snapshot the call that it is: one of
// the same message, else the oldest of its id that no other has. What is left
// are calls that the snapshot leaves out.
func (s *snapshot) matchCalls() {
	s.calls = make(map[*call]bool)
	lists := make([][]*call, len(s.messages))
	for i, m := range s.messages {
		lists[i] = make([]*call, len(s.from[i].ToolCalls))
		own := newCallQueues(m.calls)
		for j := range lists[i] {
			lists[i][j] = own.take(s, s.from[i].ToolCalls[j].ID)
		}
	}
	others := make(callQueues)
	for i := range lists {
		for j, c := range lists[i] {
			from := &s.from[i].ToolCalls[j]
			if set := s.d.transcript.calls[from.ID]; c == nil && set != nil {
				if _, begun := others[from.ID]; !begun {
					others[from.ID] = set.all
				}
				c = others.take(s, from.ID)
			}
			if c == nil {
				c = &call{id: from.ID}
			}
			c.fill(from)
			lists[i][j] = c
		}
	}
	for m := s.d.transcript.first; m != nil; m = m.next {
		m.calls, m.shown = s.left(m), nil
	}
	for i, m := range s.messages {
		m.calls = append(lists[i], m.calls...)
		for _, c := range m.calls {
			c.owner = m
		}
	}
}

// callQueues are the calls of each id that may not be taken yet, in order.
type callQueues map[string][]*call

func newCallQueues(calls []*call) callQueues {
	if len(calls) == 0 {
		return nil
	}
	q := make(callQueues, len(calls))
	for _, c := range calls {
		q[c.id] = append(q[c.id], c)
	}
	return q
}

// take picks the first call of an id that is not taken yet. No call is looked at
// twice.
func (q callQueues) take(s *snapshot, id string) *call {
	list := q[id]
	for len(list) > 0 {
		c := list[0]
		list = list[1:]
		q[id] = list
		if !s.calls[c] {
			s.calls[c] = true
			return c
		}
	}
	return nil
}

// left picks the calls of a message that the snapshot does not carry: of a
// message that it carries only those that are open.
func (s *snapshot) left(m *message) []*call {
	var out []*call
	for _, c := range m.calls {
		if !s.calls[c] && (!s.carried[m] || c.isOpen()) {
			out = append(out, c)
		} else if !s.calls[c] {
			c.owner = nil
		}
	}
	return out
}

// kept finds the messages that stay though the snapshot does not carry them
// (R9 b, c).
func (s *snapshot) kept(e *agui.Event) map[*message]bool {
	var reasoning, activity bool
	for _, m := range s.messages {
		reasoning = reasoning || m.kind == kindReasoning
		activity = activity || m.kind == kindActivity
	}
	owned := ownedActivities(e, activity)
	kept := make(map[*message]bool)
	for m := s.d.transcript.first; m != nil; m = m.next {
		switch {
		case s.carried[m]:
		case s.spared[m], m.isOpen(),
			m.kind == kindReasoning && !reasoning,
			m.kind == kindActivity && !owned(m.activity.V):
			kept[m] = true
		}
	}
	return kept
}

func (c *call) isOpen() bool { return c.open != nil && !c.paused }

// isOpen reports whether the text of a message is open, or one of its calls.
func (m *message) isOpen() bool {
	return m.open != nil || slices.ContainsFunc(m.calls, (*call).isOpen)
}

// ownedActivities says which types of activity a snapshot replaces as a whole
// (SEMANTICS R-MSNAP-5).
func ownedActivities(e *agui.Event, some bool) func(string) bool {
	all := func(yes bool) func(string) bool { return func(string) bool { return yes } }
	client := e.Metadata.Get("@ag-ui/client")
	switch {
	case !client.Present():
		return all(some)
	case client.Kind() != jsonvalue.Object:
		return all(false)
	}
	types := client.Get("authoritativeActivityTypes")
	switch types.Kind() {
	case jsonvalue.Absent:
		return all(some)
	case jsonvalue.Null:
		return all(true)
	case jsonvalue.List:
	default:
		return all(false)
	}
	named := make(map[string]bool, types.Len())
	for _, item := range types.Items() {
		name, ok := item.Text()
		if !ok {
			return all(false)
		}
		named[name] = true
	}
	return func(name string) bool { return named[name] }
}

// rebuild makes the list the messages of a snapshot and, each directly behind
// its nearest former predecessor that is still there, those that are kept (R9
// d). It returns how many are gone.
func (t *transcript) rebuild(messages []*message, kept map[*message]bool) (removed int) {
	former := make([]*message, 0, t.count)
	for m := t.first; m != nil; m = m.next {
		former = append(former, m)
		m.place.message = nil
	}
	t.first, t.last, t.count = nil, nil, 0
	for _, m := range messages {
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
			for _, c := range m.calls {
				c.owner = nil
			}
		}
	}
	return removed
}

// reindex finds the calls of a list that has been made anew, and which of them
// its results answer.
func (t *transcript) reindex() {
	t.shape++
	clear(t.numbers)
	t.calls = make(map[string]*callSet)
	var orphans []*message
	for m := t.first; m != nil; m = m.next {
		for _, c := range m.calls {
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
	// In a snapshot a result may stand before its call.
	for _, m := range orphans {
		if c := t.unanswered(m.toolCallID.V); c != nil {
			t.answer(m, c)
		}
	}
}
