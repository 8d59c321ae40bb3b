package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// DefaultLeaseTTL is how long the lease of a producer lasts that asks for no
// other time.
const DefaultLeaseTTL = 30 * time.Second

// Lease is the right to write a run, held by a producer on the other side of the
// network.
type Lease struct {
	Run     ID         `json:"run"`
	Attempt int        `json:"attempt"`
	Epoch   uint64     `json:"epoch"`
	Owner   ID         `json:"owner"`
	TTL     float64    `json:"ttl"`               // seconds; 0: it does not expire
	Expires *time.Time `json:"expires,omitempty"` // unless it is renewed
	First   uint64     `json:"first,omitempty"`   // seq of the run's RUN_STARTED
}

func writeLease(w http.ResponseWriter, l eventlog.Lease, first uint64) error {
	out := Lease{
		Run: ID(l.Run.ID), Attempt: l.Run.Attempt, Epoch: l.Epoch, Owner: ID(l.Owner), TTL: l.TTL.Seconds(), First: first,
	}
	if !l.Expires.IsZero() {
		out.Expires = &l.Expires
	}
	return writeJSON(w, out)
}

// beginRun starts a run that a producer writes: it records the user's turn, and
// gives the lease. The body is a RunAgentInput; parameters: owner, ttl (seconds),
// takeOver.
func (s *Server) beginRun(w http.ResponseWriter, r *http.Request, name string) error {
	in, err := s.readInput(w, r)
	if err != nil {
		return err
	}
	if in.thread != name {
		return badRequest("read RunAgentInput", "threadId is another thread than that of the path")
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
	start := in.start(parent, clientState)
	if start.Holder, err = holderParams(r); err != nil {
		return err
	}
	if start.TakeOver, err = boolParam(r, "takeOver"); err != nil {
		return err
	}
	run, err := scope.BeginRun(r.Context(), name, start)
	if e := (*eventlog.Error)(nil); errors.As(err, &e) && errors.Is(err, eventlog.ErrRunExists) {
		e.Hint = "to go on writing that run, take it (runs/take); for another run use another id"
	}
	if err != nil {
		return err
	}
	if !run.Parent.IsZero() {
		w.Header().Set(ParentRunHeader, headerValue(run.Parent.String()))
	}
	return writeLease(w, run.Lease(), run.First())
}

// takeRun gives a new lease on a run that is live, or was left open. Parameters:
// run, owner, ttl.
func (s *Server) takeRun(w http.ResponseWriter, r *http.Request, name string) error {
	scope := s.scope(r)
	run, err := runParam(r, scope, name)
	if err != nil {
		return err
	}
	holder, err := holderParams(r)
	if err != nil {
		return err
	}
	writer, err := scope.TakeRun(r.Context(), name, run, holder)
	if err != nil {
		return err
	}
	return writeLease(w, writer.Lease(), writer.First())
}

// renewRun is the heartbeat of a producer. Parameters: run, epoch.
func (s *Server) renewRun(w http.ResponseWriter, r *http.Request, name string) error {
	writer, err := s.attach(r, name)
	if err != nil {
		return err
	}
	lease, err := writer.Renew(r.Context())
	if err != nil {
		return err
	}
	return writeLease(w, lease, writer.First())
}

// endRun closes a run with the ends that it lacks, and gives its lease back.
// Without an epoch it ends the run whoever writes it, who is fenced: that is how
// a run is stopped. A run that has ended is left as it is. Parameters: run,
// epoch, owner, code, message.
func (s *Server) endRun(w http.ResponseWriter, r *http.Request, name string) error {
	scope := s.scope(r)
	run, err := runParam(r, scope, name)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	code, message := q.Get("code"), q.Get("message")
	if code == "" {
		code = CodeStopped
	}
	if message == "" {
		message = "the run was stopped"
	}
	var writer eventlog.Writer
	if q.Has("epoch") {
		writer, err = s.attach(r, name)
	} else {
		var holder eventlog.Holder
		if holder, err = holderParams(r); err == nil {
			writer, err = scope.TakeRun(r.Context(), name, run, holder)
		}
	}
	if err == nil {
		err = writer.End(r.Context(), code, message)
	}
	if fenced := (*eventlog.FencedError)(nil); errors.As(err, &fenced) && fenced.Current == 0 && fenced.Status != agui.RunRunning {
		err = nil // it has ended by itself
	}
	if err != nil {
		return err
	}
	return writeRun(r.Context(), w, scope, name, run)
}

func writeRun(ctx context.Context, w http.ResponseWriter, scope *agstore.Scope, thread string, key agui.RunKey) error {
	info, err := scope.Thread(ctx, thread)
	if err != nil {
		return err
	}
	runs, err := scope.Runs(ctx, thread)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run.Key == key {
			return writeJSON(w, runEntry(run, info.Head))
		}
	}
	return &eventlog.Error{Op: "end", Key: info.Key, Run: key, Err: eventlog.ErrRunNotFound}
}

func (s *Server) attach(r *http.Request, thread string) (eventlog.Writer, error) {
	scope := s.scope(r)
	lease, err := leaseParams(r, scope, thread)
	if err != nil {
		return nil, err
	}
	lease.Thread.Thread = thread
	return scope.Attach(r.Context(), *lease)
}

// leaseParams reads the lease that a request names by run and epoch.
func leaseParams(r *http.Request, scope *agstore.Scope, thread string) (*eventlog.Lease, error) {
	epoch, err := strconv.ParseUint(r.URL.Query().Get("epoch"), 10, 64)
	if err != nil || epoch == 0 {
		return nil, badRequest("read epoch", "epoch is that of the lease: a number from 1")
	}
	run, err := runParam(r, scope, thread)
	return &eventlog.Lease{Run: run, Epoch: epoch}, err
}

// runParam finds the run that a request names.
func runParam(r *http.Request, scope *agstore.Scope, thread string) (agui.RunKey, error) {
	q := r.URL.Query()
	if !q.Has("run") {
		return agui.RunKey{}, badRequest("read run", "run is missing: the run's id")
	}
	run, err := scope.FindRun(r.Context(), thread, q.Get("run"))
	if err == nil && run.IsZero() {
		err = badRequest("read run", "run is a run of the thread")
	}
	return run, err
}

// holderParams reads who is to hold a lease.
func holderParams(r *http.Request) (eventlog.Holder, error) {
	q := r.URL.Query()
	h := eventlog.Holder{Owner: q.Get("owner"), TTL: DefaultLeaseTTL}
	if h.Owner == "" {
		h.Owner = "a client of the API"
	}
	if text := q.Get("ttl"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds >= eventlog.MinTTL.Seconds() && seconds <= eventlog.MaxTTL.Seconds()) {
			return h, badRequest("read ttl", "ttl is a number of seconds from 0.01 to 86400")
		}
		h.TTL = time.Duration(math.Round(seconds*1e6)) * time.Microsecond
	}
	return h, nil
}
