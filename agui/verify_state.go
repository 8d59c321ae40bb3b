package agui

import (
	"cmp"
	"fmt"
	"slices"
)

// VerifierState is all that a [Verifier] remembers. Lists are sorted: the same
// verifier always gives the same state.
type VerifierState struct {
	Phase int // 0: before the first run, 1: in a run, 2: after RUN_FINISHED, 3: after RUN_ERROR

	// Ids of what is open.
	Texts, Calls, Reasonings, Spans []string
	Steps                           []StepID
	Active, Closed                  []string // subagents

	// The owners of the ids that have been seen.
	Messages, ToolCalls, Activities, ReasoningIDs []Ownership
}

// StepID is a step as a [Verifier] tells them apart.
type StepID struct {
	Owner Opt[string] // subagentRunId
	Name  string
}

// Ownership says whose an id is: a subagent's, or the parent agent's.
type Ownership struct {
	ID    string
	Owner Opt[string]
}

// State returns what v remembers.
func (v *Verifier) State() VerifierState {
	s := VerifierState{
		Phase: int(v.phase),
		Texts: v.text.sorted(), Calls: v.calls.sorted(), Reasonings: v.reasons.sorted(), Spans: v.spans.sorted(),
		Active: v.active.sorted(), Closed: v.closed.sorted(),
	}
	for key := range v.steps {
		s.Steps = append(s.Steps, StepID{Owner: key.owner, Name: key.name})
	}
	slices.SortFunc(s.Steps, func(a, b StepID) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), compareOwners(a.Owner, b.Owner))
	})
	for kind, to := range s.owners() {
		*to = make([]Ownership, 0, len(v.owners[kind]))
		for id, owner := range v.owners[kind] {
			*to = append(*to, Ownership{ID: id, Owner: owner})
		}
		slices.SortFunc(*to, func(a, b Ownership) int { return cmp.Compare(a.ID, b.ID) })
	}
	return s
}

// owners are the lists of owners by kind.
func (s *VerifierState) owners() [ownedKinds]*[]Ownership {
	return [ownedKinds]*[]Ownership{
		ownedMessage: &s.Messages, ownedCall: &s.ToolCalls, ownedActivity: &s.Activities, ownedReasoning: &s.ReasoningIDs,
	}
}

func (s idSet) sorted() []string {
	out := make([]string, 0, len(s))
	for id := range s {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func compareOwners(a, b Opt[string]) int {
	if a.Set != b.Set {
		if b.Set {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.V, b.V)
}

// RestoreVerifier returns a verifier that goes on from a state. It fails if no
// verifier is ever in that state's phase.
func RestoreVerifier(s VerifierState) (*Verifier, error) {
	if s.Phase < 0 || s.Phase > int(errored) {
		return nil, fmt.Errorf("agui: no verifier is in phase %d", s.Phase)
	}
	v := &Verifier{phase: phase(s.Phase)}
	for _, open := range []struct {
		to  *idSet
		ids []string
	}{
		{&v.text, s.Texts}, {&v.calls, s.Calls}, {&v.reasons, s.Reasonings}, {&v.spans, s.Spans},
		{&v.active, s.Active}, {&v.closed, s.Closed},
	} {
		if len(open.ids) > 0 {
			*open.to = make(idSet, len(open.ids))
		}
		for _, id := range open.ids {
			(*open.to)[id] = true
		}
	}
	for _, step := range s.Steps {
		if v.steps == nil {
			v.steps = make(map[stepKey]bool)
		}
		v.steps[stepKey{step.Owner, step.Name}] = true
	}
	for kind, list := range s.owners() {
		if len(*list) > 0 {
			v.owners[kind] = make(map[string]Opt[string], len(*list))
		}
		for _, o := range *list {
			v.owners[kind][o.ID] = o.Owner
		}
	}
	return v, nil
}
