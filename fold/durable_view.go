package fold

import (
	"slices"

	"github.com/agstore/agstore/agui"
)

// view makes a view of what there is. Messages that have not changed since the
// last one are shown as they were.
func (d *durable) view() *View {
	d.settle()
	v := &View{
		Seq:  d.seq,
		Runs: make([]Run, len(d.runs)),

		LegacyInterrupts: slices.Clip(d.legacy),
		Usage:            slices.Clone(d.usage),
		Custom:           slices.Clip(d.custom),
		OpaqueReasoning:  slices.Clip(d.opaque),
		Diagnostics:      slices.Clip(d.diagnostics),
		PendingToolCalls: d.pendingCalls(),
	}
	for i, r := range d.runs {
		v.Runs[i] = r.Run
	}
	if n := len(d.runs); n > 0 {
		v.Run, v.Status = d.runs[n-1].Key, d.runs[n-1].Status
	}
	v.Messages = make([]agui.Message, 0, d.transcript.count)
	for m := d.transcript.first; m != nil; m = m.next {
		v.Messages = append(v.Messages, *m.show())
	}
	if d.state.Present() {
		if d.stateJSON == nil {
			d.stateJSON = d.state.AppendJSON(nil)
		}
		v.State = slices.Clip(d.stateJSON)
	}
	for _, in := range d.pending {
		if in.Answered {
			continue
		}
		v.PendingInterrupts = append(v.PendingInterrupts, in.show())
	}
	for _, in := range d.interrupts {
		v.InterruptHistory = append(v.InterruptHistory, in.show())
	}
	for _, s := range d.steps {
		v.Steps = append(v.Steps, *s)
	}
	for _, s := range d.subagents {
		v.Subagents = append(v.Subagents, *s)
	}
	return v
}

// pendingCalls is what the last run has left to the front end (R17).
func (d *durable) pendingCalls() []string {
	if len(d.runs) == 0 {
		return nil
	}
	r := d.runs[len(d.runs)-1]
	if r.EndSeq == 0 || r.Status != agui.RunSuccess {
		return nil
	}
	if len(r.pendingCalls) > 0 {
		return slices.Clip(r.pendingCalls)
	}
	var out []string
	listed := make(map[string]bool)
	for _, c := range r.started {
		if !c.resulted && !r.orphanResults[c.id] && !listed[c.id] {
			listed[c.id] = true
			out = append(out, c.id)
		}
	}
	return out
}
