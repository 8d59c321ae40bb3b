package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// The codes of the RUN_ERROR that closes a run which its agent did not end.
const (
	CodeAgentUnreachable  = "AGSTORE_AGENT_UNREACHABLE"   // no answer at all
	CodeAgentStatus       = "AGSTORE_AGENT_STATUS"        // an answer other than 200
	CodeAgentContentType  = "AGSTORE_AGENT_CONTENT_TYPE"  // an answer that is no event stream
	CodeAgentTimeout      = "AGSTORE_AGENT_TIMEOUT"       // silent for too long
	CodeAgentCut          = "AGSTORE_AGENT_CUT"           // the stream ended before the run did
	CodeAgentInvalidEvent = "AGSTORE_AGENT_INVALID_EVENT" // something that is no event
	CodeAgentTooLarge     = "AGSTORE_AGENT_TOO_LARGE"     // an event over the limit
	CodeStopped           = "AGSTORE_STOPPED"             // the server was shut down
	CodeStoreFailed       = "AGSTORE_STORE_FAILED"        // the store took no more events
)

var (
	errStopping = errors.New("the server is shutting down")
	errSilent   = errors.New("the agent was silent for too long")
)

// agentError is why a run was closed in its agent's place.
type agentError struct {
	code, text string
	err        error
}

func (e *agentError) Error() string { return e.text }
func (e *agentError) Unwrap() error { return e.err }

// record calls the agent and records what it says, to the end of the run. It
// does not depend on the client that asked for the run.
func (s *Server) record(scope *agstore.Scope, agent Agent, run *agstore.Run, body []byte, err error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	if err == nil {
		err = s.forward(ctx, cancel, agent, run, body)
	}
	failure := (*agentError)(nil)
	if err == nil || !errors.As(err, &failure) {
		failure = &agentError{code: CodeAgentCut, text: "the agent's stream ended before the run did", err: err}
	}
	// The end is written even while the server stops; the store bounds it.
	if end := run.End(context.WithoutCancel(ctx), failure.code, failure.text); end == nil && err != nil && s.opts.Closing != nil {
		lease := run.Lease()
		s.opts.Closing(scope.Name(), lease.Thread.Thread, lease.Run.String(), failure.code)
	}
}

// forward sends the input to the agent and its events to the run. nil means
// that the run has ended, by the agent's word.
func (s *Server) forward(ctx context.Context, cancel context.CancelCauseFunc, agent Agent, run *agstore.Run, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, agent.URL, bytes.NewReader(body))
	if err != nil {
		return &agentError{CodeAgentUnreachable, "the agent cannot be called", err}
	}
	for name, values := range agent.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", typeSSE)

	watch := newWatchdog(s.opts.AnswerTimeout, func() { cancel(errSilent) })
	defer watch.stop()
	resp, err := s.opts.Client.Do(req)
	if err != nil {
		return s.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &agentError{code: CodeAgentStatus, text: fmt.Sprintf("the agent answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))}
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media != typeSSE {
		return &agentError{code: CodeAgentContentType, text: fmt.Sprintf("the agent answered %q, not an event stream", media)}
	}
	watch.after = s.opts.IdleTimeout
	watch.feed()
	return s.copyEvents(ctx, run, &agentBody{r: resp.Body, watch: watch})
}

func (s *Server) unreachable(ctx context.Context, err error) error {
	if failure := stopped(ctx); failure != nil {
		return failure
	}
	// The error names the URL, which may hold credentials: its cause will do.
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return &agentError{CodeAgentUnreachable, "the agent cannot be reached: " + err.Error(), err}
}

// stopped says why a recording's context has ended; nil if it has not.
func stopped(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return nil
	case errors.Is(cause, errSilent):
		return &agentError{CodeAgentTimeout, errSilent.Error(), cause}
	default:
		return &agentError{CodeStopped, errStopping.Error(), cause}
	}
}

// copyEvents records the events of an agent's answer.
func (s *Server) copyEvents(ctx context.Context, run *agstore.Run, body *agentBody) error {
	// A stream that ends without the blank line behind its last event has said
	// that event all the same.
	closed := io.MultiReader(body, strings.NewReader("\n\n"))
	var refused error // of the frame before
	for frame, err := range sse.Read(closed, &sse.ReadConfig{MaxEventSize: s.opts.EventBytes + 1024}) {
		if refused != nil && err == nil {
			return writeFailure(ctx, refused) // more came behind it
		}
		if err != nil {
			return s.readFailure(ctx, body, err)
		}
		if frame.Data == "" {
			continue
		}
		event := []byte(frame.Data)
		if err := run.Enqueue(ctx, event); err != nil && body.cut() && errors.Is(err, eventlog.ErrInvalidEvent) {
			// If it is the last one, it is what the cut left of an event.
			refused = err
			continue
		} else if err != nil {
			return writeFailure(ctx, err)
		}
		var h agui.Header
		if agui.ReadHeader(event, &h) == nil && h.Type.Terminal() {
			if _, err := run.Sync(ctx); err != nil {
				return writeFailure(ctx, err)
			}
			drain(body)
			return nil
		}
	}
	if refused != nil {
		return &agentError{CodeAgentCut, "the agent's stream was cut in the middle of an event", refused}
	}
	return s.readFailure(ctx, body, io.ErrUnexpectedEOF)
}

// drain reads what an agent says behind the end of its run, which is nobody's: a
// connection that is closed under it would break off what it still has to do.
func drain(body *agentBody) {
	body.watch.after = drainPatience
	body.watch.feed()
	// Whatever ends it, the run is over.
	_, _ = io.CopyN(io.Discard, body, drainBytes)
}

// How long and how much an agent may go on behind the end of its run.
const (
	drainPatience = 10 * time.Second
	drainBytes    = 1 << 20
)

func (s *Server) readFailure(ctx context.Context, body *agentBody, err error) error {
	if failure := stopped(ctx); failure != nil {
		return failure
	}
	if !body.ended && body.failed == nil {
		// The parser gave up while there was more to read.
		return &agentError{CodeAgentTooLarge, fmt.Sprintf("the agent sent an event of more than %d bytes", s.opts.EventBytes), err}
	}
	return &agentError{CodeAgentCut, "the agent's stream ended before the run did", err}
}

func writeFailure(ctx context.Context, err error) error {
	if failure := stopped(ctx); failure != nil {
		return failure
	}
	switch {
	case errors.Is(err, eventlog.ErrInvalidEvent):
		return &agentError{CodeAgentInvalidEvent, "the agent sent something that is " + rootText(err), err}
	case errors.Is(err, eventlog.ErrTooLarge):
		return &agentError{CodeAgentTooLarge, "the agent sent too much: " + rootText(err), err}
	}
	return &agentError{CodeStoreFailed, "the store took no more events of this run", err}
}

// rootText is the innermost error's text: what was wrong, without where.
func rootText(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

// agentBody is an agent's answer; every read shows that the agent is alive.
type agentBody struct {
	r      io.Reader
	watch  *watchdog
	last   byte // the latest byte read
	ended  bool
	failed error
}

// cut reports whether the answer has ended within a line.
func (b *agentBody) cut() bool { return b.ended && b.last != '\n' && b.last != '\r' }

func (b *agentBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.watch.feed()
	if n > 0 {
		b.last = p[n-1]
	}
	switch {
	case errors.Is(err, io.EOF):
		b.ended = true
	case err != nil:
		b.failed = err
	}
	return n, err
}

// watchdog calls bark when it was not fed for some time.
type watchdog struct {
	after time.Duration
	timer *time.Timer
}

func newWatchdog(after time.Duration, bark func()) *watchdog {
	return &watchdog{after: after, timer: time.AfterFunc(after, bark)}
}

func (w *watchdog) feed() { w.timer.Reset(w.after) }
func (w *watchdog) stop() { w.timer.Stop() }
