package agui

import (
	"fmt"
	"strings"
)

// Verifier checks the order of events as the official client does. It is given
// decoded, expanded events, those of one stream one after the other. The zero
// Verifier has seen nothing.
type Verifier struct {
	phase  phase
	run    Opt[string] // the run that is going on or was the last to end
	open   [openKinds]openSet[string]
	steps  openSet[stepKey]
	closed idSet // subagents
	owners [ownedKinds]map[string]Opt[string]
	seq    uint64 // of the event at hand
}

type phase uint8

const (
	beforeRuns phase = iota
	running
	finished
	errored
)

type idSet map[string]bool

type stepKey struct {
	owner Opt[string]
	name  string
}

// openKind is what is opened and closed, steps aside.
type openKind uint8

const (
	openText openKind = iota
	openCall
	openReasoning
	openSpan
	openSubagent
	openKinds
)

// lives says how the kinds live. What ends a subagent is the end here that went well.
var lives = [openKinds]struct {
	rule       string
	kind       EntityKind
	owned      ownedKind // not of subagents
	start, end Type
	plural     string
}{
	openText:      {"V-5", EntityMessage, ownedMessage, TypeTextMessageStart, TypeTextMessageEnd, "text messages"},
	openCall:      {"V-6", EntityCall, ownedCall, TypeToolCallStart, TypeToolCallEnd, "tool calls"},
	openReasoning: {"V-7", EntityReasoning, ownedReasoning, TypeReasoningMessageStart, TypeReasoningMessageEnd, "reasoning messages"},
	openSpan:      {"V-7", EntitySpan, ownedReasoning, TypeReasoningStart, TypeReasoningEnd, "reasoning spans"},
	openSubagent:  {"V-9", EntitySubagent, 0, TypeSubagentStarted, TypeSubagentFinished, "subagents"},
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
// that is refused changes nothing. seq says where the event stands, for the
// violation alone: its seq in a log, its number in a file counted from 1, or 0
// for what stands nowhere. Events that one chunk stands for share its seq.
func (v *Verifier) Verify(seq uint64, e *Event) error {
	v.seq = seq
	if err := v.order(e); err != nil {
		return err
	}
	switch e.Type {
	case TypeTextMessageStart:
		return v.start(e, openText)
	case TypeTextMessageContent:
		return v.goOn(e, openText)
	case TypeTextMessageEnd:
		return v.end(e, openText)
	case TypeReasoningMessageStart:
		return v.start(e, openReasoning)
	case TypeReasoningMessageContent:
		return v.goOn(e, openReasoning)
	case TypeReasoningMessageEnd:
		return v.end(e, openReasoning)
	case TypeReasoningStart:
		return v.start(e, openSpan)
	case TypeReasoningEnd:
		return v.end(e, openSpan)
	case TypeToolCallStart:
		return v.startCall(e)
	case TypeToolCallArgs:
		return v.goOn(e, openCall)
	case TypeToolCallEnd:
		return v.end(e, openCall)
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
		return v.attributed(e, ownedActivity, EntityActivity, e.MessageID.V)
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

// violation begins the answer to an event that is refused.
func (v *Verifier) violation(e *Event, rule, reason, expected string) *Violation {
	return &Violation{Type: e.Type, Rule: rule, Seq: v.seq, Reason: reason, Expected: expected}
}

// about names what the event is about.
func (v *Violation) about(kind EntityKind, id string, others ...Entity) *Violation {
	v.Kind, v.ID, v.Others = kind, id, others
	return v
}

// order checks where in the course of runs an event stands (V-1 to V-4, V-12).
func (v *Verifier) order(e *Event) error {
	switch {
	case e.Type == TypeRunStarted:
		if v.phase == running {
			missing := fmt.Sprintf("RUN_FINISHED or RUN_ERROR of %s before RUN_STARTED", shown(v.run.V))
			return v.violation(e, "V-4", "a run is still going on", missing).about(EntityRun, e.RunID.V, v.runs()...)
		}
		*v = Verifier{phase: running, seq: v.seq, run: Some(strings.Clone(e.RunID.V))}
		return nil
	case v.phase == errored:
		return v.ended(e, "V-1", "after RUN_ERROR", "RUN_STARTED")
	case e.Type == TypeRunError:
		v.phase = errored
		return nil
	case v.phase == finished:
		return v.ended(e, "V-2", "after RUN_FINISHED", "RUN_STARTED or RUN_ERROR")
	case v.phase == beforeRuns:
		return v.violation(e, "V-3", "before the first RUN_STARTED", "RUN_STARTED or RUN_ERROR")
	case e.Type == TypeRunFinished:
		if err := v.allClosed(e); err != nil {
			return err
		}
		v.phase = finished
	}
	return nil
}

func (v *Verifier) ended(e *Event, rule, reason, expected string) error {
	out := v.violation(e, rule, reason, expected)
	out.Others = v.runs()
	return out
}

// runs are the Others of a rule about a run.
func (v *Verifier) runs() []Entity {
	if !v.run.Set {
		return nil
	}
	return []Entity{{EntityRun, v.run.V}}
}

func (v *Verifier) allClosed(e *Event) error {
	for kind := range v.open {
		open, live := &v.open[kind], &lives[kind]
		if open.len() == 0 {
			continue
		}
		id, missing := open.first(), string(live.end)
		if openKind(kind) == openSubagent {
			missing += " or " + string(TypeSubagentError)
		}
		return v.violation(e, "V-12", live.plural+" are still open", before(missing, id, e)).about(live.kind, id, v.runs()...)
	}
	if v.steps.len() > 0 {
		step := v.steps.first()
		missing := fmt.Sprintf("STEP_FINISHED of %s%s before %s", shown(step.name), ofOwner(step.owner), e.Type)
		return v.violation(e, "V-12", "steps are still open", missing).about(EntityStep, step.name, append(v.runs(), owning(step.owner)...)...)
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

func (v *Verifier) start(e *Event, kind openKind) error {
	id, live := e.entity(), &lives[kind]
	if v.open[kind].has(id) {
		return v.violation(e, live.rule, "it is open already", before(string(live.end), id, e)).about(live.kind, id)
	}
	if err := v.attributed(e, live.owned, live.kind, id); err != nil {
		return err
	}
	if _, known := v.owners[live.owned][id]; !known {
		v.own(live.owned, id, e.SubagentRunID)
	}
	// A copy, not to hold on to the event that the id is a piece of.
	v.open[kind].add(strings.Clone(id))
	return nil
}

func (v *Verifier) goOn(e *Event, kind openKind) error {
	id, live := e.entity(), &lives[kind]
	if !v.open[kind].has(id) {
		return v.violation(e, live.rule, "it is not open", before(string(live.start), id, e)).about(live.kind, id)
	}
	return v.attributed(e, live.owned, live.kind, id)
}

func (v *Verifier) end(e *Event, kind openKind) error {
	if err := v.goOn(e, kind); err != nil {
		return err
	}
	v.open[kind].remove(e.entity())
	return nil
}

func (v *Verifier) startCall(e *Event) error {
	id := e.ToolCallID.V
	if v.open[openCall].has(id) {
		return v.violation(e, "V-6", "it is open already", before(string(TypeToolCallEnd), id, e)).about(EntityCall, id)
	}
	parent, hasParent := Opt[string]{}, false
	if e.ParentMessageID.Set {
		parent, hasParent = v.owners[ownedMessage][e.ParentMessageID.V]
		if hasParent && e.SubagentRunID.Set && e.SubagentRunID != parent {
			return v.foreign(e, EntityMessage, e.ParentMessageID.V, parent, Entity{EntityCall, id})
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
	case e.SubagentRunID.Set && e.SubagentRunID != owner:
		return v.foreign(e, EntityCall, id, owner)
	case !e.SubagentRunID.Set && hasParent && parent != owner:
		expected := "a parentMessageId of " + agent(owner) + ", or none"
		others := append(owning(owner), Entity{EntityMessage, e.ParentMessageID.V})
		return v.violation(e, "V-10", "it belongs to another agent than its message", expected).about(EntityCall, id, others...)
	}
	v.open[openCall].add(strings.Clone(id))
	return nil
}

func (v *Verifier) step(e *Event) error {
	key := stepKey{e.SubagentRunID, e.StepName.V}
	if open := v.steps.has(key); open != (e.Type == TypeStepFinished) {
		missing, reason := TypeStepStarted, "it is not open"
		if open {
			missing, reason = TypeStepFinished, "it is open already"
		}
		expected := fmt.Sprintf("%s of %s%s before %s", missing, shown(key.name), ofOwner(key.owner), e.Type)
		return v.violation(e, "V-8", reason, expected).about(EntityStep, key.name, owning(key.owner)...)
	}
	if e.Type == TypeStepFinished {
		v.steps.remove(key)
		return nil
	}
	key.name, key.owner.V = strings.Clone(key.name), strings.Clone(key.owner.V)
	v.steps.add(key)
	return nil
}

func (v *Verifier) subagent(e *Event) error {
	id, active := e.SubagentRunID.V, &v.open[openSubagent]
	fail := func(reason, expected string, others ...Entity) error {
		return v.violation(e, "V-9", reason, expected).about(EntitySubagent, id, others...)
	}
	switch parent := e.ParentSubagentRunID; {
	case e.Type != TypeSubagentStarted && v.closed[id]:
		return fail("it has ended already", "no second end of "+shown(id))
	case e.Type != TypeSubagentStarted && !active.has(id):
		return fail("it is not active", before(string(TypeSubagentStarted), id, e))
	case e.Type != TypeSubagentStarted:
		active.remove(id)
		if v.closed == nil {
			v.closed = idSet{}
		}
		v.closed[strings.Clone(id)] = true
		return nil
	case active.has(id) || v.closed[id]:
		return fail("it has been started already", "a subagentRunId that is new in this run")
	case parent.Set && !active.has(parent.V) && !v.closed[parent.V]:
		return fail("its parent is no subagent of this run",
			fmt.Sprintf("SUBAGENT_STARTED of %s before that of %s", shown(parent.V), shown(id)), Entity{EntitySubagent, parent.V})
	}
	active.add(strings.Clone(id))
	return nil
}

func (v *Verifier) encrypted(e *Event) error {
	id := e.EntityID.V
	if e.Subtype.V == "tool-call" {
		return v.attributed(e, ownedCall, EntityCall, id)
	}
	if _, known := v.owners[ownedMessage][id]; known {
		return v.attributed(e, ownedMessage, EntityMessage, id)
	}
	return v.attributed(e, ownedReasoning, EntityReasoning, id)
}

// attributed checks that an event's tag is the owner of what it names (V-10).
func (v *Verifier) attributed(e *Event, owned ownedKind, kind EntityKind, id string) error {
	owner, known := v.owners[owned][id]
	if known && e.SubagentRunID.Set && e.SubagentRunID != owner {
		return v.foreign(e, kind, id, owner)
	}
	return nil
}

// foreign is the violation of an event with the tag of an agent that does not
// own what it names.
func (v *Verifier) foreign(e *Event, kind EntityKind, id string, owner Opt[string], others ...Entity) error {
	expected := "no subagentRunId"
	if owner.Set {
		expected = "subagentRunId " + shown(owner.V) + " or none"
	}
	return v.violation(e, "V-10", "it belongs to another agent", expected).about(kind, id, append(owning(owner), others...)...)
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
