package fold

import "bytes"

// entriesWriter writes entries. Beside what a snapshot has, it knows calls by
// their places: the message that has them, and which of its calls they are.
type entriesWriter struct {
	durableWriter
	index   map[*call]int // of the calls of those in indexed
	indexed map[*message]bool
}

func newEntriesWriter(d *durable) *entriesWriter {
	return &entriesWriter{
		durableWriter: durableWriter{snapshotWriter: newSnapshotWriter(nil), d: d, calls: make(map[*call]int)},
		index:         make(map[*call]int), indexed: make(map[*message]bool),
	}
}

// entry gives what write writes.
func (w *entriesWriter) entry(write func()) []byte {
	w.buf.Reset()
	write()
	return bytes.Clone(w.buf.Bytes())
}

func (d *durable) changes() *Changes {
	d.settle()
	if d.saved == nil {
		d.track()
	}
	s, w, t := d.saved, newEntriesWriter(d), &d.transcript
	t.places.round++
	over := ended(&s.runs, func(i int) bool { return d.runs[i].EndSeq != 0 })
	for i := s.count[ListRuns]; i < len(d.runs); i++ {
		if d.runs[i].EndSeq == 0 {
			s.runs = append(s.runs, i)
		}
	}
	for _, i := range s.runs {
		w.running = append(w.running, d.runs[i])
	}
	out := new(Changes)
	out[ListState] = w.state()
	out[ListRuns] = changed(s.count[ListRuns], over, len(d.runs),
		func(i int) []byte { return w.entry(func() { w.runOf(d.runs[i]) }) })
	out[ListMessages] = w.messages(t)
	out[ListInterrupts] = changed(s.count[ListInterrupts], d.changedInterrupts, len(d.interrupts), func(i int) []byte {
		d.interrupts[i].saved = true
		w.byKey = true // so that it can be read without the runs
		defer func() { w.byKey = false }()
		return w.entry(func() { w.asked(d.interrupts[i]) })
	})
	out[ListSubagents] = changed(s.count[ListSubagents], ended(&s.subagents, func(i int) bool { return d.subagents[i].EndSeq != 0 }), len(d.subagents),
		func(i int) []byte { return w.entry(func() { w.subagent(d.subagents[i]) }) })
	out[ListSteps] = changed(s.count[ListSteps], ended(&s.steps, func(i int) bool { return d.steps[i].EndSeq != 0 }), len(d.steps),
		func(i int) []byte { return w.entry(func() { w.step(d.steps[i]) }) })
	out[ListCustom] = changed(s.count[ListCustom], nil, len(d.custom),
		func(i int) []byte { return w.entry(func() { w.custom(nil, &d.custom[i]) }) })
	out[ListReasoning] = changed(s.count[ListReasoning], nil, len(d.opaque),
		func(i int) []byte { return w.entry(func() { w.opaque(nil, &d.opaque[i]) }) })
	out[ListDiagnostics] = changed(s.count[ListDiagnostics], nil, len(d.diagnostics),
		func(i int) []byte { return w.entry(func() { w.diagnostic(nil, &d.diagnostics[i]) }) })
	out[ListNames] = w.newNames(t)
	out[ListRest] = []Segment{{New: [][]byte{w.entry(w.rest)}}}
	d.changedInterrupts = nil
	d.mark(out)
	return out
}

// track begins to remember what Changes has told: nothing yet.
func (d *durable) track() {
	d.saved = &saved{shape: -1, state: savedState{whole: true}}
	p := &d.transcript.places
	p.round = 1
	for at := range p.all {
		p.made = append(p.made, at)
	}
}

// mark takes note of how the lists are now.
func (d *durable) mark(told *Changes) {
	s := d.saved
	was := s.count
	for l, list := range told {
		n := 0
		for _, seg := range list {
			if seg.New != nil {
				n += len(seg.New)
			} else {
				n += seg.To - seg.From
			}
		}
		s.count[l] = n
	}
	for i := was[ListSteps]; i < len(d.steps); i++ {
		if d.steps[i].EndSeq == 0 {
			s.steps = append(s.steps, i)
		}
	}
	for i := was[ListSubagents]; i < len(d.subagents); i++ {
		if d.subagents[i].EndSeq == 0 {
			s.subagents = append(s.subagents, i)
		}
	}
	s.shape, d.transcript.unsaved = d.transcript.shape, 0
}

// messages gives the segments of the transcript. Unless a snapshot has come,
// what has changed is looked for from the end of the list.
func (w *entriesWriter) messages(t *transcript) []Segment {
	s := w.d.saved
	from, at := t.first, 0
	if s.shape == t.shape {
		from, at = nil, t.count
		for m, left := t.last, t.unsaved; left > 0 && m != nil; m = m.prev {
			from = m
			at--
			if !m.saved {
				left--
			}
		}
	}
	var out segments
	out.keep(0, at)
	for m := from; m != nil; m = m.next {
		w.message(m, &out)
		m.place.saved.index, m.place.saved.lost = at, 0
		at++
	}
	return out
}

// message adds a message to the segments: as it was, or anew.
func (w *entriesWriter) message(m *message, out *segments) {
	p := &m.place.saved
	if m.saved {
		out.keep(p.index, p.index+1)
		return
	}
	entry := w.entry(func() { w.messageEntry(m) })
	sum := w.d.transcript.places.sumOf(entry)
	m.saved = true
	if w.d.transcript.places.told(m.place) && p.size == len(entry) && p.sum == sum {
		out.keep(p.index, p.index+1)
		return
	}
	p.size, p.sum = len(entry), sum
	out.add(entry)
}

// runOf writes the entry of a run.
func (w *entriesWriter) runOf(r *run) {
	w.list(runFields + 1)
	w.run(&r.Run)
	w.opt(r.thread)
}

// state gives the segments of the state: the last whole one and the patches
// since, or it anew.
func (w *entriesWriter) state() []Segment {
	s, count := &w.d.saved.state, w.d.saved.count[ListState]
	defer func() { s.whole, s.patches = false, nil }()
	var out segments
	switch {
	case !s.whole:
		out.keep(0, count)
		for _, patch := range s.patches {
			out.add(patch)
		}
	case w.d.state.Present():
		entry := w.d.state.AppendJSON(nil)
		sum := w.d.transcript.places.sumOf(entry)
		if count > 0 && s.size == len(entry) && s.sum == sum {
			out.keep(0, 1)
		} else {
			out.add(entry)
		}
		s.size, s.sum, s.patched = len(entry), sum, 0
	}
	return out
}

// newNames gives the segments of the identities that the transcript does not
// tell. Once one is in the list, it stays.
func (w *entriesWriter) newNames(t *transcript) []Segment {
	var rest []*place
	for _, p := range t.places.made {
		if !p.saved.named && (p.message == nil || p.named != p.id) {
			p.saved.named = true
			rest = append(rest, p)
		}
	}
	t.places.made = nil
	before := w.d.saved.count[ListNames]
	return changed(before, nil, before+len(rest), func(i int) []byte {
		p := rest[i-before]
		return w.entry(func() {
			w.list(nameFields)
			w.number(int(p.kind))
			w.text(p.id)
			if p.named != p.id {
				w.text(p.named)
			} else {
				w.null()
			}
		})
	})
}

const messageEntryFields = 14

// messageEntry writes the entry of a message: what does not depend on the rest
// of the transcript, nor on whether it is open.
func (w *entriesWriter) messageEntry(m *message) {
	w.list(messageEntryFields)
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
	if m.callList || m.calls.count > 0 {
		w.list(m.calls.count + 1)
		w.bool(m.callList)
		for c := m.calls.first; c != nil; c = c.next {
			w.callEntry(c)
		}
	} else {
		w.null()
	}
	w.place(m.answers)
	switch {
	case m.made == nil || w.d.transcript.results[*m.made] != m:
		w.null()
	case *m.made == m.resultKey():
		w.bool(true)
	default:
		w.list(2)
		w.text(m.made.message)
		w.text(m.made.call)
	}
}

const callEntryFields = 6

func (w *entriesWriter) callEntry(c *call) {
	w.list(callEntryFields)
	w.text(c.id)
	w.text(c.name)
	w.text(c.arguments.String())
	w.opt(c.encrypted)
	w.document(c.metadata)
	w.bool(c.resulted)
}

// place writes a call of the transcript as two fields: the id of its message,
// nil for none, and its number there.
func (w *entriesWriter) place(c *call) {
	if c == nil {
		w.null()
		return
	}
	w.list(2)
	w.text(c.owner.id)
	w.number(w.indexOf(c))
}

func (w *entriesWriter) indexOf(c *call) int {
	m := c.owner
	if m.calls.count == 1 {
		return 0
	}
	if !w.indexed[m] {
		w.indexed[m] = true
		i := 0
		for c := m.calls.first; c != nil; c = c.next {
			w.index[c] = i
			i++
		}
	}
	return w.index[c]
}

const restFields = 12

// rest writes what belongs to no list: it is small, but for what is open.
func (w *entriesWriter) rest() {
	d := w.d
	var named []*call // by the streams and the last run
	also := func(c *call) {
		if _, numbered := w.calls[c]; !numbered {
			w.calls[c] = len(w.calls)
			named = append(named, c)
		}
	}
	for _, r := range w.running {
		for _, s := range r.inOrder() {
			if s.call != nil {
				also(s.call)
			}
		}
	}
	if n := len(d.runs); n > 0 {
		for _, c := range d.runs[n-1].started {
			also(c)
		}
	}
	w.list(restFields)
	w.uint(d.seq)
	w.number(d.transcript.count)
	w.pendingNumbers()
	w.texts(d.pendingCalls())
	w.list(len(named))
	for _, c := range named {
		if c.owner != nil {
			w.place(c)
		} else {
			w.call(c)
		}
	}
	w.list(len(w.running))
	for _, r := range w.running {
		w.open(r)
	}
	w.openTexts()
	w.openCalls()
	w.last()
	w.placeOrders()
	writeList(w.snapshotWriter, d.legacy, w.legacy)
	writeList(w.snapshotWriter, d.usage, w.usage)
}

// openTexts writes whose texts are open, and by which runs.
func (w *entriesWriter) openTexts() {
	var open []*message
	seen := make(map[*message]bool)
	for _, r := range w.running {
		for _, o := range r.opened {
			if m := o.message; m != nil && o.isOpen(r) && !seen[m] {
				seen[m] = true
				open = append(open, m)
			}
		}
	}
	w.list(len(open))
	for _, m := range open {
		w.list(openTextFields)
		w.text(m.id)
		w.opened(m.open, m.opening)
	}
}

const (
	openTextFields = 3
	openCallFields = 6
)

// openCalls writes which calls of the transcript are open or paused.
func (w *entriesWriter) openCalls() {
	var open []*call
	seen := make(map[*call]bool)
	for _, r := range w.running {
		for _, o := range r.opened {
			if c := o.call; c != nil && c.open == r && c.owner != nil && !seen[c] {
				seen[c] = true
				open = append(open, c)
			}
		}
		for _, c := range r.paused {
			if c.open == r && c.owner != nil && !seen[c] {
				seen[c] = true
				open = append(open, c)
			}
		}
	}
	w.list(len(open))
	for _, c := range open {
		w.list(openCallFields)
		w.place(c)
		w.opened(c.open, c.opening)
		w.bool(c.paused)
		w.bool(c.again)
		if c.fresh != nil {
			w.text(c.fresh.String())
		} else {
			w.null()
		}
	}
}

// placeOrders is orders, by the places of calls.
func (w *entriesWriter) placeOrders() {
	var odd []*callSet
	if t := &w.d.transcript; t.shared {
		numbers := make(map[*call]int)
		for m := t.first; m != nil; m = m.next {
			for c := m.calls.first; c != nil; c = c.next {
				numbers[c] = len(numbers)
			}
		}
		odd = t.oddSets(numbers)
	}
	w.list(len(odd))
	for _, set := range odd {
		w.list(len(set.all))
		for _, c := range set.all {
			w.place(c)
		}
	}
}

// pendingNumbers writes which interrupts are pending.
func (w *entriesWriter) pendingNumbers() {
	var pending []int
	for _, in := range w.d.pending {
		if !in.Answered {
			pending = append(pending, in.number)
		}
	}
	w.list(len(pending))
	for _, n := range pending {
		w.number(n)
	}
}
