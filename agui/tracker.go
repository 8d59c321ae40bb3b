package agui

import (
	"cmp"
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
	head   RunKey
	open   []openRun // in order of their starts
}

type openRun struct {
	index int
	ids   openIDs
}

// NewTracker returns a tracker of a thread with these runs, in order of their
// starts, and this head (the zero key: before the first run). What running runs
// have open must be told with [Tracker.Observe].
func NewTracker(runs []Run, head RunKey) *Tracker {
	t := &Tracker{runs: slices.Clone(runs), latest: make(map[string]int, len(runs)), head: head}
	for i, r := range t.runs {
		t.latest[r.Key.ID] = i
		if r.Running() {
			t.open = append(t.open, openRun{index: i})
		}
	}
	return t
}

// Clone returns a tracker that goes its own way from here: to see what a batch
// would do.
func (t *Tracker) Clone() *Tracker {
	c := &Tracker{
		runs:   slices.Clone(t.runs),
		latest: maps.Clone(t.latest),
		head:   t.head,
		open:   slices.Clone(t.open),
	}
	for i := range c.open {
		c.open[i].ids = c.open[i].ids.clone()
	}
	return c
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
			t.close(a.Run)
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
		if !t.Names(h, c) && t.runningInLineage(r.Parent) {
			r.ParentSeq = 0 // runs that overlap in one stream
		}
	}
	t.latest[id] = len(t.runs)
	t.open = append(t.open, openRun{index: len(t.runs)})
	t.runs = append(t.runs, r)
	t.head = r.Key
	return a
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

func (t *Tracker) runningInLineage(of RunKey) bool {
	if len(t.open) == 0 {
		return false
	}
	for _, s := range Lineage(t.runs, of) {
		if t.isOpen(s.Run) {
			return true
		}
	}
	return false
}

func (t *Tracker) isOpen(k RunKey) bool {
	return slices.ContainsFunc(t.open, func(o openRun) bool { return t.runs[o.index].Key == k })
}

func (t *Tracker) runOf(h *Header) RunKey {
	if h.RunID != nil {
		if i, ok := t.latest[string(h.RunID)]; ok {
			return t.runs[i].Key
		}
	}
	// With one running run there is nothing to look up.
	if len(t.open) > 1 {
		for i := len(t.open) - 1; i >= 0; i-- {
			if t.open[i].ids.owns(h) {
				return t.runs[t.open[i].index].Key
			}
		}
	}
	if n := len(t.open); n > 0 {
		return t.runs[t.open[n-1].index].Key
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
	i, ok := t.latest[k.ID]
	if !ok || i >= len(t.runs) {
		return nil
	}
	if t.runs[i].Key == k {
		return &t.runs[i]
	}
	for i := range t.runs {
		if t.runs[i].Key == k {
			return &t.runs[i]
		}
	}
	return nil
}

func (t *Tracker) close(k RunKey) {
	t.open = slices.DeleteFunc(t.open, func(o openRun) bool { return t.runs[o.index].Key == k })
}

// Observe takes note of what a record of a running run opens and closes. Assign
// does so itself; Observe is for records from before the tracker was made.
func (t *Tracker) Observe(h *Header, run RunKey, seq uint64) {
	for i := range t.open {
		if t.runs[t.open[i].index].Key == run {
			t.open[i].ids.observe(h, seq)
			return
		}
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
	out := make([]Run, len(t.open))
	for i, o := range t.open {
		out[i] = t.runs[o.index]
	}
	return out
}

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
	for i := range t.open {
		if t.runs[t.open[i].index].Key == run {
			out = t.open[i].ids.closing(code, message)
		}
	}
	// AG-UI's RUN_ERROR has no runId. With one, the event says which run it ends
	// wherever it is read again.
	return append(out, event(TypeRunError, "message", message, "code", code, "runId", run.ID))
}

// openIDs is what one running run has started, and what of it is open: the
// value is the seq of the opening event, 0 once closed.
type openIDs struct {
	texts, reasonings, spans, calls, subagents map[string]uint64
	steps                                      map[step]uint64
}

func (o openIDs) clone() openIDs {
	return openIDs{
		texts:      maps.Clone(o.texts),
		reasonings: maps.Clone(o.reasonings),
		spans:      maps.Clone(o.spans),
		calls:      maps.Clone(o.calls),
		subagents:  maps.Clone(o.subagents),
		steps:      maps.Clone(o.steps),
	}
}

// step is the identity of a step (fold-rules R6): an absent subagent and one
// with the empty id differ.
type step struct {
	tagged         bool
	subagent, name string
}

func stepOf(h *Header) step {
	return step{h.SubagentRunID != nil, string(h.SubagentRunID), string(h.StepName)}
}

func set[K comparable](m *map[K]uint64, k K, v uint64) {
	if *m == nil {
		*m = make(map[K]uint64)
	}
	(*m)[k] = v
}

// touch makes a known id out of k without opening it.
func touch[K comparable](m *map[K]uint64, k K) {
	if _, ok := (*m)[k]; !ok {
		set(m, k, 0)
	}
}

func (o *openIDs) observe(h *Header, seq uint64) {
	message, call := string(h.MessageID), string(h.ToolCallID)
	switch h.Type {
	case TypeTextMessageStart:
		set(&o.texts, message, seq)
	case TypeTextMessageEnd:
		set(&o.texts, message, 0)
	case TypeTextMessageChunk, TypeActivitySnapshot, TypeToolCallResult:
		if h.MessageID != nil {
			touch(&o.texts, message)
		}
	case TypeToolCallStart:
		set(&o.calls, call, seq)
	case TypeToolCallEnd:
		set(&o.calls, call, 0)
	case TypeToolCallChunk:
		if h.ToolCallID != nil {
			touch(&o.calls, call)
		}
	case TypeReasoningStart:
		set(&o.spans, message, seq)
	case TypeReasoningEnd:
		set(&o.spans, message, 0)
	case TypeReasoningMessageStart:
		set(&o.reasonings, message, seq)
	case TypeReasoningMessageEnd:
		set(&o.reasonings, message, 0)
	case TypeReasoningMessageChunk:
		if h.MessageID != nil {
			touch(&o.reasonings, message)
		}
	case TypeStepStarted:
		set(&o.steps, stepOf(h), seq)
	case TypeStepFinished:
		set(&o.steps, stepOf(h), 0)
	case TypeSubagentStarted:
		set(&o.subagents, string(h.SubagentRunID), seq)
	case TypeSubagentFinished, TypeSubagentError:
		set(&o.subagents, string(h.SubagentRunID), 0)
	}
}

func (o *openIDs) owns(h *Header) bool {
	has := func(m map[string]uint64, id []byte) bool {
		if id == nil {
			return false
		}
		_, ok := m[string(id)]
		return ok
	}
	switch h.Type {
	case TypeStepStarted:
		return false // step names come again in every run
	case TypeTextMessageStart, TypeReasoningMessageStart:
		return false // see TypeToolCallStart
	case TypeToolCallStart:
		// What begins an id once more is rather a later run, which takes up what a
		// dead one has left or numbers its calls as that did, than the run that
		// has begun it already.
		return !has(o.calls, h.ToolCallID) && has(o.texts, h.ParentMessageID)
	case TypeStepFinished:
		return o.steps[stepOf(h)] != 0
	case TypeReasoningStart, TypeReasoningEnd:
		return has(o.spans, h.MessageID)
	case TypeReasoningMessageContent, TypeReasoningMessageEnd, TypeReasoningMessageChunk:
		return has(o.reasonings, h.MessageID)
	}
	return has(o.calls, h.ToolCallID) || has(o.texts, h.MessageID) || has(o.texts, h.ParentMessageID)
}

func (o *openIDs) closing(code, message string) [][]byte {
	var out [][]byte
	for _, id := range opened(o.texts) {
		out = append(out, event(TypeTextMessageEnd, "messageId", id))
	}
	for _, id := range opened(o.reasonings) {
		out = append(out, event(TypeReasoningMessageEnd, "messageId", id))
	}
	for _, id := range opened(o.spans) {
		out = append(out, event(TypeReasoningEnd, "messageId", id))
	}
	for _, id := range opened(o.calls) {
		out = append(out, event(TypeToolCallEnd, "toolCallId", id))
	}
	for _, s := range opened(o.steps) {
		if s.tagged {
			out = append(out, event(TypeStepFinished, "stepName", s.name, "subagentRunId", s.subagent))
		} else {
			out = append(out, event(TypeStepFinished, "stepName", s.name))
		}
	}
	for _, id := range opened(o.subagents) {
		out = append(out, event(TypeSubagentError, "subagentRunId", id, "message", message, "code", code))
	}
	return out
}

// opened lists the open ones of m in order of opening.
func opened[K comparable](m map[K]uint64) []K {
	var out []K
	for k, seq := range m {
		if seq != 0 {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b K) int { return cmp.Compare(m[a], m[b]) })
	return out
}

// event writes an event of string members: name, value, name, value …
func event(t Type, members ...string) []byte {
	out := append([]byte(`{"type":`), quote(string(t))...)
	for i := 0; i+1 < len(members); i += 2 {
		out = append(append(append(out, ','), quote(members[i])...), ':')
		out = append(out, quote(members[i+1])...)
	}
	return append(out, '}')
}
