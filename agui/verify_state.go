package agui

import (
	"cmp"
	"fmt"
	"slices"
)

// VerifierState is all that a [Verifier] remembers: the same verifier always
// gives the same state.
type VerifierState struct {
	Phase int         // 0: before the first run, 1: in a run, 2: after RUN_FINISHED, 3: after RUN_ERROR
	Run   Opt[string] // the run that is going on or has ended; none before the first

	// Ids of what is open, in order of opening.
	Texts, Calls, Reasonings, Spans []string
	Steps                           []StepID
	Active                          []string // subagents
	// Closed are the subagents that have ended, sorted.
	Closed []string

	// The owners of the ids that have been seen, sorted by id.
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
	s := VerifierState{Phase: int(v.phase), Run: v.run, Closed: v.closed.sorted()}
	for kind, to := range s.open() {
		*to = v.open[kind].keys()
	}
	for _, key := range v.steps.keys() {
		s.Steps = append(s.Steps, StepID{Owner: key.owner, Name: key.name})
	}
	for kind, to := range s.owners() {
		*to = make([]Ownership, 0, len(v.owners[kind]))
		for id, owner := range v.owners[kind] {
			*to = append(*to, Ownership{ID: id, Owner: owner})
		}
		slices.SortFunc(*to, func(a, b Ownership) int { return cmp.Compare(a.ID, b.ID) })
	}
	return s
}

// open are the lists of what is open by kind.
func (s *VerifierState) open() [openKinds]*[]string {
	return [openKinds]*[]string{
		openText: &s.Texts, openCall: &s.Calls, openReasoning: &s.Reasonings, openSpan: &s.Spans, openSubagent: &s.Active,
	}
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

// RestoreVerifier returns a verifier that goes on from a state. It fails if no
// verifier is ever in that state's phase.
func RestoreVerifier(s VerifierState) (*Verifier, error) {
	if s.Phase < 0 || s.Phase > int(errored) {
		return nil, fmt.Errorf("agui: no verifier is in phase %d", s.Phase)
	}
	v := &Verifier{phase: phase(s.Phase), run: s.Run}
	for kind, ids := range s.open() {
		v.open[kind] = openSetOf(*ids)
	}
	steps := make([]stepKey, len(s.Steps))
	for i, step := range s.Steps {
		steps[i] = stepKey{step.Owner, step.Name}
	}
	v.steps = openSetOf(steps)
	if len(s.Closed) > 0 {
		v.closed = make(idSet, len(s.Closed))
	}
	for _, id := range s.Closed {
		v.closed[id] = true
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
