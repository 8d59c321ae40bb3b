package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/eventlog"
)

func (a *app) serveCommand() *cobra.Command {
	s := service{app: a}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the store in front of AG-UI agents",
		Long: "Serves the API: POST /v1/agents/NAME/run records a run of an agent while the client reads\n" +
			"it, POST /v1/agents/NAME/connect gives a thread back to a client that comes again. There is\n" +
			"no authentication, so it listens on this machine alone.\n\n" +
			"Told to stop (Ctrl-C, SIGTERM), it gives runs five seconds to end; told again, none.",
		Example: "  agstore serve --agent helper=http://127.0.0.1:8000/agent",
		Args:    noArgs,
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return s.run(ctx)
		}),
	}
	s.flags(cmd)
	return cmd
}

// service is one agstore serve.
type service struct {
	*app
	listen string
	agents []string
	hosts  []string
	idle   time.Duration
	retain []string

	recovered []abandoned
	faults    struct {
		mu   sync.Mutex
		last string
	}
}

func (s *service) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.listen, "listen", "127.0.0.1:4180", "the address to listen on; port 0: any free one")
	cmd.Flags().StringArrayVar(&s.agents, "agent", nil, "NAME=URL of an AG-UI agent; may be given again")
	cmd.Flags().StringArrayVar(&s.hosts, "host", nil, "a host name to answer requests for, beside localhost; may be given again")
	cmd.Flags().StringArrayVar(&s.retain, "retain", nil, "ACTION=AGE, as clear=2160h or erase=8760h: threads idle for longer are removed; may be given again")
	cmd.Flags().DurationVar(&s.idle, "agent-idle-timeout", 0, "how long an agent may be silent within a run (default 5m)")
}

// stopPatience is how long runs may go on after the server was told to stop.
const stopPatience = 5 * time.Second

func (s *service) run(ctx context.Context) error {
	if s.server != "" {
		return &usageError{text: "--server: serve is a server", hint: "--data names the store to serve"}
	}
	opts, err := s.options()
	if err != nil {
		return err
	}
	// Before the store, so that a port that is taken leaves no trace. Who calls
	// by now waits until the server is ready.
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return &hinted{err, "--listen names another address; port 0 is any free one"}
	}
	policies, err := s.policies()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	store, err := agstore.Open(s.data, agstore.Options{
		Retention: policies, Retained: s.retained,
		Fault: s.faulty, WriteFailed: s.failed, Reopened: s.reopened,
		Recovered: func(thread eventlog.ThreadKey, run agui.RunKey) {
			s.recovered = append(s.recovered, abandoned{thread, run})
		},
	})
	if errors.Is(err, eventlog.ErrLocked) {
		err = &hinted{err, "stop it, or give another --data"}
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	served, err := api.New(store, opts)
	if err != nil {
		return errors.Join(err, l.Close(), store.Close())
	}
	return errors.Join(s.serve(ctx, l, served, opts.Agents), store.Close())
}

// options are the server's, checked.
func (s *service) options() (api.Options, error) {
	if err := s.checkListen(); err != nil {
		return api.Options{}, err
	}
	agents, err := parseAgents(s.agents)
	if err != nil {
		return api.Options{}, err
	}
	opts := api.Options{
		Agents: agents, Scope: s.scope, IdleTimeout: s.idle,
		Closing: func(_, thread, run, code string) { s.closed(thread, run, code) },
	}
	return opts, opts.Validate()
}

// policies are what --retain says, for the server's scope.
func (s *service) policies() ([]agstore.Policy, error) {
	var out []agstore.Policy
	for _, text := range s.retain {
		word, age, _ := strings.Cut(text, "=")
		action, err := parseAction(word)
		if err != nil {
			return nil, err
		}
		idle, err := time.ParseDuration(age)
		if err != nil || idle <= 0 {
			return nil, &usageError{text: fmt.Sprintf("--retain %s: ACTION=AGE, as clear=2160h", text)}
		}
		out = append(out, agstore.Policy{Scope: s.scope, IdleFor: idle, Action: action})
	}
	return out, nil
}

// retained tells of a thread that was removed because of its age.
func (s *service) retained(r eventlog.Receipt, err error) {
	if err != nil {
		fmt.Fprintf(s.io.err, "agstore: retention: %s\n", printable(err.Error()))
		return
	}
	fmt.Fprintf(s.io.err, "agstore: retention: %s of thread %s\n", r.Removal, printable(r.Thread.Thread))
}

// faulty tells of a fault of the store that fails no request. What the engine
// repeats without end is told once.
func (s *service) faulty(err error) {
	text := err.Error()
	var e *eventlog.Error
	if errors.As(err, &e) && e.Hint != "" {
		text += ": " + e.Hint
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	if text == s.faults.last {
		return
	}
	s.faults.last = text
	fmt.Fprintf(s.io.err, "agstore: store: %s\n", printable(text))
}

// failed tells that the store takes no writes, and reopened that it does again.
func (s *service) failed(err error) {
	fmt.Fprintf(s.io.err, "agstore: store: only reads go on: %s\n", printable(err.Error()))
}

func (s *service) reopened(away time.Duration) {
	fmt.Fprintf(s.io.err, "agstore: store: writes go on, after %s\n", away.Round(time.Millisecond))
}

// abandoned is a run that a former process left open.
type abandoned struct {
	thread eventlog.ThreadKey
	run    agui.RunKey
}

// closed tells of a run that was closed in its agent's place.
func (s *service) closed(thread, run, code string) {
	fmt.Fprintf(s.io.err, "agstore: closed run %s of thread %s: %s\n", printable(run), printable(thread), code)
}

// serve serves until ctx ends, and then lets go of everything but the store.
func (s *service) serve(ctx context.Context, l net.Listener, served *api.Server, agents map[string]api.Agent) error {
	control, err := served.ControlSocket()
	if err != nil {
		return errors.Join(err, l.Close(), served.Close(context.Background()))
	}
	server := &http.Server{
		Handler:           api.Guard(served, s.hosts...),
		ReadHeaderTimeout: 10 * time.Second,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	err = s.ready("http://"+l.Addr().String(), agents)
	if err == nil {
		select {
		case <-ctx.Done():
		case end := <-ended:
			ended <- end // it is looked at below
		}
	}
	stopping, cancel := s.stopping(served.Recording())
	defer cancel()
	// First the runs: what they still say goes to their clients. Then those
	// clients, who are done, and at last those who follow for ever.
	err = errors.Join(err, served.Close(stopping))
	streams, cancelStreams := context.WithTimeout(context.Background(), time.Second)
	defer cancelStreams()
	if server.Shutdown(streams) != nil {
		err = errors.Join(err, server.Close())
	}
	if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return errors.Join(err, control.Close())
}

// stopping is the time that so many runs still have: until the patience, or
// whoever stops the server a second time, ends it.
func (s *service) stopping(runs int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	again, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(again, stop) // the signal after that ends the process
	if runs > 0 {
		noun := "runs"
		if runs == 1 {
			noun = "run"
		}
		fmt.Fprintf(s.io.err, "agstore: waiting up to %s for %d %s; again to stop at once\n", short(stopPatience), runs, noun)
	}
	return again, func() { stop(); cancel() }
}

// ready says where the server is, on a line that programs may wait for, then
// what it serves there, and which runs of former processes it has closed.
func (s *service) ready(base string, agents map[string]api.Agent) error {
	var err error
	if s.json {
		err = json.NewEncoder(s.io.out).Encode(struct {
			Listening string `json:"listening"`
		}{base})
	} else {
		_, err = fmt.Fprintf(s.io.err, "agstore: listening on %s\n", base)
	}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		fmt.Fprintf(s.io.err, "agstore: agent %s: %s/v1/agents/%s/run\n", printable(name), base, url.PathEscape(name))
	}
	for _, r := range s.recovered {
		s.closed(r.thread.Thread, r.run.String(), agui.CodeAbandoned)
	}
	return err
}

// checkListen refuses addresses that others could reach.
func (s *service) checkListen() error {
	host, port, err := net.SplitHostPort(s.listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return &usageError{text: fmt.Sprintf("--listen %s: an address and a port, as 127.0.0.1:4180", s.listen)}
	}
	if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return &usageError{
		text: fmt.Sprintf("--listen %s: there is no authentication, so only a loopback address is served", s.listen),
		hint: "listen on 127.0.0.1 or [::1], and let a server with authentication pass requests on",
	}
}

func parseAgents(list []string) (map[string]api.Agent, error) {
	agents := make(map[string]api.Agent, len(list))
	for _, text := range list {
		name, url, ok := strings.Cut(text, "=")
		if !ok || strings.ContainsAny(name, "/:@?") {
			// What was given is a URL, and may hold a password: it is not repeated.
			return nil, &usageError{text: "--agent: NAME=URL, and the name has none of / : @ ?"}
		}
		if _, again := agents[name]; again {
			return nil, &eventlog.Error{Op: fmt.Sprintf("configure agent %q", name), Err: eventlog.ErrInvalid, Hint: "an agent's name is given once"}
		}
		agents[name] = api.Agent{URL: url}
	}
	return agents, nil
}
