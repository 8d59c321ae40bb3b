package fold

import (
	"slices"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// snapshot is a MESSAGES_SNAPSHOT (R9). It costs what it brings and what it takes
// away, not what stays: the transcript is not gone through.
func (d *durable) snapshot(e *agui.Event) {
	t := &d.transcript
	t.arrange()
	s := snapshot{
		d: d, spared: d.spared(e), carried: make(map[*message]bool, len(e.Messages)),
		calls: make(map[*call]bool), touched: make(map[string]bool), results: make(map[string][]*message),
	}
	s.read(e.Messages)
	s.giveCalls(s.matchCalls())
	removed := s.remove(e)
	if len(e.Messages) == 0 && removed > 0 {
		d.diagnose("snapshot_removed", "count", removed)
	}
	t.reorder(s.messages, s.carried)
	t.shape++
	s.answer()
}

// snapshot is the working state of one MESSAGES_SNAPSHOT.
type snapshot struct {
	d        *durable
	messages []*message // as they will be, in the snapshot's order
	from     []*agui.Message
	carried  map[*message]bool // those in messages
	calls    map[*call]bool    // those that its messages carry
	spared   map[*message]bool
	// touched are the ids of calls of which something has changed: their calls,
	// in which order they are, or their results.
	touched map[string]bool
	results map[string][]*message // the tool messages that stay, by the ids of their calls
}

// spared finds the messages that elements of the snapshot name which could not
// be read: a bad copy of a message must not cost the message (R4).
func (d *durable) spared(e *agui.Event) map[*message]bool {
	var spared map[*message]bool
	var all agui.Value
	latest := ""
	for _, n := range e.Notes {
		if n.Code != agui.NoteMalformedPart && n.Code != agui.NoteRemoved {
			continue
		}
		element := elementOf(n)
		if element == latest || !isElement(element, "/messages/") {
			continue
		}
		latest = element
		if !all.Present() {
			all, _ = jsonvalue.Parse(d.raw, d.limits.Nesting)
			spared = make(map[*message]bool)
		}
		id, ok := all.Resolve(element).GetText("id")
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
		s.unanswer(m)
		m.fill(s.from[i])
		s.answers(m)
	}
	for m := range s.spared {
		if !s.carried[m] {
			s.unanswer(m)
			s.answers(m)
		}
	}
}

// unanswer takes a tool message away from the call it answers.
func (s *snapshot) unanswer(m *message) {
	if c := m.answers; c != nil {
		s.touched[c.id] = true
		m.answers = nil
		m.changed()
	}
}

// answers takes note of a tool message that will be in the list.
func (s *snapshot) answers(m *message) {
	if id := m.toolCallID.V; m.kind == kindTool {
		s.touched[id] = true
		s.results[id] = append(s.results[id], m)
	}
}

// matchCalls finds for each call of the snapshot the call that it is: one of
// the same message, else the oldest of its id that no other has, else a new one.
func (s *snapshot) matchCalls() [][]*call {
	lists := make([][]*call, len(s.messages))
	for i, m := range s.messages {
		lists[i] = make([]*call, len(s.from[i].ToolCalls))
		own := s.own(m, s.from[i].ToolCalls)
		for j := range lists[i] {
			lists[i][j] = own.take(s, s.from[i].ToolCalls[j].ID)
		}
	}
	others := make(callQueues)
	for i := range lists {
		for j, c := range lists[i] {
			from := &s.from[i].ToolCalls[j]
			if set := s.d.transcript.set(from.ID); c == nil && set != nil {
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
	return lists
}

// callQueues are the calls of each id that may not be taken yet, in order.
type callQueues map[string][]*call

// own gives the calls of a message that the snapshot's copy may mean. They are
// looked for among all of the message or all with their ids, whichever are fewer.
func (s *snapshot) own(m *message, copies []agui.ToolCall) callQueues {
	if m.calls.count == 0 || len(copies) == 0 {
		return nil
	}
	q := make(callQueues, len(copies))
	t, n := &s.d.transcript, 0
	for i := range copies {
		if set := t.calls[copies[i].ID]; set != nil {
			n += len(set.all)
		}
	}
	if n >= m.calls.count {
		for c := m.calls.first; c != nil; c = c.next {
			q[c.id] = append(q[c.id], c)
		}
		return q
	}
	for i := range copies {
		id := copies[i].ID
		if _, found := q[id]; found || t.calls[id] == nil {
			continue
		}
		q[id] = nil
		for _, c := range t.calls[id].all { // those of one message are in its order
			if c.owner == m {
				q[id] = append(q[id], c)
			}
		}
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

// giveCalls makes the calls of each message those of the snapshot and, behind
// them, those that are open and left out. Other calls of the message are gone.
func (s *snapshot) giveCalls(lists [][]*call) {
	t := &s.d.transcript
	for _, list := range lists {
		for _, c := range list {
			s.touched[c.id] = true
			if c.owner == nil { // a new one
				set := t.set(c.id)
				if set == nil {
					set = new(callSet)
					t.calls[c.id] = set
				}
				t.shared = t.shared || len(set.all) > 0
				set.all = append(set.all, c)
				continue
			}
			from := c.owner
			from.drop(c)
			from.changed()
			from.closed()
		}
	}
	for i, m := range s.messages {
		for _, c := range m.calls.over {
			if c.owner != m {
				continue // it has gone to another message
			}
			if c.over = false; !c.isOpen() {
				s.lose(m, c)
			}
		}
		m.calls.over = m.calls.over[:0]
		for _, c := range slices.Backward(lists[i]) {
			m.pushFront(c)
			m.calls.ended(c)
		}
	}
}

// lose takes a call out of the transcript.
func (s *snapshot) lose(m *message, c *call) {
	m.drop(c)
	s.touched[c.id] = true
}

// remove takes away the messages that the snapshot does not carry, but those
// that stay all the same (R9 b, c). It returns how many are gone.
func (s *snapshot) remove(e *agui.Event) (removed int) {
	var reasoning, activity bool
	for _, m := range s.messages {
		reasoning = reasoning || m.kind == kindReasoning
		activity = activity || m.kind == kindActivity
	}
	r := s.d.transcript.removable
	removed = s.sweep(&r.others)
	if reasoning {
		removed += s.sweep(&r.reasoning)
	}
	owned := ownedActivities(e, activity)
	for name := range owned.named {
		if g := r.activities[name]; g != nil {
			removed += s.sweep(g)
		}
	}
	if owned.all {
		for _, g := range r.activities {
			removed += s.sweep(g)
		}
	}
	return removed
}

// sweep takes away the messages of a group, unless they are carried, spared or
// open.
func (s *snapshot) sweep(g *group) (removed int) {
	for at := g.first; at != nil; {
		here := at
		at = at.next
		switch m := here.message; {
		case s.carried[m], s.spared[m]:
		case m.isOpen():
			here.leave()
		default:
			s.removeMessage(m)
			removed++
		}
	}
	return removed
}

func (s *snapshot) removeMessage(m *message) {
	t := &s.d.transcript
	for m.calls.first != nil {
		s.lose(m, m.calls.first)
	}
	m.calls.over = nil
	s.unanswer(m)
	t.unlink(m)
	t.release(m.kind, m.place.named)
}

// answer finds which calls the results of the list answer, of those ids of
// which something has changed.
func (s *snapshot) answer() {
	t := &s.d.transcript
	for id := range s.touched {
		results := s.results[id]
		set := t.calls[id]
		if set == nil {
			continue
		}
		set.all = slices.DeleteFunc(set.all, func(c *call) bool { return c.owner == nil })
		if len(set.all) == 0 {
			delete(t.calls, id)
			continue
		}
		t.answerAll(set, results)
	}
}

// answerAll answers the calls of one id, in whatever order they are, with all
// results for it: each with what it may answer of those that stand before it.
func (t *transcript) answerAll(s *callSet, results []*message) {
	calls := s.all
	before := func(a, b *message) bool { return true } // of one call nothing depends on it
	if len(calls) > 1 {
		t.sort(calls)
		before = t.order(len(calls) + len(results))
		slices.SortFunc(results, func(a, b *message) int {
			switch {
			case a == b:
				return 0
			case before(a, b):
				return -1
			}
			return 1
		})
	}
	*s = callSet{all: calls[:0], waiting: s.waiting[:0], moves: t.moves}
	var early []*message
	next := 0
	for _, m := range results {
		for ; next < len(calls) && before(calls[next].owner, m); next++ {
			s.add(calls[next])
		}
		if len(s.all) > 0 {
			t.answer(m, t.unanswered(m.toolCallID.V))
		} else {
			early = append(early, m)
		}
	}
	for ; next < len(calls); next++ {
		s.add(calls[next])
	}
	// In a snapshot a result may stand before its call.
	for _, m := range early {
		t.answer(m, t.unanswered(m.toolCallID.V))
	}
}

// add adds a call that no result answers yet.
func (s *callSet) add(c *call) {
	c.results = 0
	s.all, s.waiting = append(s.all, c), append(s.waiting, c)
}

// ownedTypes are the types of activities that a snapshot replaces as a whole.
type ownedTypes struct {
	all   bool
	named map[string]bool
}

func (o ownedTypes) owns(activityType string) bool { return o.all || o.named[activityType] }

// ownedActivities says which types of activities a snapshot replaces, some
// being whether it has any (SEMANTICS R-MSNAP-5).
func ownedActivities(e *agui.Event, some bool) ownedTypes {
	client := e.Metadata.Get("@ag-ui/client")
	switch {
	case !client.Present():
		return ownedTypes{all: some}
	case client.Kind() != jsonvalue.Object:
		return ownedTypes{}
	}
	types := client.Get("authoritativeActivityTypes")
	switch types.Kind() {
	case jsonvalue.Absent:
		return ownedTypes{all: some}
	case jsonvalue.Null:
		return ownedTypes{all: true}
	case jsonvalue.List:
	default:
		return ownedTypes{}
	}
	named := make(map[string]bool, types.Len())
	for _, item := range types.Items() {
		name, ok := item.Text()
		if !ok {
			return ownedTypes{}
		}
		named[name] = true
	}
	return ownedTypes{named: named}
}
