package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/api/problem"
	"github.com/agstore/agstore/eventlog"
)

// ScopeHeader names the scope of a request over a control socket. Elsewhere it
// is not looked at: who may reach which scope is the server's word.
const ScopeHeader = "Agstore-Scope"

// Options for New. The zero value serves threads and no agents.
type Options struct {
	// Agents are the agents that can be run, by the names they have in URLs.
	Agents map[string]Agent
	// Scope is the scope that requests act in; empty: agstore.DefaultScope.
	Scope string
	// AnswerTimeout is how long an agent may take to begin its answer; 0 is one
	// minute.
	AnswerTimeout time.Duration
	// IdleTimeout is how long an agent may be silent within its answer; 0 is
	// five minutes.
	IdleTimeout time.Duration
	// Heartbeat is the time between the comments that keep a silent stream
	// open; 0 is 15 seconds.
	Heartbeat time.Duration
	// WriteTimeout is how long a client may take to accept what it is sent; 0
	// is 30 seconds.
	WriteTimeout time.Duration
	// EventBytes is the largest event taken from an agent; 0 is the log's
	// default.
	EventBytes int
	// BodyBytes is the largest request body; 0 is the log's default for a
	// batch.
	BodyBytes int64
	// Client calls the agents; nil: one without cookies and redirects.
	Client *http.Client
	// Closing, if given, is told of every run that the server closed because
	// its agent did not.
	Closing func(scope, thread, run, code string)
}

// Agent is one AG-UI agent.
type Agent struct {
	URL string // where RunAgentInput is POSTed to
	// Header is added to every request to the agent: its credentials, say.
	Header http.Header
}

func (o Options) withDefaults() Options {
	limits := eventlog.DefaultLimits()
	if o.Scope == "" {
		o.Scope = agstore.DefaultScope
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.AnswerTimeout, time.Minute}, {&o.IdleTimeout, 5 * time.Minute},
		{&o.Heartbeat, 15 * time.Second}, {&o.WriteTimeout, 30 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if o.EventBytes <= 0 {
		o.EventBytes = limits.EventBytes
	}
	if o.BodyBytes <= 0 {
		o.BodyBytes = int64(limits.BatchBytes)
	}
	if o.Client == nil {
		o.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a redirect would carry the agent's credentials elsewhere
		}}
	}
	return o
}

// Validate says what is wrong with the options, all at once: for programs that
// are to know before they open a store.
func (o Options) Validate() error {
	var errs []error
	for name, a := range o.Agents {
		u, err := url.Parse(a.URL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			errs = append(errs, &eventlog.Error{
				Op:  fmt.Sprintf("configure agent %q", name),
				Err: &eventlog.InvalidError{Reason: "an agent's URL is absolute and begins with http:// or https://"},
			})
		}
		if name == "" || strings.Contains(name, "/") {
			errs = append(errs, &eventlog.Error{
				Op:  fmt.Sprintf("configure agent %q", name),
				Err: &eventlog.InvalidError{Reason: "an agent's name is a part of URLs: not empty, without a slash"},
			})
		}
	}
	return errors.Join(errs...)
}

// Server serves one store. Make it with New, end it with Close.
type Server struct {
	store *agstore.Store
	opts  Options
	mux   *http.ServeMux

	// Recordings outlive the requests that began them.
	ctx       context.Context
	cancel    context.CancelCauseFunc
	recording sync.WaitGroup
	mu        sync.Mutex
	live      int // recordings that go on
	closed    bool
}

// New serves an open store. All that is wrong with the options is said at once.
func New(store *agstore.Store, opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &Server{store: store, opts: opts.withDefaults(), mux: http.NewServeMux(), ctx: ctx, cancel: cancel}
	for pattern, handle := range map[string]handler{
		"GET /healthz":                         s.health,
		"GET /v1/backups":                      owners(s.backups),
		"POST /v1/backups":                     owners(s.backup),
		"GET /v1/verify":                       owners(s.verify),
		"GET /v1/projections":                  owners(s.projections),
		"POST /v1/projections/{name}/rebuild":  owners(s.rebuild),
		"POST /v1/agents/{agent}/run":          s.run,
		"POST /v1/agents/{agent}/connect":      s.connect,
		"GET /v1/threads":                      s.threads,
		"GET /v1/threads/{thread}":             threadHandler(s.thread),
		"GET /v1/threads/{thread}/runs":        threadHandler(s.runs),
		"GET /v1/threads/{thread}/events":      threadHandler(s.events),
		"POST /v1/threads/{thread}/events":     threadHandler(s.append),
		"POST /v1/threads/{thread}/branch":     threadHandler(s.branch),
		"GET /v1/threads/{thread}/diff":        threadHandler(s.diff),
		"POST /v1/threads/{thread}/dismiss":    threadHandler(s.dismiss),
		"POST /v1/threads/{thread}/erase":      threadHandler(s.erase),
		"POST /v1/threads/{thread}/clear":      threadHandler(s.clear),
		"POST /v1/threads/{thread}/redact":     threadHandler(s.redact),
		"GET /v1/threads/{thread}/receipts":    threadHandler(s.threadReceipts),
		"GET /v1/receipts":                     handler(s.receipts),
		"POST /v1/retain":                      handler(s.retain),
		"POST /v1/threads/{thread}/runs":       threadHandler(s.beginRun),
		"POST /v1/threads/{thread}/runs/take":  threadHandler(s.takeRun),
		"POST /v1/threads/{thread}/runs/renew": threadHandler(s.renewRun),
		"POST /v1/threads/{thread}/runs/end":   threadHandler(s.endRun),
	} {
		s.mux.Handle(pattern, handle)
	}
	return s, nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = withThread(r)
	if strings.HasPrefix(r.URL.Path, "/v1/threads//") {
		problem.Write(w, badRequest("read the path", "the thread id is empty"))
		return
	}
	if _, pattern := s.mux.Handler(r); pattern == "" {
		// The mux says in plain text what it has no handler for.
		w = &problemWriter{ResponseWriter: w, r: r}
	}
	s.mux.ServeHTTP(w, r)
}

// problemWriter turns the mux's own answers into problems.
type problemWriter struct {
	http.ResponseWriter
	r *http.Request
}

func (w *problemWriter) WriteHeader(status int) {
	code, detail := "path_not_found", "nothing is served at "+w.r.URL.Path
	if status == http.StatusMethodNotAllowed {
		code, detail = "method_not_allowed", w.r.Method+" is not served here; allowed: "+w.Header().Get("Allow")
	}
	w.Header().Del("X-Content-Type-Options")
	problem.Write(w.ResponseWriter, problem.New(status, code, detail))
}

// Write drops the plain text.
func (w *problemWriter) Write(p []byte) (int, error) { return len(p), nil }

// threadID marks the thread that a request's path names.
type threadID struct{}

// withThread takes the thread out of the path before the path is matched: a
// thread id is any string, and as a part of a path some would be resolved ("..")
// or not match ("/").
func withThread(r *http.Request) *http.Request {
	const prefix = "/v1/threads/"
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix)
	if !ok {
		return r
	}
	segment, verb, more := strings.Cut(rest, "/")
	id, err := url.PathUnescape(segment)
	if err != nil || id == "" {
		return r
	}
	if more {
		verb = "/" + verb
	}
	out := r.WithContext(context.WithValue(r.Context(), threadID{}, id))
	path := *r.URL
	path.Path, path.RawPath = prefix+"-"+verb, ""
	out.URL = &path
	return out
}

// threadHandler is a handler of requests whose path names a thread.
func threadHandler(h func(w http.ResponseWriter, r *http.Request, thread string) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		thread, ok := r.Context().Value(threadID{}).(string)
		if !ok {
			return badRequest("read the path", "a thread's id is not empty and percent-encoded")
		}
		return h(w, r, thread)
	}
}

// Close lets no new run begin and waits for those that are recorded. When ctx
// ends first, their agents are hung up on and the runs closed.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.recording.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.cancel(errStopping)
	<-done
	return nil
}

// begin counts a recording in, unless the server is closing.
func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &eventlog.Error{Op: "begin run", Err: eventlog.ErrClosed, Hint: "the server is shutting down; try again"}
	}
	s.recording.Add(1)
	s.live++
	return nil
}

// end counts a recording out.
func (s *Server) end() {
	s.mu.Lock()
	s.live--
	s.mu.Unlock()
	s.recording.Done()
}

// Recording is how many runs are being recorded now: those that Close waits for.
func (s *Server) Recording() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

// handler answers a request or returns why it could not. After it has begun to
// answer it must return nil.
type handler func(http.ResponseWriter, *http.Request) error

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		problem.Write(w, err)
	}
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write([]byte(`{"status":"ok"}` + "\n"))
	return ignore(err)
}

// ignore drops the error of a write to a client that is gone.
func ignore(error) error { return nil }

func (s *Server) scope(r *http.Request) *agstore.Scope {
	if name := r.Header.Get(ScopeHeader); name != "" && r.Context().Value(trusted{}) != nil {
		return s.store.Scope(name)
	}
	return s.store.Scope(s.opts.Scope)
}

// badRequest is the error for an argument that cannot be used.
func badRequest(op, reason string) error {
	return &eventlog.Error{Op: op, Err: &eventlog.InvalidError{Reason: reason}}
}

// seqParam reads a query parameter that is a seq; 0 if it is not given.
func seqParam(r *http.Request, name string) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, badRequest("read "+name, name+" is a seq: a number from 0")
	}
	return n, nil
}

func boolParam(r *http.Request, name string) (bool, error) {
	switch r.URL.Query().Get(name) {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, badRequest("read "+name, name+" is true or false")
}
