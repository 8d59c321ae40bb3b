package fold

import (
	"cmp"
	"maps"
	"slices"

	"github.com/agstore/agstore/agui"
)

// What can be found from the rest is not in a snapshot: it is found again. That
// is every index but those that remember what the transcript no longer shows.
// The caches of the fold are left out, too.

const durableFields = 19

// durableWriter knows the numbers by which a snapshot names calls.
type durableWriter struct {
	*snapshotWriter
	d       *durable
	running []*run // in order of their starts
	calls   map[*call]int
	loose   []*call // no longer in the transcript, but still meant by something
	byKey   bool    // runs are written by their keys, not by numbers
}

func (d *durable) save(to *snapshotWriter) {
	d.settle()
	w := &durableWriter{snapshotWriter: to, d: d, calls: make(map[*call]int)}
	for _, r := range d.runs {
		if r.EndSeq == 0 {
			w.running = append(w.running, r)
		}
	}
	w.numberCalls()

	w.list(durableFields)
	w.number(int(Durable))
	w.uint(d.seq)
	w.list(len(d.runs))
	for _, r := range d.runs {
		w.list(runFields + 1)
		w.run(&r.Run)
		w.opt(r.thread)
	}
	w.transcript(&d.transcript)
	w.document(d.state)
	w.list(len(w.running))
	for _, r := range w.running {
		w.open(r)
	}
	w.last()
	w.list(len(d.interrupts))
	for _, in := range d.interrupts {
		w.asked(in)
	}
	w.lists()
}

// runKey writes a run by its number, if it has one.
func (w *durableWriter) runKey(k agui.RunKey) {
	number := -1
	if r := w.d.byKey[k]; r != nil && !w.byKey {
		number = r.number
	}
	w.keyOf(k, number)
}

// numberCalls gives each call its number: first those of the transcript.
func (w *durableWriter) numberCalls() {
	for m := w.d.transcript.first; m != nil; m = m.next {
		for c := m.calls.first; c != nil; c = c.next {
			w.calls[c] = len(w.calls)
		}
	}
	also := func(c *call) {
		if _, numbered := w.calls[c]; !numbered {
			w.calls[c] = len(w.calls)
			w.loose = append(w.loose, c)
		}
	}
	for _, r := range w.running {
		for _, s := range r.inOrder() {
			if s.call != nil {
				also(s.call)
			}
		}
	}
	if n := len(w.d.runs); n > 0 {
		for _, c := range w.d.runs[n-1].started {
			also(c)
		}
	}
}

// durableReader has what numbers name.
type durableReader struct {
	*snapshotReader
	d       *durable
	running []*run // in order of their starts
	calls   []*call
	live    int // of calls: so many are in the transcript
}

func restoreDurable(from *snapshotReader, opts Options) *durable {
	d := newDurable(opts)
	r := &durableReader{snapshotReader: from, d: d}
	r.fields(durableFields)
	r.check(r.uint() == uint64(Durable), "of another profile")
	d.seq = r.uint()
	for range r.list(runFields + 2) {
		r.fields(runFields + 1)
		added := new(run)
		r.run(&added.Run)
		added.thread = r.opt()
		r.addRun(added)
	}
	r.transcript(&d.transcript)
	if state := r.document(); state != nil {
		d.state = state
	}
	r.check(r.list(1) == len(r.running), "another number of running runs")
	for _, running := range r.running {
		r.open(running)
		if running.overtaken == 0 {
			d.calm = append(d.calm, running)
		}
	}
	r.last()
	for range r.list(askedFields + 1) {
		r.asked()
	}
	r.lists()
	return d
}

func (r *durableReader) addRun(added *run) {
	d := r.d
	r.check(d.byKey[added.Key] == nil, "two runs of one key")
	added.number = len(d.runs)
	d.runs, d.byKey[added.Key] = append(d.runs, added), added
	if added.EndSeq == 0 {
		r.running = append(r.running, added)
	}
}

const openFields = 4

// open is what a running run has open beside messages and calls, which say so
// themselves.
func (w *durableWriter) open(r *run) {
	w.list(openFields)
	w.list(len(r.streams))
	for _, s := range r.inOrder() {
		w.stream(s)
	}
	w.number(r.thinking)
	w.opt(r.thinkingID)
	w.uint(r.overtaken)
}

func (r *durableReader) open(running *run) {
	r.fields(openFields)
	for range r.list(streamFields + 1) {
		r.stream(running)
	}
	running.thinking, running.thinkingID, running.overtaken = r.int(), r.opt(), r.uint()
	slices.SortFunc(running.opened, func(a, b opening) int { return cmp.Compare(a.seq, b.seq) })
}

const streamFields = 8

func (w *durableWriter) stream(s *stream) {
	w.list(streamFields)
	w.number(slices.Index(chunkTypes[:], s.kind))
	w.text(s.id)
	w.opt(s.tag)
	w.opt(s.role)
	w.opt(s.name)
	w.opt(s.parent)
	if s.call != nil {
		w.number(w.calls[s.call])
	} else {
		w.null()
	}
	w.uint(s.opening)
}

// chunkTypes are the kinds of streams by their numbers.
var chunkTypes = [...]agui.Type{agui.TypeTextMessageChunk, agui.TypeToolCallChunk, agui.TypeReasoningMessageChunk}

func (r *durableReader) stream(of *run) {
	r.fields(streamFields)
	s := &stream{kind: chunkTypes[r.number(len(chunkTypes)-1)], id: r.text(), tag: r.opt(), role: r.opt(), name: r.opt(), parent: r.opt()}
	if !r.isNull() {
		if n, ok := r.index(len(r.calls)); ok {
			s.call = r.calls[n]
		}
	}
	s.opening = r.uint()
	r.check((s.call != nil) == (s.kind == agui.TypeToolCallChunk), "a stream of another kind")
	key := streamKey{s.kind, s.id}
	r.check(of.streams[s.tag] == nil && of.named[key] == nil, "two streams of one name")
	of.add(s)
}

// last is what is asked of the last run alone (R17): nil before the first.
func (w *durableWriter) last() {
	if len(w.d.runs) == 0 {
		w.null()
		return
	}
	r := w.d.runs[len(w.d.runs)-1]
	seen := make(map[*call]bool, len(r.started))
	started := make([]int, 0, len(r.started))
	for _, c := range r.started {
		if !seen[c] {
			seen[c] = true
			started = append(started, w.calls[c])
		}
	}
	w.list(lastFields)
	w.list(len(started))
	for _, n := range started {
		w.number(n)
	}
	w.texts(slices.Sorted(maps.Keys(r.orphanResults)))
	w.texts(r.pendingCalls)
}

const lastFields = 3

func (r *durableReader) last() {
	if r.isNull() {
		r.check(len(r.d.runs) == 0, "nothing of the last run")
		return
	}
	r.fields(lastFields)
	last := new(run)
	if n := len(r.d.runs); n > 0 {
		last = r.d.runs[n-1]
	} else {
		r.fail("no run is the last")
	}
	for range r.list(1) {
		if n, ok := r.index(len(r.calls)); ok {
			c := r.calls[n]
			c.startedBy = last
			last.started = append(last.started, c)
		}
	}
	for _, id := range r.texts() {
		if last.orphanResults == nil {
			last.orphanResults = make(map[string]bool)
		}
		last.orphanResults[id] = true
	}
	last.pendingCalls = r.texts()
}

const askedFields = interruptFields + 5

// asked is an interrupt. The latest of an id, the pending ones, and what a run
// answers are found again.
func (w *durableWriter) asked(in *interrupt) {
	w.list(askedFields)
	w.interrupt(&in.Interrupt.Interrupt)
	w.runKey(in.Run)
	w.uint(in.Seq)
	w.bool(in.Answered)
	writeList(w.snapshotWriter, in.Answers, w.answer)
	by := make([]int, 0, len(in.by))
	for r := range in.by {
		by = append(by, r.number)
	}
	slices.Sort(by)
	w.list(len(by))
	for _, n := range by {
		w.number(n)
	}
}

func (r *durableReader) asked() {
	r.fields(askedFields)
	in := &interrupt{number: len(r.d.interrupts)}
	r.interrupt(&in.Interrupt.Interrupt)
	in.Run, in.Seq, in.Answered = r.runKey(r.d.runs), r.uint(), r.bool()
	in.Answers = readList(r.snapshotReader, answerFields, r.answer)
	for range r.list(1) {
		if by := r.runningRun(); by != nil {
			in.answering(by)
		}
	}
	d := r.d
	d.interrupts, d.latest[in.ID] = append(d.interrupts, in), in
	if !in.Answered {
		d.pending = append(d.pending, in)
	}
}

const answerFields = 5

func (w *durableWriter) answer(_ *snapshotWriter, a *Answer) {
	w.list(answerFields)
	w.runKey(a.Run)
	w.uint(a.Seq)
	w.text(a.Status)
	w.value(a.Payload)
	w.value(a.Metadata)
}

func (r *durableReader) answer(_ *snapshotReader, a *Answer) {
	*a = Answer{Run: r.runKey(r.d.runs), Seq: r.uint(), Status: r.text(), Payload: r.value(), Metadata: r.value()}
}

// runningRun reads the number of a run that has not ended; nil if r has failed.
func (r *durableReader) runningRun() *run {
	n, ok := r.index(len(r.d.runs))
	if !ok {
		return nil
	}
	if r.d.runs[n].EndSeq != 0 {
		r.fail("an ended run has something open")
		return nil
	}
	return r.d.runs[n]
}
