package fold

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// run is a run of the lineage and what it has open.
type run struct {
	Run
	number  int                          // among the fold's runs, from 0
	thread  agui.Opt[string]             // the threadId of its start
	opened  []opening                    // what it opened, in order; what has been closed may still be there
	paused  []*call                      // calls that chunks may take up again; some may have been
	streams map[agui.Opt[string]]*stream // of chunks, by their owners
	named   map[streamKey]*stream        // the same
	lanes   map[agui.Type]*lanes         // the same

	steps     map[stepKey]*Step // the open ones
	subagents map[string]*Subagent

	started       []*call         // the calls it started, each once
	orphanResults map[string]bool // ids of calls it had results for, but no call
	pendingCalls  []string        // what its outcome says is pending

	answers    []*interrupt     // that its input.resume names
	thinking   int              // messages made from THINKING_* events
	thinkingID agui.Opt[string] // the open one of them

	overtaken uint64 // the first seq at which another run started while it ran; 0: never, or reported
}

// opening is a text or a call that was opened.
type opening struct {
	message *message // nil: a call
	call    *call
	seq     uint64
}

func (o opening) isOpen(r *run) bool {
	if o.message != nil {
		return o.message.open == r && o.message.opening == o.seq
	}
	return o.call.open == r && o.call.opening == o.seq && !o.call.paused
}

// isOver reports whether it has been closed for good; a paused call may go on.
func (o opening) isOver(r *run) bool {
	if o.message != nil {
		return !o.isOpen(r)
	}
	return o.call.open != r || o.call.opening != o.seq
}

// forgetClosed drops what has been closed from the whole of opened.
func (r *run) forgetClosed() {
	r.opened = slices.DeleteFunc(r.opened, func(o opening) bool { return o.isOver(r) })
}

// openMessage is the message that was opened last of those that are open: by
// its text, or by one of its calls.
func (r *run) openMessage() agui.Opt[string] {
	r.trim()
	if len(r.opened) == 0 {
		return agui.Opt[string]{}
	}
	o := r.opened[len(r.opened)-1]
	if o.message == nil {
		return agui.Some(o.call.owner.id)
	}
	return agui.Some(o.message.id)
}

// open takes note of what has been opened.
func (r *run) open(o opening) {
	r.trim()
	r.opened = append(r.opened, o)
}

// trim drops what has been closed from the end of opened.
func (r *run) trim() {
	for len(r.opened) > 0 && !r.opened[len(r.opened)-1].isOpen(r) {
		r.opened = r.opened[:len(r.opened)-1]
	}
}

// stepKey is the identity of a step (R6).
type stepKey struct {
	tag  agui.Opt[string]
	name string
}

func (d *durable) startRun(rec Record, e *agui.Event) {
	for _, other := range d.calm {
		other.overtaken = d.seq
	}
	r := &run{Run: Run{Key: rec.Run, FirstSeq: d.seq}, number: len(d.runs), thread: kept(e.ThreadID)}
	if n := len(d.runs); n > 0 {
		// Nobody will ask what that one has left to the front end (R17).
		last := d.runs[n-1]
		last.started, last.orphanResults, last.pendingCalls = nil, nil, nil
	}
	clear(d.calm)
	d.runs, d.calm = append(d.runs, r), append(d.calm[:0], r)
	d.byKey[r.Key] = r
	d.legacy = nil
	if rec.UnknownParent {
		d.diagnose("unknown_parent", "parentRunId", e.ParentRunID)
	}
	if e.Input == nil {
		return
	}
	// An input is often the whole conversation once more. What is kept of it
	// must not keep the rest in memory.
	d.inputState(e.Input.State.Detach())
	for i := range e.Input.Messages {
		d.inputMessage(&e.Input.Messages[i])
	}
	d.resume(r, e.Input.Resume)
}

// inputState makes the state a run's input brings the state (R26).
func (d *durable) inputState(state agui.Value) {
	if !state.Present() || state.IsNull() {
		return
	}
	if state.Kind() == jsonvalue.Object && state.Len() == 0 && d.state.Present() {
		return // empty as it is, or not to be emptied by this
	}
	d.setState(state)
}

// inputMessage adds a message of a run's input that is not known (R11).
func (d *durable) inputMessage(from *agui.Message) {
	t := &d.transcript
	k := kindOf(from.Role)
	if t.find(k, from.ID) != nil {
		return
	}
	from = detached(from)
	m := d.create(k, from.ID, from.Role)
	m.fill(from)
	if k == kindTool {
		d.placeResult(m)
		return
	}
	t.append(m)
	for i := range from.ToolCalls {
		d.addCall(m, &from.ToolCalls[i])
	}
}

// echo is for a RUN_STARTED of a run that is there: it changes nothing, but what
// it says that nobody knows is worth a diagnostic (DESIGN decision 1).
func (d *durable) echo(r *run, e *agui.Event) {
	d.sameIDs(r, e)
	if e.Input == nil {
		return
	}
	for i := range e.Input.Messages {
		m := &e.Input.Messages[i]
		if d.transcript.find(kindOf(m.Role), m.ID) == nil {
			d.diagnose("echo_input", "messageId", m.ID)
		}
	}
}

// sameIDs reports an agent that answers under another name (DESIGN decision 1).
func (d *durable) sameIDs(r *run, e *agui.Event) {
	if r == nil {
		return
	}
	if e.RunID.Set && e.RunID.V != r.Key.ID {
		d.diagnose("other_run_id", "runId", e.RunID, "run", r.Key.String())
	}
	if e.ThreadID.Set && r.thread.Set && e.ThreadID != r.thread {
		d.diagnose("other_thread_id", "threadId", e.ThreadID)
	}
}

// overlapping reports that a run goes on which another one has overtaken (R5).
func (d *durable) overlapping(r *run) {
	if r.overtaken != 0 {
		d.diagnoseAt(r.overtaken, "overlapping_runs", "run", r.Key.String())
		r.overtaken = 0
		d.calm = append(d.calm, r)
	}
}

// endRun is the first terminal event of a run (R1, R2).
func (d *durable) endRun(r *run, rec Record, e *agui.Event) {
	cut := e.Type == agui.TypeRunError
	d.closeStreams(r, cut)
	d.closeAll(r)
	r.EndSeq = d.seq
	var known bool
	r.Status, known = ending(rec.Raw, e)
	for _, n := range e.Notes {
		known = known && n.Path != "/outcome"
	}
	if cut {
		r.Error, r.Code = kept(e.Message), kept(e.Code)
	} else {
		r.Result = e.Result
		if e.Outcome != nil {
			r.pendingCalls = e.Outcome.PendingToolCallIDs
		}
	}
	d.addUsage(e.Usage)
	d.retire(r, known)
	if e.Outcome != nil && r.Status == agui.RunInterrupted {
		for i := range e.Outcome.Interrupts {
			d.raise(r, &e.Outcome.Interrupts[i])
		}
	}
}

// ending is the status a terminal event gives a run, as agui.Tracker sees it,
// and whether it is one that answers questions: a failure does not, nor does an
// outcome nobody knows (R18).
func ending(raw []byte, e *agui.Event) (status agui.RunStatus, known bool) {
	if e.Type == agui.TypeRunError {
		if e.Code.V == agui.CodeAbandoned {
			return agui.RunAbandoned, false
		}
		return agui.RunFailed, false
	}
	outcome := agui.OutcomeSuccess
	var h agui.Header
	if agui.ReadHeader(raw, &h) == nil && h.Outcome != nil {
		outcome = agui.OutcomeType(h.Outcome)
	}
	switch outcome {
	case agui.OutcomeInterrupt:
		return agui.RunInterrupted, true
	case agui.OutcomeCancelled:
		return agui.RunCancelled, true
	}
	return agui.RunSuccess, outcome == agui.OutcomeSuccess && !e.UnknownOutcome.Set
}

// closeAll closes what a run has open (R1).
func (d *durable) closeAll(r *run) {
	for _, o := range r.opened {
		if !o.isOpen(r) {
			continue
		}
		if o.message != nil {
			o.message.close()
			continue
		}
		d.diagnose("incomplete_call", "toolCallId", o.call.id)
		o.call.cut()
	}
	for _, c := range r.paused {
		if c.open == r {
			c.cut()
		}
	}
	r.paused, r.opened, r.thinkingID = nil, nil, agui.Opt[string]{}
	r.streams, r.named, r.lanes = nil, nil, nil
	for _, s := range r.steps {
		s.Status, s.EndSeq = ActivityCut, d.seq
	}
	for _, s := range r.subagents {
		if s.EndSeq == 0 {
			s.Status, s.EndSeq = ActivityCut, d.seq
		}
	}
	r.steps, r.subagents = nil, nil
}

func (d *durable) startStep(r *run, e *agui.Event) {
	key := stepKey{kept(e.SubagentRunID), strings.Clone(e.StepName.V)}
	if r.steps[key] != nil {
		d.diagnose("duplicate_start", "stepName", e.StepName, "subagentRunId", e.SubagentRunID)
		return
	}
	s := &Step{Run: r.Key, StepName: key.name, SubagentRunID: key.tag, Status: ActivityRunning, Seq: d.seq}
	if r.steps == nil {
		r.steps = make(map[stepKey]*Step)
	}
	r.steps[key] = s
	d.steps = append(d.steps, s)
}

func (d *durable) finishStep(r *run, e *agui.Event) {
	key := stepKey{e.SubagentRunID, e.StepName.V}
	s := r.steps[key]
	if s == nil {
		d.diagnose("unknown_step", "stepName", e.StepName, "subagentRunId", e.SubagentRunID)
		return
	}
	s.Status, s.EndSeq = ActivityFinished, d.seq
	delete(r.steps, key)
}

func (d *durable) startSubagent(r *run, e *agui.Event) {
	id := strings.Clone(e.SubagentRunID.V)
	if old := r.subagents[id]; old != nil {
		d.diagnose("duplicate_start", "subagentRunId", id)
		if old.EndSeq == 0 {
			return
		}
	}
	s := &Subagent{
		Run: r.Key, SubagentRunID: id, Name: strings.Clone(e.Name.V), Description: kept(e.Description),
		ParentSubagentRunID: kept(e.ParentSubagentRunID), ParentToolCallID: kept(e.ParentToolCallID),
		ParentMessageID: kept(e.ParentMessageID), Status: ActivityRunning, Seq: d.seq,
	}
	if r.subagents == nil {
		r.subagents = make(map[string]*Subagent)
	}
	r.subagents[id] = s
	d.subagents = append(d.subagents, s)
}

func (d *durable) finishSubagent(r *run, e *agui.Event) {
	s := r.subagents[e.SubagentRunID.V]
	if s == nil || s.EndSeq != 0 {
		d.diagnose("unknown_subagent", "subagentRunId", e.SubagentRunID)
		return
	}
	s.EndSeq, s.Status = d.seq, ActivitySuccess
	switch {
	case e.Type == agui.TypeSubagentError:
		s.Status, s.Error, s.Code = ActivityFailed, kept(e.Message), kept(e.Code)
	case e.Outcome != nil && e.Outcome.Type == agui.OutcomeSuspended:
		s.Status, s.InterruptIDs = ActivitySuspended, e.Outcome.InterruptIDs
	}
	s.Result = e.Result
}

// usageKey is what totals are kept of.
type usageKey struct{ provider, model agui.Opt[string] }

// addUsage adds what a run spent to the totals of its models.
func (d *durable) addUsage(entries []agui.Usage) {
	for _, e := range entries {
		at, known := d.usageAt[usageKey{e.Provider, e.Model}]
		if !known {
			d.startUsage(e)
			continue
		}
		total := &d.usage[at]
		add(&total.InputTokens, e.InputTokens)
		add(&total.OutputTokens, e.OutputTokens)
		add(&total.TotalTokens, e.TotalTokens)
		add(&total.ReasoningTokens, e.ReasoningTokens)
		add(&total.CachedInputTokens, e.CachedInputTokens)
		add(&total.CacheWriteInputTokens, e.CacheWriteInputTokens)
	}
}

func (d *durable) startUsage(e agui.Usage) {
	e.Provider, e.Model = kept(e.Provider), kept(e.Model)
	if d.usageAt == nil {
		d.usageAt = make(map[usageKey]int)
	}
	d.usageAt[usageKey{e.Provider, e.Model}] = len(d.usage)
	d.usage = append(d.usage, e)
}

func add(total *agui.Opt[int64], n agui.Opt[int64]) {
	if n.Set {
		*total = agui.Some(total.V + n.V)
	}
}

// nameThinking gives a THINKING_* event of 0.x the id of what it belongs to
// (R27). It reports false if the event has nothing to say.
func (d *durable) nameThinking(r *run, e *agui.Event) bool {
	switch e.Legacy {
	case agui.TypeThinkingTextMessageStart:
		r.thinkingID = agui.Some(d.newThinking(r))
	case agui.TypeThinkingTextMessageContent:
		if !r.thinkingID.Set {
			// Its words must go somewhere: the producer left out a START.
			r.thinkingID = agui.Some(d.newThinking(r))
			d.diagnose("thinking_without_start", "messageId", r.thinkingID)
			d.startText(r, kindReasoning, &agui.Event{MessageID: r.thinkingID})
		}
	case agui.TypeThinkingTextMessageEnd:
		if !r.thinkingID.Set {
			d.diagnose("second_end", "type", string(e.Legacy))
			return false
		}
		e.MessageID, r.thinkingID = r.thinkingID, agui.Opt[string]{}
		return true
	default:
		return true // spans leave nothing
	}
	e.MessageID = r.thinkingID
	return true
}

func (d *durable) newThinking(r *run) string {
	r.thinking++
	id := r.Key.ID
	if r.Key.Attempt > 1 {
		id += "." + strconv.Itoa(r.Key.Attempt)
	}
	id += "-thinking-" + strconv.Itoa(r.thinking)
	return d.transcript.free(kindReasoning, id)
}
