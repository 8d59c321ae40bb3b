package fold

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// entriesReader reads what an entriesWriter has written.
type entriesReader struct {
	durableReader
	live    []*call // of the transcript, in order
	lists   map[*message][]*call
	answers []answeringPlace
}

// answeringPlace is a tool message that is the result of a call.
type answeringPlace struct {
	m    *message
	call callPlace
}

// callPlace is a call as an entry names it.
type callPlace struct {
	message string
	number  int
}

// read reads entries of a list, one after another.
func (r *entriesReader) read(l List, entries [][]byte, one func(i int)) {
	for i, entry := range entries {
		if r.err != nil {
			return
		}
		r.body = entry
		r.in.Reset(entry)
		one(i)
		if r.err == nil && r.in.Len() > 0 {
			r.fail("more behind its end")
		}
		if e, ok := r.err.(*SnapshotError); ok {
			e.Version, e.Reason = EntriesVersion, fmt.Sprintf("entry %d of %s: %s", i, l, e.Reason)
		}
	}
}

func restoreEntries(e *Entries, opts Options) (*durable, error) {
	d := newDurable(opts)
	r := &entriesReader{
		durableReader: durableReader{snapshotReader: newEntryReader(opts), d: d},
		lists:         make(map[*message][]*call),
	}
	t := &d.transcript
	d.saved = &saved{}
	t.places = newPlaces(len(e[ListMessages]) + len(e[ListNames]))
	t.places.round = 1
	for l, list := range e {
		d.saved.count[l] = len(list)
	}
	r.read(ListRuns, e[ListRuns], func(int) {
		r.fields(runFields + 1)
		added := new(run)
		r.run(&added.Run)
		added.thread = r.opt()
		r.addRun(added)
	})
	r.read(ListMessages, e[ListMessages], func(i int) { r.messageEntry(t, i, e[ListMessages][i]) })
	r.read(ListNames, e[ListNames], func(int) { r.nameEntry(t) })
	r.answerAll(t)
	r.stateEntries(e[ListState])
	r.read(ListRest, e[ListRest], func(int) { r.rest(t) })
	if r.err == nil && len(e[ListRest]) != 1 {
		r.fail("another number of entries")
	}
	r.read(ListInterrupts, e[ListInterrupts], func(int) { r.asked() })
	r.read(ListSubagents, e[ListSubagents], func(int) { r.subagent() })
	r.read(ListSteps, e[ListSteps], func(int) { r.step() })
	r.read(ListCustom, e[ListCustom], func(int) { d.custom = append(d.custom, readEntry(r, customFields, r.custom)) })
	r.read(ListReasoning, e[ListReasoning], func(int) { d.opaque = append(d.opaque, readEntry(r, opaqueFields, r.opaque)) })
	r.read(ListDiagnostics, e[ListDiagnostics], func(int) {
		d.diagnostics = append(d.diagnostics, readEntry(r, diagnosticFields, r.diagnostic))
	})
	if r.err != nil {
		return nil, r.err
	}
	r.marks(e)
	return d, nil
}

// newEntryReader returns a reader that has nothing to read yet.
func newEntryReader(opts Options) *snapshotReader {
	r := &snapshotReader{nesting: max(opts.Limits.Nesting, agui.MaxNesting)}
	r.dec = newDecoder(&r.in)
	return r
}

func readEntry[T any](r *entriesReader, fields int, one func(*snapshotReader, *T)) (v T) {
	r.fields(fields)
	one(r.snapshotReader, &v)
	return v
}

// messageEntry reads the message at a place of the transcript. What it answers is
// found when all messages are there.
func (r *entriesReader) messageEntry(t *transcript, at int, entry []byte) {
	r.fields(messageEntryFields)
	m := &message{kind: kind(r.number(int(kinds) - 1)), id: r.text(), role: r.role(), t: t, saved: true}
	r.content(&m.content)
	m.name, m.tag, m.toolCallID, m.err = r.opt(), r.opt(), r.opt(), r.opt()
	m.activity, m.encrypted, m.metadata = r.opt(), r.opt(), r.document()
	if !r.isNull() {
		n := r.list(1)
		r.check(n > 0, "a list of calls without a beginning")
		m.callList = r.bool()
		for range n - 1 {
			r.callEntry(m)
		}
	}
	if !r.isNull() {
		r.check(m.kind == kindTool, "a result that is no tool message")
		r.answers = append(r.answers, answeringPlace{m, r.place()})
	}
	r.madeBy(m)
	r.check((m.kind == kindActivity) == (m.content.kind == agui.ObjectContent), "a message with the content of another kind")
	r.check(!t.places.taken(m.id), "two messages of one id")
	if r.err != nil {
		return
	}
	m.place = &place{kind: m.kind, id: m.id, named: m.id}
	m.place.saved = savedPlace{index: at, size: len(entry), sum: t.places.sumOf(entry)}
	t.places.add(m.id, m.place)
	t.append(m)
}

func (r *entriesReader) callEntry(m *message) {
	r.fields(callEntryFields)
	c := &call{id: r.text(), name: r.text(), arguments: r.growing(), encrypted: r.opt(), metadata: r.document(), resulted: r.bool()}
	m.push(c)
	r.live = append(r.live, c)
}

// madeBy reads which TOOL_CALL_RESULT has made a message.
func (r *entriesReader) madeBy(m *message) {
	if r.isNull() {
		return
	}
	key := m.resultKey()
	if code := field(r.snapshotReader, r.dec.PeekCode); isList(code) {
		r.fields(2)
		key = resultKey{r.text(), r.text()}
	} else {
		r.check(r.bool(), "no result, but not nil")
	}
	r.check(m.kind == kindTool, "a result that is no tool message")
	m.made, r.d.transcript.results[key] = &key, m
}

func (r *entriesReader) nameEntry(t *transcript) {
	r.fields(nameFields)
	k, id, named := kind(r.number(int(kinds)-1)), r.text(), r.opt()
	p := t.places.find(k, id)
	if p == nil {
		r.check(!t.places.taken(id), "one name for two kinds")
		p = &place{kind: k, id: id, named: id}
		t.places.add(id, p)
	}
	r.check(p.id == id && !p.saved.named, "an identity with two names")
	p.saved.named = true
	if !named.Set || r.err != nil {
		return
	}
	r.check(named.V != id && t.places.find(k, named.V) == nil, "an identity with two names")
	p.named = named.V
	t.places.add(named.V, p)
}

// place reads a call's place. r has not met nil.
func (r *entriesReader) place() callPlace {
	r.fields(2)
	return callPlace{r.text(), r.int()}
}

// at gives the call at a place; nil if r has failed.
func (r *entriesReader) at(t *transcript, p callPlace) *call {
	m := t.find(kindText, p.message)
	if m == nil || m.id != p.message || p.number >= m.calls.count {
		r.fail("a call that is not there")
		return nil
	}
	if p.number == 0 {
		return m.calls.first
	}
	list := r.lists[m]
	if list == nil {
		for c := m.calls.first; c != nil; c = c.next {
			list = append(list, c)
		}
		r.lists[m] = list
	}
	return list[p.number]
}

// answerAll makes tool messages the results of their calls, which are not indexed
// yet: they will never have waited.
func (r *entriesReader) answerAll(t *transcript) {
	for _, a := range r.answers {
		if r.err != nil {
			return
		}
		c := r.at(t, a.call)
		if c == nil || c.id != a.m.toolCallID.V {
			r.fail("a result of something else")
			return
		}
		a.m.answers = c
		c.results++
		r.check(c.resulted, "a result that never was")
	}
}

// stateEntries reads the state and applies its patches.
func (r *entriesReader) stateEntries(entries [][]byte) {
	s := &r.d.saved.state
	r.read(ListState, entries, func(i int) {
		entry := entries[i]
		if _, err := r.in.Seek(0, 2); err != nil {
			r.fail(err.Error())
		}
		if i == 0 {
			v, err := jsonvalue.Parse(entry, r.nesting)
			r.check(err == nil, "no JSON")
			r.d.state = jsonvalue.NewDocument(v)
			s.size, s.sum = len(entry), r.d.transcript.places.sumOf(entry)
			return
		}
		s.patched += len(entry)
		if !applyPatch(r.d.state, entry, r.nesting) {
			r.fail("a patch that cannot be applied")
		}
	})
}

// applyPatch applies what appendPatch has given. It was within the limits once.
func applyPatch(state *jsonvalue.Document, patch []byte, nesting int) bool {
	event := slices.Concat([]byte(`{"type":"STATE_DELTA","delta":`), patch, []byte{'}'})
	decoder := agui.Decoder{Lenient: true, Nesting: nesting + 3}
	var e agui.Event
	if decoder.Decode(event, &e) != nil || len(e.Notes) > 0 {
		return false
	}
	return state.Patch(e.Patch, jsonvalue.PatchLimits{Ops: len(e.Patch) + 1, Copied: 1 << 40, Size: 1 << 40, Nesting: nesting}) == nil
}

func (r *entriesReader) rest(t *transcript) {
	d := r.d
	r.fields(restFields)
	head := r.restHead()
	d.seq = head.Seq
	r.check(head.Messages == t.count, "another number of messages")
	for range r.list(3) {
		if field(r.snapshotReader, r.dec.DecodeArrayLen) == 2 {
			if c := r.at(t, callPlace{r.text(), r.int()}); c != nil {
				r.calls = append(r.calls, c)
			}
			continue
		}
		r.callBody()
	}
	r.check(r.list(1) == len(r.running), "another number of running runs")
	for _, running := range r.running {
		r.open(running)
		if running.overtaken == 0 {
			d.calm = append(d.calm, running)
		}
	}
	r.openTexts(t)
	r.openCalls(t)
	for _, running := range r.running {
		slices.SortFunc(running.opened, func(a, b opening) int { return cmp.Compare(a.seq, b.seq) })
	}
	r.last()
	r.orders(t, r.live, func() (*call, bool) {
		c := r.at(t, r.place())
		return c, c != nil && r.err == nil
	})
	d.legacy = readList(r.snapshotReader, legacyFields, r.legacy)
	for _, total := range readList(r.snapshotReader, usageFields, r.usage) {
		d.startUsage(total)
	}
}

func (r *entriesReader) openTexts(t *transcript) {
	for range r.list(openTextFields + 1) {
		r.fields(openTextFields)
		id := r.text()
		by, at := r.opened()
		m := t.named(id)
		if m == nil || by == nil || m.open != nil {
			r.fail("a text that is open, but not there")
			return
		}
		m.open, m.opening = by, at
		by.opened = append(by.opened, opening{message: m, seq: at})
	}
}

// named finds a message by its id in views.
func (t *transcript) named(id string) *message {
	for k := range kinds {
		if m := t.find(k, id); m != nil && m.id == id {
			return m
		}
	}
	return nil
}

func (r *entriesReader) openCalls(t *transcript) {
	for range r.list(openCallFields + 1) {
		r.fields(openCallFields)
		c := r.at(t, r.place())
		by, at := r.opened()
		paused := r.bool()
		if c == nil || by == nil || c.open != nil {
			r.fail("a call that is open, but not there")
			return
		}
		c.set(by, paused)
		c.opening, c.again = at, r.bool()
		if !r.isNull() {
			c.fresh = r.growing()
		}
		if paused {
			by.paused = append(by.paused, c)
		} else {
			by.opened = append(by.opened, opening{call: c, seq: at})
		}
	}
}

// marks takes note of what is in the entries, for the next Changes.
func (r *entriesReader) marks(e *Entries) {
	d := r.d
	s := d.saved
	s.shape, d.transcript.unsaved = d.transcript.shape, 0
	for _, running := range r.running {
		s.runs = append(s.runs, running.number)
	}
	for i, step := range d.steps {
		if step.EndSeq == 0 {
			s.steps = append(s.steps, i)
		}
	}
	for i, sub := range d.subagents {
		if sub.EndSeq == 0 {
			s.subagents = append(s.subagents, i)
		}
	}
	for _, in := range d.interrupts {
		in.saved = true
	}
	s.state.whole = len(e[ListState]) == 0
}
