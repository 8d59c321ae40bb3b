package fold

import (
	"cmp"
	"slices"

	"github.com/agstore/agstore/agui"
)

// transcript writes the messages in order, the calls that are no longer in one,
// and what the order of messages does not tell.
func (w *durableWriter) transcript(t *transcript) {
	w.list(t.count)
	for m := t.first; m != nil; m = m.next {
		w.message(m)
	}
	w.list(len(w.loose))
	for _, c := range w.loose {
		w.call(c)
	}
	w.orders(t)
	w.names(t)
	w.results(t)
}

func (r *durableReader) transcript(t *transcript) {
	var answers []answering
	n := r.list(messageFields + 1)
	t.places = newPlaces(n)
	for range n {
		if m := r.message(&answers); r.err == nil {
			r.check(!t.places.taken(m.id), "two messages of one id")
			m.place = &place{kind: m.kind, id: m.id, named: m.id}
			t.places.add(m.id, m.place)
			t.append(m)
		}
	}
	r.live = len(r.calls)
	for range r.list(callFields + 1) {
		c := r.call()
		r.check(!c.isOpen(), "a call that is open and in no message")
	}
	for _, a := range answers {
		r.answered(a.m, a.call)
	}
	r.orders(t, r.calls[:r.live], func() (*call, bool) {
		n, ok := r.index(r.live)
		if !ok {
			return nil, false
		}
		return r.calls[n], true
	})
	r.names(t)
	r.results(t)
}

// answering is a tool message that is the result of a call.
type answering struct {
	m    *message
	call int
}

// answered makes a tool message the result of a call, which is not indexed yet:
// it will never have waited.
func (r *durableReader) answered(m *message, n int) {
	if n >= r.live || m.kind != kindTool || m.toolCallID.V != r.calls[n].id {
		r.fail("a result of something else")
		return
	}
	c := r.calls[n]
	m.answers, c.resulted = c, true
	c.results++
}

const messageFields = 17

func (w *durableWriter) message(m *message) {
	w.list(messageFields)
	w.number(int(m.kind))
	w.text(m.id)
	w.text(string(m.role))
	w.grown(&m.content)
	w.opt(m.name)
	w.opt(m.tag)
	w.opt(m.toolCallID)
	w.opt(m.err)
	w.opt(m.activity)
	w.opt(m.encrypted)
	w.document(m.metadata)
	w.list(m.calls.count)
	for c := m.calls.first; c != nil; c = c.next {
		w.call(c)
	}
	w.bool(m.callList)
	w.opened(m.open, m.opening)
	if m.answers != nil {
		w.number(w.calls[m.answers])
	} else {
		w.null()
	}
	w.bool(w.d.transcript.results[m.resultKey()] == m)
}

// grown writes a content, a text part that grows as it is now.
func (w *durableWriter) grown(c *content) {
	if c.kind == agui.ObjectContent {
		w.content(c.kind, "", nil, c.object)
		return
	}
	now := c.show()
	w.content(now.Kind, now.Text, now.Parts, nil)
}

// resultKey is that of the TOOL_CALL_RESULT that has most likely made m.
func (m *message) resultKey() resultKey { return resultKey{m.id, m.toolCallID.V} }

func (r *durableReader) message(answers *[]answering) *message {
	r.fields(messageFields)
	m := &message{kind: kind(r.number(int(kinds) - 1)), id: r.text(), role: r.role(), t: &r.d.transcript}
	r.content(&m.content)
	m.name, m.tag, m.toolCallID, m.err = r.opt(), r.opt(), r.opt(), r.opt()
	m.activity, m.encrypted, m.metadata = r.opt(), r.opt(), r.document()
	for range r.list(callFields + 1) {
		m.push(r.call())
	}
	m.callList = r.bool()
	if m.open, m.opening = r.opened(); m.open != nil {
		m.open.opened = append(m.open.opened, opening{message: m, seq: m.opening})
	}
	for c := m.calls.first; c != nil; c = c.next {
		if c.isOpen() {
			c.open.opened = append(c.open.opened, opening{call: c, seq: c.opening})
		}
	}
	if !r.isNull() {
		*answers = append(*answers, answering{m, r.int()})
	}
	if r.bool() {
		r.check(m.kind == kindTool, "a result that is no tool message")
		key := m.resultKey()
		m.made, r.d.transcript.results[key] = &key, m
	}
	r.check((m.kind == kindActivity) == (m.content.kind == agui.ObjectContent), "a message with the content of another kind")
	return m
}

// opened writes which run has something open, and when it was opened: two
// fields, nil and 0 for what is closed.
func (w *durableWriter) opened(by *run, at uint64) {
	if by == nil {
		w.null()
		w.uint(0)
		return
	}
	w.number(by.number)
	w.uint(at)
}

func (r *durableReader) opened() (by *run, at uint64) {
	if !r.isNull() {
		by = r.runningRun()
	}
	return by, r.uint()
}

const callFields = 11

func (w *durableWriter) call(c *call) {
	w.list(callFields)
	w.text(c.id)
	w.text(c.name)
	w.text(c.arguments.String())
	w.opt(c.encrypted)
	w.document(c.metadata)
	w.opened(c.open, c.opening)
	w.bool(c.paused)
	w.bool(c.again)
	if c.fresh != nil {
		w.text(c.fresh.String())
	} else {
		w.null()
	}
	w.bool(c.resulted)
}

// call reads a call and gives it the next number.
func (r *durableReader) call() *call {
	r.fields(callFields)
	return r.callBody()
}

func (r *durableReader) callBody() *call {
	c := &call{id: r.text(), name: r.text(), arguments: r.growing(), encrypted: r.opt(), metadata: r.document()}
	c.open, c.opening = r.opened()
	c.paused, c.again = r.bool(), r.bool()
	if !r.isNull() {
		c.fresh = r.growing()
	}
	c.resulted = r.bool()
	if c.open != nil && c.paused {
		c.open.paused = append(c.open.paused, c)
	}
	r.calls = append(r.calls, c)
	return c
}

// orders writes the orders of calls that have one id, where it is not that of
// the transcript.
func (w *durableWriter) orders(t *transcript) {
	odd := t.oddSets(w.calls)
	w.list(len(odd))
	for _, set := range odd {
		w.list(len(set.all))
		for _, c := range set.all {
			w.number(w.calls[c])
		}
	}
}

// oddSets gives the calls of each id that are in another order than that of
// their numbers.
func (t *transcript) oddSets(numbers map[*call]int) (odd []*callSet) {
	seen := make(map[*callSet]bool)
	for m := t.first; m != nil; m = m.next {
		for c := m.calls.first; c != nil; c = c.next {
			set := t.set(c.id)
			if len(set.all) == 1 || seen[set] {
				continue
			}
			seen[set] = true
			if !slices.IsSortedFunc(set.all, func(a, b *call) int { return cmp.Compare(numbers[a], numbers[b]) }) {
				odd = append(odd, set)
			}
		}
	}
	return odd
}

// orders makes all calls of the transcript known by their ids. one reads a call.
func (r *durableReader) orders(t *transcript, all []*call, one func() (*call, bool)) {
	indexed := make(map[*call]bool)
	for range r.list(1) {
		var set []*call
		for range r.list(1) {
			c, ok := one()
			if !ok {
				return
			}
			r.check(!indexed[c] && t.calls[c.id] == nil, "a call that is ordered twice")
			indexed[c] = true
			set = append(set, c)
		}
		for _, c := range set {
			r.check(c.id == set[0].id, "calls of several ids in one order")
			t.index(c)
		}
	}
	if r.err != nil {
		return
	}
	ordered := make(map[string]bool)
	for id := range t.calls {
		ordered[id] = true
	}
	for _, c := range all {
		if !indexed[c] {
			r.check(!ordered[c.id], "an order that leaves out a call")
			t.index(c)
		}
	}
}

// nameFields are kind, id, and the id in views.
const nameFields = 3

// names writes the identities that are not those of messages of the list under
// their ids in views.
func (w *durableWriter) names(t *transcript) {
	var rest []identity
	for p := range t.places.all {
		if p.message == nil {
			rest = append(rest, identity{p.kind, p.id})
		}
		if p.named != p.id {
			rest = append(rest, identity{p.kind, p.named})
		}
	}
	slices.SortFunc(rest, func(a, b identity) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id)) })
	rest = slices.Compact(rest)
	w.list(len(rest))
	for _, key := range rest {
		w.list(nameFields)
		w.number(int(key.kind))
		w.text(key.id)
		w.text(t.places.find(key.kind, key.id).id)
	}
}

func (r *durableReader) names(t *transcript) {
	own := make(map[*place]bool) // whose ids in views are in the list
	for range r.list(nameFields + 1) {
		r.fields(nameFields)
		k, id, name := kind(r.number(int(kinds)-1)), r.text(), r.text()
		p := t.places.find(k, name)
		if p == nil || p.id != name {
			r.check(!t.places.taken(name), "one name for two kinds")
			p = &place{kind: k, id: name, named: name}
			t.places.add(name, p)
		}
		if id == name {
			r.check(p.message == nil && !own[p], "an identity with two names")
			own[p] = true
			continue
		}
		r.check(t.places.find(k, id) == nil, "an identity with two names")
		r.check(p.named == p.id, "a name for two identities")
		p.named = id
		t.places.add(id, p)
	}
}

const resultFields = 3

// results writes the names of results that are not what their messages would
// make one think. Those of messages that are gone mean nothing any more.
func (w *durableWriter) results(t *transcript) {
	type named struct {
		key resultKey
		m   *message
	}
	var rest []named
	for key, m := range t.results {
		if t.lists(m) && key != m.resultKey() {
			rest = append(rest, named{key, m})
		}
	}
	slices.SortFunc(rest, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.key.message, b.key.message), cmp.Compare(a.key.call, b.key.call))
	})
	w.list(len(rest))
	for _, n := range rest {
		w.list(resultFields)
		w.text(n.key.message)
		w.text(n.key.call)
		w.text(n.m.id)
	}
}

func (r *durableReader) results(t *transcript) {
	for range r.list(resultFields + 1) {
		r.fields(resultFields)
		key := resultKey{r.text(), r.text()}
		m := t.find(kindTool, r.text())
		r.check(m != nil, "the name of a result that is not there")
		if t.results[key] = m; m != nil {
			m.made = &key
		}
	}
}
