package fold

import (
	"slices"

	"github.com/agstore/agstore/agui"
)

// lists writes what a view shows as lists, beside messages, runs and
// interrupts.
func (w *durableWriter) lists() {
	d := w.d
	writeList(w.snapshotWriter, d.legacy, w.legacy)
	w.list(len(d.subagents))
	for _, s := range d.subagents {
		w.subagent(s)
	}
	w.list(len(d.steps))
	for _, s := range d.steps {
		w.step(s)
	}
	writeList(w.snapshotWriter, d.usage, w.usage)
	writeList(w.snapshotWriter, d.custom, w.custom)
	writeList(w.snapshotWriter, d.opaque, w.opaque)
	writeList(w.snapshotWriter, d.diagnostics, w.diagnostic)
}

func (r *durableReader) lists() {
	d := r.d
	d.legacy = readList(r.snapshotReader, legacyFields, r.legacy)
	for range r.list(subagentFields + 1) {
		r.subagent()
	}
	for range r.list(stepFields + 1) {
		r.step()
	}
	for _, total := range readList(r.snapshotReader, usageFields, r.usage) {
		d.startUsage(total)
	}
	d.custom = readList(r.snapshotReader, customFields, r.custom)
	d.opaque = readList(r.snapshotReader, opaqueFields, r.opaque)
	d.diagnostics = readList(r.snapshotReader, diagnosticFields, r.diagnostic)
}

const legacyFields = 3

func (w *durableWriter) legacy(_ *snapshotWriter, l *LegacyInterrupt) {
	w.list(legacyFields)
	w.runKey(l.Run)
	w.uint(l.Seq)
	w.value(l.Value)
}

func (r *durableReader) legacy(_ *snapshotReader, l *LegacyInterrupt) {
	*l = LegacyInterrupt{Run: r.runKey(r.d.runs), Seq: r.uint(), Value: r.value()}
}

// activities are the statuses of steps and subagents by their numbers.
var activities = [...]Activity{ActivityRunning, ActivityFinished, ActivitySuccess, ActivitySuspended, ActivityFailed, ActivityCut}

func (w *durableWriter) activity(a Activity) { w.number(slices.Index(activities[:], a)) }

func (r *durableReader) activity() Activity { return activities[r.number(len(activities)-1)] }

const subagentFields = 14

func (w *durableWriter) subagent(s *Subagent) {
	w.list(subagentFields)
	w.runKey(s.Run)
	w.text(s.SubagentRunID)
	w.text(s.Name)
	w.opt(s.Description)
	w.opt(s.ParentSubagentRunID)
	w.opt(s.ParentToolCallID)
	w.opt(s.ParentMessageID)
	w.activity(s.Status)
	if s.InterruptIDs != nil {
		w.texts(s.InterruptIDs)
	} else {
		w.null()
	}
	w.value(s.Result)
	w.opt(s.Error)
	w.opt(s.Code)
	w.uint(s.Seq)
	w.uint(s.EndSeq)
}

// subagent reads a subagent. A running run knows its own by their ids.
func (r *durableReader) subagent() {
	r.fields(subagentFields)
	s := &Subagent{
		Run: r.runKey(r.d.runs), SubagentRunID: r.text(), Name: r.text(), Description: r.opt(),
		ParentSubagentRunID: r.opt(), ParentToolCallID: r.opt(), ParentMessageID: r.opt(), Status: r.activity(),
	}
	if !r.isNull() {
		s.InterruptIDs = append([]string{}, r.texts()...)
	}
	s.Result, s.Error, s.Code, s.Seq, s.EndSeq = r.value(), r.opt(), r.opt(), r.uint(), r.uint()
	r.d.subagents = append(r.d.subagents, s)
	if of := r.d.byKey[s.Run]; of != nil && of.EndSeq == 0 {
		if of.subagents == nil {
			of.subagents = make(map[string]*Subagent)
		}
		of.subagents[s.SubagentRunID] = s
	}
}

const stepFields = 6

func (w *durableWriter) step(s *Step) {
	w.list(stepFields)
	w.runKey(s.Run)
	w.text(s.StepName)
	w.opt(s.SubagentRunID)
	w.activity(s.Status)
	w.uint(s.Seq)
	w.uint(s.EndSeq)
}

// step reads a step. A running run knows its own open ones.
func (r *durableReader) step() {
	r.fields(stepFields)
	s := &Step{Run: r.runKey(r.d.runs), StepName: r.text(), SubagentRunID: r.opt(), Status: r.activity(), Seq: r.uint(), EndSeq: r.uint()}
	r.d.steps = append(r.d.steps, s)
	if of := r.d.byKey[s.Run]; of != nil && of.EndSeq == 0 && s.Status == ActivityRunning {
		if of.steps == nil {
			of.steps = make(map[stepKey]*Step)
		}
		of.steps[stepKey{s.SubagentRunID, s.StepName}] = s
	}
}

const usageFields = 8

func (w *durableWriter) usage(_ *snapshotWriter, u *agui.Usage) {
	w.list(usageFields)
	w.opt(u.Provider)
	w.opt(u.Model)
	w.optInt(u.InputTokens)
	w.optInt(u.OutputTokens)
	w.optInt(u.TotalTokens)
	w.optInt(u.ReasoningTokens)
	w.optInt(u.CachedInputTokens)
	w.optInt(u.CacheWriteInputTokens)
}

func (r *durableReader) usage(_ *snapshotReader, u *agui.Usage) {
	*u = agui.Usage{
		Provider: r.opt(), Model: r.opt(), InputTokens: r.optInt(), OutputTokens: r.optInt(), TotalTokens: r.optInt(),
		ReasoningTokens: r.optInt(), CachedInputTokens: r.optInt(), CacheWriteInputTokens: r.optInt(),
	}
}

const customFields = 8

// custom writes a CUSTOM or RAW event, whose type is true for CUSTOM.
func (w *durableWriter) custom(_ *snapshotWriter, c *Custom) {
	w.list(customFields)
	w.bool(c.Type == agui.TypeCustom)
	w.text(c.Name)
	w.value(c.Value)
	w.value(c.Event)
	w.opt(c.Source)
	w.runKey(c.Run)
	w.uint(c.Seq)
	w.opt(c.OpenMessage)
}

func (r *durableReader) custom(_ *snapshotReader, c *Custom) {
	*c = Custom{Type: agui.TypeRaw}
	if r.bool() {
		c.Type = agui.TypeCustom
	}
	c.Name, c.Value, c.Event, c.Source = r.text(), r.value(), r.value(), r.opt()
	c.Run, c.Seq, c.OpenMessage = r.runKey(r.d.runs), r.uint(), r.opt()
}

const opaqueFields = 6

func (w *durableWriter) opaque(_ *snapshotWriter, o *OpaqueReasoning) {
	w.list(opaqueFields)
	w.text(o.ID)
	w.text(o.Subtype)
	w.text(o.Value)
	w.runKey(o.Run)
	w.uint(o.Seq)
	w.opt(o.After)
}

func (r *durableReader) opaque(_ *snapshotReader, o *OpaqueReasoning) {
	*o = OpaqueReasoning{ID: r.text(), Subtype: r.text(), Value: r.text(), Run: r.runKey(r.d.runs), Seq: r.uint(), After: r.opt()}
}

const diagnosticFields = 3

func (w *durableWriter) diagnostic(_ *snapshotWriter, d *Diagnostic) {
	w.list(diagnosticFields)
	w.uint(d.Seq)
	w.text(d.Rule)
	w.value(d.Detail)
}

func (r *durableReader) diagnostic(_ *snapshotReader, d *Diagnostic) {
	*d = Diagnostic{Seq: r.uint(), Rule: r.text(), Detail: r.value()}
}
