package fold

import (
	"errors"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// setState makes v the state, unless it is too large (R25).
func (d *durable) setState(v agui.Value) {
	next := jsonvalue.NewDocument(v)
	if next.Size() > d.limits.StateBytes {
		d.diagnose("over_limit", "bytes", next.Size(), "limit", d.limits.StateBytes)
		return
	}
	d.state, d.stateJSON = next, nil
	d.saved.stateSet()
}

// patchState is a STATE_DELTA: all of it or nothing (R24). On a state never set
// it works on {}, and the state is set if it succeeds (R23).
func (d *durable) patchState(e *agui.Event) {
	state := d.state
	if !state.Present() {
		state = jsonvalue.NewDocument(jsonvalue.NewObject())
	}
	if err := state.Patch(e.Patch, d.limits.patch()); err != nil {
		d.failedPatch(e, err)
		return
	}
	d.state, d.stateJSON = state, nil
	d.saved.statePatched(e.Patch)
}

func (d *durable) failedPatch(e *agui.Event, err error) {
	index, op, reason := 0, "", err.Error()
	if failed, ok := errors.AsType[*jsonvalue.PatchError](err); ok {
		index, op, reason = e.OpIndex(failed.Index), string(failed.Op), failed.Err.Error()
	}
	d.diagnose("patch_failed", "operation", index, "op", op, "reason", reason, "messageId", e.MessageID)
}

// setActivity is an ACTIVITY_SNAPSHOT (SEMANTICS R-ACT-1, R-ACT-2).
func (d *durable) setActivity(e *agui.Event) {
	m := d.transcript.find(kindActivity, e.MessageID.V)
	next := jsonvalue.NewDocument(e.Content.Object)
	switch {
	case next.Size() > d.limits.StateBytes:
		d.diagnose("over_limit", "bytes", next.Size(), "limit", d.limits.StateBytes)
		return
	case m == nil:
		m = d.create(kindActivity, e.MessageID.V, agui.RoleActivity)
		d.transcript.append(m)
	case !e.Replace.Or(true):
		d.describe(m, e)
		return
	}
	m.content = content{kind: agui.ObjectContent, object: next}
	m.retype(kept(e.ActivityType))
	m.tag = kept(e.SubagentRunID)
	m.changed()
	d.describe(m, e)
}

// patchActivity is an ACTIVITY_DELTA. Its metadata count even if the patch
// fails (SEMANTICS R-ACT-4 to R-ACT-6).
func (d *durable) patchActivity(e *agui.Event) {
	m := d.transcript.find(kindActivity, e.MessageID.V)
	if m == nil {
		d.diagnose("unknown_message", "type", string(e.Type), "messageId", e.MessageID)
		return
	}
	d.describe(m, e)
	limits := d.limits.patch()
	limits.ObjectOnly = true
	if err := m.content.object.Patch(e.Patch, limits); err != nil {
		d.failedPatch(e, err)
		return
	}
	m.retype(kept(e.ActivityType))
	m.changed()
}
