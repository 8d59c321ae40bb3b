package agui

import (
	"errors"
	"math"
	"strings"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// compactState is how large, in bytes, a state is at most that a snapshot is
// made of. As JSON text it may be six times as long.
const compactState = 4 << 20

// stateGroup is a STATE_SNAPSHOT with the deltas that came behind it.
type stateGroup struct {
	event    []byte // the snapshot; nil: there is none
	from, to int    // where its value stands
	doc      *jsonvalue.Document
	patched  bool
}

// take returns the snapshot that the group has become, nil if there is none, and
// forgets it.
func (g *stateGroup) take() []byte {
	event := g.event
	if g.patched {
		event = append([]byte(nil), g.event[:g.from]...)
		event = g.doc.Snapshot().AppendJSON(event)
		event = append(event, g.event[g.to:]...)
	}
	*g = stateGroup{}
	return event
}

// addState takes a state event that stands in no stream of chunks.
func (c *Compactor) addState(line []byte, e *Event, h *Header) {
	if e.Type == TypeStateDelta && c.state.event == nil {
		c.pass(line)
		return
	}
	ok := namesNothingElse(e, h) && len(line) <= c.limits.EventBytes
	if ok && e.Type == TypeStateSnapshot {
		ok = c.state.set(line, e, c.stateBytes())
	} else if ok {
		ok = c.state.patch(e, c.limits, c.stateBytes())
	}
	if !ok {
		c.flushState()
		c.pass(line)
	}
}

// stateBytes is how large a state is at most that is held: no fold refuses it,
// and it fits into an event.
func (c *Compactor) stateBytes() int {
	return min(compactState, c.limits.StateBytes, c.limits.EventBytes/8)
}

// set makes a snapshot the base. What was said of the state before does not
// matter any more. It returns false, and nothing has changed, if it is too large.
func (g *stateGroup) set(line []byte, e *Event, most int) bool {
	doc := jsonvalue.NewDocument(e.Snapshot)
	from, to := memberSpan(line, "snapshot")
	if doc.Size() > most || len(line)-(to-from) > groupEnvelope {
		return false
	}
	*g = stateGroup{event: append([]byte(nil), line...), from: from, to: to, doc: doc}
	return true
}

// patch applies a delta. A patch that fails changes nothing, here as in any fold.
// It returns false, and nothing has changed, if folds may differ about it.
func (g *stateGroup) patch(e *Event, limits CompactLimits, most int) bool {
	if len(e.left) > 0 || !plainPatch(e.Patch) {
		return false
	}
	err := g.doc.Patch(e.Patch, jsonvalue.PatchLimits{
		Ops: limits.PatchOps, Copied: limits.PatchCopied, Size: most, Nesting: limits.Nesting - 1,
	})
	if err == nil {
		g.patched = true
		return true
	}
	return !errors.Is(err, jsonvalue.ErrPatchLimit)
}

// plainPatch reports whether a patch is one that every profile applies in the
// same way: it moves nothing into itself, has no name that the official client
// refuses, and tests for nothing that the client finds nothing equal to, a number
// beyond doubles or an object of odd members (SEMANTICS J-7, J-10, B-7, B-9).
func plainPatch(ops []Op) bool {
	for i := range ops {
		op := &ops[i]
		if op.Kind == jsonvalue.Move && strings.HasPrefix(op.Path, op.From) ||
			op.Kind == jsonvalue.Test && !isPlain(op.Value) ||
			strings.Contains(op.Path, "proto") || strings.Contains(op.From, "proto") {
			return false
		}
	}
	return true
}

// isPlain reports whether a value is a text, a literal or an ordinary number.
func isPlain(v Value) bool {
	switch v.Kind() {
	case jsonvalue.List, jsonvalue.Object:
		return false
	case jsonvalue.Number:
		f, _ := v.Float()
		return !math.IsInf(f, 0)
	}
	return true
}

// memberSpan is where the value of a member stands in an event that has one.
func memberSpan(line []byte, name string) (from, to int) {
	s := scanner{raw: line}
	s.space()
	_ = s.object(1, func(key, value []byte) error { // it has been decoded
		if string(key) == name {
			from, to = s.at-len(value), s.at
		}
		return nil
	})
	return from, to
}
