package agui

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// ErrViolation says that an event may not stand where it does. What it wraps is
// always a [*Violation].
var ErrViolation = errors.New("protocol violation")

// Violation says which rule of SEMANTICS section 7 an event breaks, and what
// would have been legal in its place.
type Violation struct {
	Type Type   // of the event
	Rule string // V-1 to V-12
	Seq  uint64 // where the event stands, as [Verifier.Verify] was told

	// Kind and ID name what the event is about. If the rule is about events that
	// are still missing (V-12), they name the first one of what they would close.
	// Kind is "" where a rule is about nothing that has an id.
	Kind EntityKind
	ID   string
	// Others are the other ones concerned:
	//
	//	V-1, V-2  the run that has ended, if it had an id
	//	V-4       the run that is going on
	//	V-8       the subagent that the step is of, if it is tagged
	//	V-9       the parent that is not there
	//	V-10      the subagent that owns what the event names, if the parent
	//	          agent does not, and what the event is about beside that
	//	V-12      the run that cannot end, and the owner of a step
	Others []Entity

	Reason   string // in words, without ids
	Expected string // what would have been legal, in words, with ids
}

// EntityKind is the kind of what an id names.
type EntityKind string

// The kinds. A reasoning message and a reasoning span may share an id.
const (
	EntityRun       EntityKind = "run"
	EntityMessage   EntityKind = "message"
	EntityCall      EntityKind = "call"
	EntityReasoning EntityKind = "reasoning"
	EntitySpan      EntityKind = "reasoning span"
	EntityActivity  EntityKind = "activity"
	EntityStep      EntityKind = "step" // named by its stepName
	EntitySubagent  EntityKind = "subagent"
)

// Entity is something that an id names.
type Entity struct {
	Kind EntityKind
	ID   string
}

func (e Entity) String() string { return string(e.Kind) + " " + shown(e.ID) }

// shownID is how many bytes of an id are shown in words.
const shownID = 64

// shown is an id in words: as a JSON string, its end cut off if it is long.
func shown(id string) string {
	if len(id) <= shownID {
		return string(Quote(id))
	}
	end := shownID
	for end > shownID-utf8.UTFMax && !utf8.RuneStart(id[end]) {
		end--
	}
	return string(Quote(id[:end])) + "…"
}

func (v *Violation) Error() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%v: %s", ErrViolation, v.Type)
	if v.Seq != 0 {
		fmt.Fprintf(&out, " at %d", v.Seq)
	}
	fmt.Fprintf(&out, " (%s): ", v.Rule)
	if v.Kind != "" {
		fmt.Fprintf(&out, "%v: ", Entity{v.Kind, v.ID})
	}
	fmt.Fprintf(&out, "%s; expected %s", v.Reason, v.Expected)
	return out.String()
}

// Is reports that every Violation is an [ErrViolation].
func (v *Violation) Is(target error) bool { return target == ErrViolation }

// JSON is the violation as a JSON value: type, rule, seq, the kind and id of what
// it is about, others as a list of {kind, id}, reason and expected. What is not
// there is left out.
func (v *Violation) JSON() Value {
	out := make(members, 0, 8)
	out.text("type", string(v.Type))
	out.text("rule", v.Rule)
	if v.Seq != 0 {
		out.add("seq", jsonvalue.NewInt(int64(v.Seq)))
	}
	if v.Kind != "" {
		out.text("kind", string(v.Kind))
		out.text("id", v.ID)
	}
	if len(v.Others) > 0 {
		out.add("others", listOf(v.Others, (*Entity).JSON))
	}
	out.text("reason", v.Reason)
	out.text("expected", v.Expected)
	return out.object()
}

// JSON is the entity as a JSON value.
func (e *Entity) JSON() Value {
	out := make(members, 0, 2)
	out.text("kind", string(e.Kind))
	out.text("id", e.ID)
	return out.object()
}

// before is an Expected: the event that should have come first.
func before(missing, of string, e *Event) string {
	return fmt.Sprintf("%s of %s before %s", missing, shown(of), e.Type)
}

// ofOwner says whose a step is, in words.
func ofOwner(owner Opt[string]) string {
	if owner.Set {
		return " with subagentRunId " + shown(owner.V)
	}
	return " without subagentRunId"
}

// agent is an owner in words.
func agent(owner Opt[string]) string {
	if owner.Set {
		return "subagent " + shown(owner.V)
	}
	return "the parent agent"
}

// owning are the Others of what has an owner.
func owning(owner Opt[string]) []Entity {
	if owner.Set {
		return []Entity{{EntitySubagent, owner.V}}
	}
	return nil
}
