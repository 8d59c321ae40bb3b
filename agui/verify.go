package agui

import (
	"errors"
	"fmt"
	"strings"
)

// ErrViolation says that an event may not stand where it does. What it wraps is
// always a [*Violation].
var ErrViolation = errors.New("protocol violation")

// Violation says which rule of SEMANTICS section 7 an event breaks.
type Violation struct {
	Type   Type
	Rule   string // V-1 to V-12
	ID     string // of the entity it is about, if it is about one
	Reason string
}

func (v *Violation) Error() string {
	if v.ID != "" {
		return fmt.Sprintf("%v: %s (%s): %s: %q", ErrViolation, v.Type, v.Rule, v.Reason, v.ID)
	}
	return fmt.Sprintf("%v: %s (%s): %s", ErrViolation, v.Type, v.Rule, v.Reason)
}

// Is reports that every Violation is an [ErrViolation].
func (v *Violation) Is(target error) bool { return target == ErrViolation }

// Verifier checks the order of events as the official client does. It is given
// decoded, expanded events, those of one stream one after the other. The zero
// Verifier has seen nothing.
type Verifier struct {
	phase   phase
	text    idSet
	calls   idSet
	reasons idSet // reasoning messages
	spans   idSet // reasoning spans
	steps   map[stepKey]bool
	active  idSet // subagents
	closed  idSet
	owners  [ownedKinds]map[string]Opt[string]
}

type phase uint8

const (
	beforeRuns phase = iota
	running
	finished
	errored
)

type idSet map[string]bool

func (s *idSet) add(id string) {
	if *s == nil {
		*s = idSet{}
	}
	// Not to hold on to the event that the id is a piece of.
	(*s)[strings.Clone(id)] = true
}

type stepKey struct {
	owner Opt[string]
	name  string
}

// ownedKind is what an id that has an owner is the id of (V-10).
type ownedKind uint8

const (
	ownedMessage ownedKind = iota
	ownedCall
	ownedActivity
	ownedReasoning
	ownedKinds
)

// Verify takes note of the next event. The error is a [*Violation]; the event
// that is refused changes nothing.
func (v *Verifier) Verify(e *Event) error {
	if err := v.order(e); err != nil {
		return err
	}
	switch e.Type {
	case TypeTextMessageStart:
		return v.start(e, "V-5", &v.text, ownedMessage)
	case TypeTextMessageContent:
		return v.goOn(e, "V-5", v.text, ownedMessage)
	case TypeTextMessageEnd:
		return v.end(e, "V-5", v.text, ownedMessage)
	case TypeReasoningMessageStart:
		return v.start(e, "V-7", &v.reasons, ownedReasoning)
	case TypeReasoningMessageContent:
		return v.goOn(e, "V-7", v.reasons, ownedReasoning)
	case TypeReasoningMessageEnd:
		return v.end(e, "V-7", v.reasons, ownedReasoning)
	case TypeReasoningStart:
		return v.start(e, "V-7", &v.spans, ownedReasoning)
	case TypeReasoningEnd:
		return v.end(e, "V-7", v.spans, ownedReasoning)
	case TypeToolCallStart:
		return v.startCall(e)
	case TypeToolCallArgs:
		return v.goOn(e, "V-6", v.calls, ownedCall)
	case TypeToolCallEnd:
		return v.end(e, "V-6", v.calls, ownedCall)
	case TypeToolCallResult:
		v.own(ownedMessage, e.MessageID.V, e.SubagentRunID)
	case TypeStepStarted, TypeStepFinished:
		return v.step(e)
	case TypeSubagentStarted, TypeSubagentFinished, TypeSubagentError:
		return v.subagent(e)
	case TypeActivitySnapshot:
		if _, known := v.owners[ownedActivity][e.MessageID.V]; !known || e.Replace.Or(true) {
			v.own(ownedActivity, e.MessageID.V, e.SubagentRunID)
		}
	case TypeActivityDelta:
		return v.attributed(e, ownedActivity, e.MessageID.V)
	case TypeReasoningEncryptedValue:
		return v.encrypted(e)
	case TypeMessagesSnapshot:
		v.seed(e.Messages, true)
	case TypeRunStarted:
		if e.Input != nil {
			v.seed(e.Input.Messages, false)
		}
	}
	return nil
}

func (e *Event) violation(rule, reason, id string) error {
	return &Violation{Type: e.Type, Rule: rule, Reason: reason, ID: id}
}

// order checks where in the course of runs an event stands (V-1 to V-4, V-12).
func (v *Verifier) order(e *Event) error {
	switch {
	case e.Type == TypeRunStarted:
		if v.phase == running {
			return e.violation("V-4", "a run is still going on", "")
		}
		*v = Verifier{phase: running}
		return nil
	case v.phase == errored:
		return e.violation("V-1", "after RUN_ERROR", "")
	case e.Type == TypeRunError:
		v.phase = errored
		return nil
	case v.phase == finished:
		return e.violation("V-2", "after RUN_FINISHED", "")
	case v.phase == beforeRuns:
		return e.violation("V-3", "before the first RUN_STARTED", "")
	case e.Type == TypeRunFinished:
		if err := v.allClosed(e); err != nil {
			return err
		}
		v.phase = finished
	}
	return nil
}

func (v *Verifier) allClosed(e *Event) error {
	for _, open := range []struct {
		what string
		ids  idSet
	}{
		{"text messages", v.text}, {"tool calls", v.calls}, {"reasoning messages", v.reasons},
		{"reasoning spans", v.spans}, {"subagents", v.active},
	} {
		if len(open.ids) > 0 {
			return e.violation("V-12", open.what+" are still open", "")
		}
	}
	if len(v.steps) > 0 {
		return e.violation("V-12", "steps are still open", "")
	}
	return nil
}

// entity is the id of what an event of text, reasoning or a call is about.
func (e *Event) entity() string {
	if e.ToolCallID.Set {
		return e.ToolCallID.V
	}
	return e.MessageID.V
}

func (v *Verifier) start(e *Event, rule string, open *idSet, kind ownedKind) error {
	id := e.entity()
	if (*open)[id] {
		return e.violation(rule, "it is open already", id)
	}
	if err := v.attributed(e, kind, id); err != nil {
		return err
	}
	if _, known := v.owners[kind][id]; !known {
		v.own(kind, id, e.SubagentRunID)
	}
	open.add(id)
	return nil
}

func (v *Verifier) goOn(e *Event, rule string, open idSet, kind ownedKind) error {
	id := e.entity()
	if !open[id] {
		return e.violation(rule, "it is not open", id)
	}
	return v.attributed(e, kind, id)
}

func (v *Verifier) end(e *Event, rule string, open idSet, kind ownedKind) error {
	if err := v.goOn(e, rule, open, kind); err != nil {
		return err
	}
	delete(open, e.entity())
	return nil
}

func (v *Verifier) startCall(e *Event) error {
	id := e.ToolCallID.V
	if v.calls[id] {
		return e.violation("V-6", "it is open already", id)
	}
	parent, hasParent := Opt[string]{}, false
	if e.ParentMessageID.Set {
		parent, hasParent = v.owners[ownedMessage][e.ParentMessageID.V]
		if err := v.attributed(e, ownedMessage, e.ParentMessageID.V); err != nil {
			return err
		}
	}
	owner, known := v.owners[ownedCall][id]
	switch {
	case !known:
		if !e.SubagentRunID.Set && hasParent {
			v.own(ownedCall, id, parent)
		} else {
			v.own(ownedCall, id, e.SubagentRunID)
		}
	case e.SubagentRunID.Set && e.SubagentRunID != owner, !e.SubagentRunID.Set && hasParent && parent != owner:
		return e.violation("V-10", "the call belongs to another agent", id)
	}
	v.calls.add(id)
	return nil
}

func (v *Verifier) step(e *Event) error {
	key := stepKey{e.SubagentRunID, e.StepName.V}
	if e.Type == TypeStepFinished {
		if !v.steps[key] {
			return e.violation("V-8", "the step is not open", key.name)
		}
		delete(v.steps, key)
		return nil
	}
	if v.steps[key] {
		return e.violation("V-8", "the step is open already", key.name)
	}
	if v.steps == nil {
		v.steps = map[stepKey]bool{}
	}
	v.steps[key] = true
	return nil
}

func (v *Verifier) subagent(e *Event) error {
	id := e.SubagentRunID.V
	if e.Type != TypeSubagentStarted {
		if !v.active[id] {
			return e.violation("V-9", "the subagent is not active", id)
		}
		delete(v.active, id)
		v.closed.add(id)
		return nil
	}
	if v.active[id] || v.closed[id] {
		return e.violation("V-9", "the subagent has been started already", id)
	}
	if parent := e.ParentSubagentRunID; parent.Set && !v.active[parent.V] && !v.closed[parent.V] {
		return e.violation("V-9", "its parent is no subagent of this run", id)
	}
	v.active.add(id)
	return nil
}

func (v *Verifier) encrypted(e *Event) error {
	id := e.EntityID.V
	if e.Subtype.V == "tool-call" {
		return v.attributed(e, ownedCall, id)
	}
	if _, known := v.owners[ownedMessage][id]; known {
		return v.attributed(e, ownedMessage, id)
	}
	return v.attributed(e, ownedReasoning, id)
}

// attributed checks that an event's tag is the owner of what it names (V-10).
func (v *Verifier) attributed(e *Event, kind ownedKind, id string) error {
	owner, known := v.owners[kind][id]
	if known && e.SubagentRunID.Set && e.SubagentRunID != owner {
		return e.violation("V-10", "it belongs to another agent", id)
	}
	return nil
}

func (v *Verifier) own(kind ownedKind, id string, owner Opt[string]) {
	if v.owners[kind] == nil {
		v.owners[kind] = map[string]Opt[string]{}
	}
	if _, known := v.owners[kind][id]; !known {
		id = strings.Clone(id)
	}
	owner.V = strings.Clone(owner.V)
	v.owners[kind][id] = owner
}

// seed records the owners of messages that came from elsewhere (V-11).
func (v *Verifier) seed(messages []Message, overwrite bool) {
	record := func(kind ownedKind, id string, owner Opt[string]) {
		if _, known := v.owners[kind][id]; !known || overwrite {
			v.own(kind, id, owner)
		}
	}
	for i := range messages {
		m := &messages[i]
		kind := ownedMessage
		switch m.Role {
		case RoleReasoning:
			kind = ownedReasoning
		case RoleActivity:
			kind = ownedActivity
		}
		record(kind, m.ID, m.SubagentRunID)
		for j := range m.ToolCalls {
			record(ownedCall, m.ToolCalls[j].ID, m.SubagentRunID)
		}
	}
}
