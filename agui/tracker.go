package agui

import (
	"maps"
	"slices"
)

// Tracker follows the events of one thread in the order of their seqs. Of each
// it says which run it belongs to (DESIGN decisions 1 to 3), it builds the tree
// of runs, and it knows what each running run has open.
//
// What it holds grows with the number of runs and with what the running ones
// have started, not with the number of events. It is not safe for concurrent
// use.
type Tracker struct {
	runs   []Run
	latest map[string]int // run id -> index of its latest attempt
	older  map[RunKey]int // the indexes of earlier attempts
	head   RunKey
	open   openRuns
	owners owners // of what open runs have started; nil as long as one alone is open
	// anchors are, for each run, the nearest ancestor that may be running: none
	// between them is, and none will be again. -1: none is left.
	anchors []int
}

// NewTracker returns a tracker of a thread with these runs, in order of their
// starts, and this head (the zero key: before the first run). What running runs
// have open must be told with [Tracker.Observe].
func NewTracker(runs []Run, head RunKey) *Tracker {
	t := &Tracker{
		runs: slices.Clone(runs), latest: make(map[string]int, len(runs)), older: make(map[RunKey]int), head: head,
		anchors: make([]int, 0, len(runs)),
	}
	for i, r := range t.runs {
		t.anchors = append(t.anchors, t.nearest(r.Parent))
		t.index(r.Key, i)
		if r.Running() {
			t.opens(i)
		}
	}
	return t
}

// index makes the run at i known by its key.
func (t *Tracker) index(k RunKey, i int) {
	if old, ok := t.latest[k.ID]; ok {
		t.older[t.runs[old].Key] = old
	}
	t.latest[k.ID] = i
}

// Clone returns a tracker that goes its own way from here: to see what a batch
// would do.
func (t *Tracker) Clone() *Tracker {
	return &Tracker{
		runs:    slices.Clone(t.runs),
		latest:  maps.Clone(t.latest),
		older:   maps.Clone(t.older),
		head:    t.head,
		open:    t.open.clone(),
		owners:  t.owners.clone(),
		anchors: slices.Clone(t.anchors),
	}
}

// A Claim is what is known of an event beyond its bytes. The zero Claim is an
// event of an import or a raw append.
type Claim struct {
	// Run: the event is written for this run. The zero key: decide.
	Run RunKey
	// Leased: the writer holds the lease of Run, so a RUN_STARTED is an echo
	// whatever id it has.
	Leased bool
	// Parent places a RUN_STARTED explicitly. The parent must be known and
	// ended; nil: as the event says.
	Parent *RunKey
}

// An Assignment says what an event is in its thread.
type Assignment struct {
	Run           RunKey // the zero key: it belongs to no run
	Started       bool   // it begins Run
	Echo          bool   // a RUN_STARTED of a run that is still open: says nothing new
	Ended         bool   // it is the terminal event that decides Run's status
	UnknownParent bool   // Started, and its parentRunId was no pointer (fold-rules R33), or not the one that the claim says
}

// Assign decides on the next event, which gets number seq, and takes note of
// it.
//
// The run is: that of the claim; else for RUN_STARTED the run that is still
// open under its runId, or a new one; else the run that the event's runId
// names; else the running run that has started its call, message or step (for a
// START: its parent message); else the running run that started last; else the
// latest run; else none.
func (t *Tracker) Assign(h *Header, seq uint64, c Claim) Assignment {
	if h.Type == TypeRunStarted {
		if a, ok := t.echo(h, c); ok {
			t.count(a.Run, seq)
			return a
		}
		return t.start(h, seq, c)
	}
	a := Assignment{Run: c.Run}
	if a.Run.IsZero() {
		a.Run = t.runOf(h)
	}
	if a.Run.IsZero() {
		return a
	}
	r := t.count(a.Run, seq)
	if r != nil && r.Running() {
		if h.Type.Terminal() {
			a.Ended = true
			r.EndSeq, r.Status = seq, EndStatus(h)
			t.closes(t.at(a.Run))
		} else {
			t.Observe(h, a.Run, seq)
		}
	}
	return a
}

func (t *Tracker) echo(h *Header, c Claim) (Assignment, bool) {
	if c.Leased {
		return Assignment{Run: c.Run, Echo: true}, true
	}
	if i, ok := t.latest[string(h.RunID)]; ok && t.runs[i].Running() {
		return Assignment{Run: t.runs[i].Key, Echo: true}, true
	}
	return Assignment{}, false
}

func (t *Tracker) start(h *Header, seq uint64, c Claim) Assignment {
	// A RUN_STARTED without a runId starts a run all the same: else all that
	// follows would be words outside any run.
	id := string(h.RunID)
	r := Run{Key: RunKey{ID: id, Attempt: 1}, FirstSeq: seq, LastSeq: seq, Events: 1}
	if i, ok := t.latest[id]; ok {
		r.Key.Attempt = t.runs[i].Key.Attempt + 1
	}
	a := Assignment{Run: r.Key, Started: true}
	r.Parent, a.UnknownParent = t.parent(h, c)
	if !r.Parent.IsZero() {
		r.ParentSeq = seq - 1
		if !t.Names(h, c) && t.nearest(r.Parent) >= 0 {
			r.ParentSeq = 0 // runs that overlap in one stream
		}
	}
	t.anchors = append(t.anchors, t.nearest(r.Parent))
	t.index(r.Key, len(t.runs))
	t.opens(len(t.runs))
	t.runs = append(t.runs, r)
	t.head = r.Key
	return a
}

// opens takes note of a run that begins; its row may still be missing.
func (t *Tracker) opens(i int) {
	if t.open.count() == 1 && t.owners == nil {
		// From now on it has to be looked up which of them an event belongs to.
		t.owners = make(owners)
		only := t.open.newest()
		only.ids.each(func(what entity) { t.owners.add(what, only.index) })
	}
	t.open.add(i)
}

// closes takes note of the end of a run.
func (t *Tracker) closes(i int) {
	o := t.open.find(i)
	if o == nil {
		return
	}
	if t.owners != nil {
		o.ids.each(func(what entity) { t.owners.remove(what, i) })
	}
	t.open.remove(o)
	if t.open.count() == 0 {
		t.owners = nil
	}
}

// names reports whether a parentRunId means this run, or no run.
func names(id []byte, k RunKey) bool {
	if k.IsZero() {
		return string(id) == RootParent
	}
	return string(id) == k.ID
}

func (t *Tracker) parent(h *Header, c Claim) (parent RunKey, unknown bool) {
	if c.Parent != nil {
		return *c.Parent, h.ParentRunID != nil && !names(h.ParentRunID, *c.Parent)
	}
	if h.ParentRunID == nil {
		return t.head, false
	}
	i, ok := t.latest[string(h.ParentRunID)]
	if !ok && string(h.ParentRunID) == RootParent {
		return RunKey{}, false
	}
	if !ok || t.runs[i].Running() || string(h.ParentRunID) == string(h.RunID) {
		return t.head, true
	}
	return t.runs[i].Key, false
}

// Names reports whether a RUN_STARTED says itself which run it continues, so
// that it does not follow the head.
func (t *Tracker) Names(h *Header, c Claim) bool {
	_, unknown := t.parent(h, c)
	return c.Parent != nil || (h.ParentRunID != nil && !unknown)
}

// nearest gives the first run that is running on the way from run of, itself
// included, to its root; -1 if there is none. What it passes it need not pass
// again: a run that has ended never runs again.
func (t *Tracker) nearest(of RunKey) int {
	found := t.at(of)
	for found >= 0 && !t.runs[found].Running() {
		found = t.anchors[found]
	}
	for i := t.at(of); i >= 0 && i != found; {
		i, t.anchors[i] = t.anchors[i], found
	}
	return found
}

// Running lists the running runs in the lineage of run of, oldest first.
func (t *Tracker) Running(of RunKey) []RunKey {
	var out []RunKey
	for i := t.nearest(of); i >= 0; i = t.nearest(t.runs[i].Parent) {
		out = append(out, t.runs[i].Key)
	}
	slices.Reverse(out)
	return out
}

// Peek says which run the next event would belong to, were it not a RUN_STARTED,
// as [Tracker.Assign] does, but takes no note of it.
func (t *Tracker) Peek(h *Header, c Claim) RunKey {
	if !c.Run.IsZero() {
		return c.Run
	}
	return t.runOf(h)
}

func (t *Tracker) runOf(h *Header) RunKey {
	if h.RunID != nil {
		if i, ok := t.latest[string(h.RunID)]; ok {
			return t.runs[i].Key
		}
	}
	// With one running run there is nothing to look up.
	if t.open.count() > 1 {
		if i := t.owners.of(h); i >= 0 {
			return t.runs[i].Key
		}
	}
	if t.open.count() > 0 {
		return t.runs[t.open.newest().index].Key
	}
	if n := len(t.runs); n > 0 {
		return t.runs[n-1].Key
	}
	return RunKey{}
}

// EndStatus is the status that a terminal event gives to its run (fold-rules
// R2).
func EndStatus(h *Header) RunStatus {
	switch {
	case h.Type == TypeRunError && string(h.Code) == CodeAbandoned:
		return RunAbandoned
	case h.Type == TypeRunError:
		return RunFailed
	case string(h.Outcome) == "interrupt":
		return RunInterrupted
	case string(h.Outcome) == "cancelled":
		return RunCancelled
	}
	return RunSuccess
}

// count adds a record to a run's row.
func (t *Tracker) count(k RunKey, seq uint64) *Run {
	r := t.row(k)
	if r != nil {
		r.Events++
		r.LastSeq = seq
	}
	return r
}

func (t *Tracker) row(k RunKey) *Run {
	if i := t.at(k); i >= 0 {
		return &t.runs[i]
	}
	return nil
}

// at gives the index of a run, -1 if it is none.
func (t *Tracker) at(k RunKey) int {
	if i, ok := t.latest[k.ID]; ok && t.runs[i].Key == k {
		return i
	}
	if i, ok := t.older[k]; ok {
		return i
	}
	return -1
}

// Observe takes note of what a record of a running run opens and closes. Assign
// does so itself; Observe is for records from before the tracker was made.
func (t *Tracker) Observe(h *Header, run RunKey, seq uint64) {
	o := t.open.find(t.at(run))
	if o == nil {
		return
	}
	o.ids.observe(h, seq)
	if t.owners != nil {
		t.owners.observe(h, o)
	}
}

// Run gives the row of one run.
func (t *Tracker) Run(k RunKey) (Run, bool) {
	if r := t.row(k); r != nil {
		return *r, true
	}
	return Run{}, false
}

// At gives the row of the i-th run, counted from 0 in order of their starts.
func (t *Tracker) At(i int) Run { return t.runs[i] }

// Latest gives the row of the latest attempt of a run id.
func (t *Tracker) Latest(id string) (Run, bool) {
	if i, ok := t.latest[id]; ok {
		return t.runs[i], true
	}
	return Run{}, false
}

// Runs lists all runs in order of their starts.
func (t *Tracker) Runs() []Run { return slices.Clone(t.runs) }

// Len is the number of runs.
func (t *Tracker) Len() int { return len(t.runs) }

// OpenRuns lists the runs without a terminal event, in order of their starts.
func (t *Tracker) OpenRuns() []Run {
	out := make([]Run, 0, t.open.count())
	for _, o := range t.open.list {
		if !o.closed {
			out = append(out, t.runs[o.index])
		}
	}
	return out
}

// OpenCount is the number of runs without a terminal event.
func (t *Tracker) OpenCount() int { return t.open.count() }

// Head is the run that the thread continues from: the latest started one,
// unless set. The zero key is before the first run.
func (t *Tracker) Head() RunKey { return t.head }

// SetHead sets the run that the next one continues from. It must be known.
func (t *Tracker) SetHead(k RunKey) { t.head = k }

// Closing gives the events that close what a running run has open: messages,
// reasoning, tool calls, steps, subagents, each kind in order of opening, and
// at last a RUN_ERROR with this code and message. It changes nothing.
func (t *Tracker) Closing(run RunKey, code, message string) [][]byte {
	var out [][]byte
	if o := t.open.find(t.at(run)); o != nil {
		out = o.ids.closing(code, message)
	}
	// AG-UI's RUN_ERROR has no runId. With one, the event says which run it ends
	// wherever it is read again.
	return append(out, event(TypeRunError, "message", message, "code", code, "runId", run.ID))
}
