package api

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api/problem"
	"github.com/agstore/agstore/eventlog"
)

// The headers of an answer that streams a run.
const (
	RunHeader       = "Agstore-Run"        // the run's id
	ParentRunHeader = "Agstore-Parent-Run" // the run it continues, if any
)

// run starts a run of an agent and streams it. A request whose run id is known
// joins that run, if it asks for the same, and is refused otherwise (DESIGN
// decision 5).
func (s *Server) run(w http.ResponseWriter, r *http.Request) error {
	agent, ok := s.opts.Agents[r.PathValue("agent")]
	if !ok {
		return s.agentNotFound(r)
	}
	in, err := s.readInput(w, r)
	if err != nil {
		return err
	}
	clientHistory, err := choice(r, HistoryHeader)
	if err != nil {
		return err
	}
	clientState, err := choice(r, StateHeader)
	if err != nil {
		return err
	}
	scope := s.scope(r)
	parent, err := in.continues(r, scope)
	if err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	run, err := scope.BeginRun(r.Context(), in.thread, in.start(parent, clientState))
	if err != nil {
		s.end()
		return s.joinRun(w, r, scope, in, err)
	}
	body, err := in.forAgent(run, clientHistory, clientState)
	go func() {
		defer s.end()
		s.record(scope, agent, run, body, err)
	}()
	return s.streamRun(w, r, scope, in.thread, run.Lease().Run, run.Parent, run.First())
}

// continues finds the run that a new one continues; nil: the head. What a user
// has edited, or wants another answer to, is a branch, else the edit would be
// lost. Answers to interrupts belong to the head.
func (in *runInput) continues(r *http.Request, scope *agstore.Scope) (*agui.RunKey, error) {
	switch {
	case in.named:
		return in.parentRun(r, scope)
	case in.resumes():
		return nil, nil
	}
	return scope.BranchPoint(r.Context(), in.thread, in.messages)
}

// resumes reports whether the input answers interrupts.
func (in *runInput) resumes() bool {
	var entries []json.RawMessage
	return json.Unmarshal(in.members["resume"], &entries) == nil && len(entries) > 0
}

// parentRun finds the run that parentRunId names. One that names no run of the
// thread, or the run itself, is no pointer: the run follows the head (fold-rules
// R33).
func (in *runInput) parentRun(r *http.Request, scope *agstore.Scope) (*agui.RunKey, error) {
	if !in.named || in.parent == in.run {
		return nil, nil
	}
	key, err := scope.FindRun(r.Context(), in.thread, in.parent)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil, nil
	}
	return &key, err
}

func (s *Server) agentNotFound(r *http.Request) error {
	p := problem.New(http.StatusNotFound, "agent_not_found", "no agent is called "+strconv.Quote(r.PathValue("agent")))
	p.Hint = "the agents are: " + strings.Join(slices.Sorted(maps.Keys(s.opts.Agents)), ", ")
	return p
}

// joinRun streams the run that a refused start asked for again, from its start.
func (s *Server) joinRun(w http.ResponseWriter, r *http.Request, scope *agstore.Scope, in *runInput, refused error) error {
	exists := (*eventlog.RunExistsError)(nil)
	if !errors.As(refused, &exists) {
		return refused
	}
	runs, err := scope.Runs(r.Context(), in.thread)
	if err != nil {
		return err
	}
	for _, known := range runs {
		if known.Key == exists.Run && known.InputDigest == in.digest {
			return s.streamRun(w, r, scope, in.thread, known.Key, known.Parent, known.FirstSeq)
		}
	}
	return refused
}

// streamRun sends the records of one run, from its start to its end.
func (s *Server) streamRun(w http.ResponseWriter, r *http.Request, scope *agstore.Scope, thread string, run, parent agui.RunKey, first uint64) error {
	w.Header().Set(RunHeader, headerValue(run.String()))
	if !parent.IsZero() {
		w.Header().Set(ParentRunHeader, headerValue(parent.String()))
	}
	out, stop := s.newStream(w, formatSSE, true)
	defer stop()
	for rec, err := range scope.Follow(r.Context(), thread, first-1) {
		if err != nil {
			panic(http.ErrAbortHandler) // only that tells the client that this is no end
		}
		if rec.Run != run {
			continue
		}
		if !out.record(rec, rec.Echo) || rec.Type.Terminal() {
			return nil
		}
	}
	return nil
}
