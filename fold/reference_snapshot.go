package fold

import "github.com/agstore/agstore/agui"

// reconcile is R-MSNAP-1 to R-MSNAP-4. It does not go through what stays, unless
// some id is in the list twice: then every place that has it is meant.
func (t *refTranscript) reconcile(snapshot []agui.Message, owned ownedTypes) {
	made := make([]*refMessage, len(snapshot))
	last := make(map[string]*refMessage, len(snapshot))
	reasoning := false
	for i := range snapshot {
		made[i] = newRefMessage(&snapshot[i])
		last[made[i].id] = made[i]
		reasoning = reasoning || made[i].role == agui.RoleReasoning
	}
	if t.twice {
		t.rebuild(made, last, func(m *refMessage) bool {
			return m.role == agui.RoleActivity && !owned.owns(m.activityType.V) || m.role == agui.RoleReasoning && !reasoning
		})
		return
	}
	var replaced []*refEntry
	var added []*refMessage
	for _, m := range made {
		at := t.byID[m.id]
		if at == nil {
			added = append(added, m)
		} else if last[m.id] == m {
			replaced = append(replaced, at)
		}
	}
	t.sweep(t.others, last)
	if reasoning {
		t.sweep(t.reasoning, last)
	}
	for name := range owned.named {
		t.sweep(t.activities[name], last)
	}
	if owned.all {
		for _, g := range t.activities {
			t.sweep(g, last)
		}
	}
	t.put(replaced, last)
	for _, m := range added {
		t.append(m)
	}
	t.shape++
	if t.twice {
		t.reindex() // the first in the list counts
	}
}

// rebuild is reconcile as R-MSNAP-1 has it, place by place.
func (t *refTranscript) rebuild(made []*refMessage, last map[string]*refMessage, stays func(*refMessage) bool) {
	old := *t
	t.clear()
	for at := old.first; at != nil; at = at.next {
		m := at.message
		if now := last[m.id]; now != nil {
			t.append(now)
		} else if stays(m) {
			t.append(m)
		}
	}
	for _, m := range made {
		if old.byID[m.id] == nil {
			t.append(m)
		}
	}
}

// sweep takes away the entries of a group that a snapshot does not carry.
func (t *refTranscript) sweep(g *refGroup, carried map[string]*refMessage) {
	if g == nil {
		return
	}
	for at := g.first; at != nil; {
		here := at
		at = at.near
		if id := here.message.id; carried[id] == nil {
			delete(t.byID, id)
			t.forget(here.message)
			t.unlink(here)
		}
	}
}

// put makes the messages of a snapshot those of their places.
func (t *refTranscript) put(places []*refEntry, carried map[string]*refMessage) {
	for _, at := range places {
		t.forget(at.message)
	}
	for _, at := range places {
		at.message = carried[at.message.id]
		t.regroup(at)
		for _, c := range at.message.calls {
			if t.calls[c.id] != nil {
				t.twice = true
			}
			t.calls[c.id] = &refCallEntry{call: c, in: at}
		}
	}
}

// forget makes the calls of a message unknown. No other has their ids.
func (t *refTranscript) forget(m *refMessage) {
	for _, c := range m.calls {
		delete(t.calls, c.id)
	}
}

// unlink takes an entry out of the list.
func (t *refTranscript) unlink(at *refEntry) {
	if at.prev != nil {
		at.prev.next = at.next
	} else {
		t.first = at.next
	}
	if at.next != nil {
		at.next.prev = at.prev
	} else {
		t.last = at.prev
	}
	t.length--
	t.leave(at)
}

// join puts an entry into its group.
func (t *refTranscript) join(at *refEntry) {
	g := t.others
	switch at.message.role {
	case agui.RoleReasoning:
		g = t.reasoning
	case agui.RoleActivity:
		if g = t.activities[at.message.activityType.V]; g == nil {
			g = &refGroup{activity: at.message.activityType.V}
			t.activities[g.activity] = g
		}
	}
	at.group, at.past, at.near = g, nil, g.first
	if g.first != nil {
		g.first.past = at
	}
	g.first = at
}

// leave takes an entry out of its group.
func (t *refTranscript) leave(at *refEntry) {
	if at.past != nil {
		at.past.near = at.near
	} else {
		at.group.first = at.near
	}
	if at.near != nil {
		at.near.past = at.past
	}
	if g := at.group; g.first == nil && g == t.activities[g.activity] {
		delete(t.activities, g.activity)
	}
	at.group, at.past, at.near = nil, nil, nil
}

// regroup is for an entry whose message is another one, or has another type.
func (t *refTranscript) regroup(at *refEntry) {
	t.leave(at)
	t.join(at)
}
