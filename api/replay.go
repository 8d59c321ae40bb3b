package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api/problem"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/internal/jsonvalue"
	"github.com/agstore/agstore/replay"
)

// CodeReplayOver is the code of the RUN_ERROR that answers a run for which the
// recording has none.
const CodeReplayOver = "AGSTORE_REPLAY_OVER"

// ReplayOptions say how a recording is played. The zero value plays it without
// pauses and faults.
type ReplayOptions struct {
	Speed float64       // how many times as fast as it was recorded; 0: without pauses
	Limit time.Duration // the longest pause; 0: none
	// Step, if given, is waited for before each event.
	Step func(ctx context.Context) error
	// Origin may call it from a browser; empty: no page may.
	Origin string

	// CutAt breaks the connection off behind the event with this seq; 0: nowhere.
	CutAt uint64
	// Drop leaves events out, by their seqs or types.
	DropSeqs  []uint64
	DropTypes []agui.Type
	// Delay is waited before every event, DelayAt before those with these seqs.
	Delay   time.Duration
	DelayAt map[uint64]time.Duration
}

// ServeReplay offers a recorded thread as an AG-UI agent: a handler that answers
// a POST of a RunAgentInput with server-sent events. The first run of a threadId is
// answered with the first recorded run, the next one with the next; the same
// runId again with the same one. A path that ends with /connect is answered with all
// of them. So a front end is tried without a model, and a bug report is one file.
//
// Events are as they were recorded, but that threadId and runId are those of the
// request, and that RUN_STARTED repeats no input to a client that has sent
// messages of its own. recorded yields the records of one lineage, whenever it is
// called; it is read through once before ServeReplay returns.
func ServeReplay(ctx context.Context, recorded func(context.Context) iter.Seq2[eventlog.Record, error], opts ReplayOptions) (http.Handler, error) {
	p := &replayAgent{opts: opts, recorded: recorded, played: make(map[string][]string)}
	for r, err := range recorded(ctx) {
		if err != nil {
			return nil, err
		}
		if r.Type == agui.TypeRunStarted && !r.Echo {
			p.runs = append(p.runs, r.Run)
		}
	}
	return p, nil
}

type replayAgent struct {
	opts     ReplayOptions
	recorded func(context.Context) iter.Seq2[eventlog.Record, error]
	runs     []agui.RunKey

	mu     sync.Mutex
	played map[string][]string // by threadId, the runIds in the order in which they came
}

// ServeHTTP plays.
func (p *replayAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" {
		if origin != p.opts.Origin {
			refused := problem.New(http.StatusForbidden, "cross_origin", "pages of "+origin+" may not call this")
			refused.Hint = "name the origin when the replay is started"
			problem.Write(w, refused)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Headers", "*")
		h.Add("Vary", "Origin")
	}
	switch r.Method {
	case http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		p.post(w, r)
	default:
		w.Header().Set("Allow", "POST, OPTIONS")
		problem.Write(w, problem.New(http.StatusMethodNotAllowed, "method_not_allowed", "an agent is called with POST"))
	}
}

// replayInput is what counts of a RunAgentInput.
type replayInput struct {
	Thread   ID                `json:"threadId"`
	Run      ID                `json:"runId"`
	Messages []json.RawMessage `json:"messages"`
}

func (p *replayAgent) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(eventlog.DefaultLimits().BatchBytes)))
	var in replayInput
	if err != nil || json.Unmarshal(body, &in) != nil || in.Thread == "" {
		problem.Write(w, badRequest("read RunAgentInput", "the body is one JSON object with a threadId"))
		return
	}
	h := w.Header()
	h.Set("Content-Type", typeSSE)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	out := &stream{format: formatSSE, w: w, control: http.NewResponseController(w), timeout: 30 * time.Second, live: true}
	if strings.HasSuffix(r.URL.Path, "/connect") {
		p.play(r.Context(), out, nil, in)
		return
	}
	n := p.turn(in)
	if n >= len(p.runs) {
		p.over(out, in)
		return
	}
	p.play(r.Context(), out, &p.runs[n], in)
}

// turn is which recorded run answers a request.
func (p *replayAgent) turn(in replayInput) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	thread, run := string(in.Thread), string(in.Run)
	if n := slices.Index(p.played[thread], run); n >= 0 && run != "" {
		return n
	}
	p.played[thread] = append(p.played[thread], run)
	return len(p.played[thread]) - 1
}

// over answers a run that was not recorded.
func (p *replayAgent) over(out *stream, in replayInput) {
	ids := fmt.Sprintf(`"threadId":%s,"runId":%s`, agui.Quote(string(in.Thread)), agui.Quote(string(in.Run)))
	text := fmt.Sprintf("the recording has %d runs; another threadId begins again", len(p.runs))
	if out.event(0, []byte(`{"type":"RUN_STARTED",`+ids+`}`)) {
		out.event(0, fmt.Appendf(nil, `{"type":"RUN_ERROR","message":%q,"code":%q}`, text, CodeReplayOver))
	}
}

// play sends the records of one run, or of all.
func (p *replayAgent) play(ctx context.Context, out *stream, run *agui.RunKey, in replayInput) {
	fail := func() { panic(http.ErrAbortHandler) } // the client must not take it for the end
	selected := func(yield func(eventlog.Record, error) bool) {
		for r, err := range p.recorded(ctx) {
			if err == nil && (r.Run.IsZero() || r.Echo || run != nil && r.Run != *run) {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
	for r, err := range replay.Pace(ctx, selected, p.opts.Speed, p.opts.Limit) {
		if err != nil {
			fail()
		}
		if !p.wait(ctx, r.Seq) {
			fail()
		}
		dropped := slices.Contains(p.opts.DropSeqs, r.Seq) || slices.Contains(p.opts.DropTypes, r.Type)
		if !dropped && !out.event(r.Seq, forRequest(r, run, in)) {
			return
		}
		if r.Seq == p.opts.CutAt {
			fail()
		}
		if run != nil && r.Type.Terminal() {
			return
		}
	}
}

// wait is what comes before an event beside its pause; false: the client is gone.
func (p *replayAgent) wait(ctx context.Context, seq uint64) bool {
	if p.opts.Step != nil && p.opts.Step(ctx) != nil {
		return false
	}
	d := p.opts.Delay + p.opts.DelayAt[seq]
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// forRequest is a record's event as an answer to a request. run is nil if all
// runs are played: then each has its own id.
func forRequest(r eventlog.Record, run *agui.RunKey, in replayInput) []byte {
	if r.Type != agui.TypeRunStarted && r.Type != agui.TypeRunFinished {
		return r.Event
	}
	v, err := jsonvalue.Parse(r.Event, 0)
	if err != nil {
		return r.Event
	}
	var members []jsonvalue.Member
	for name, value := range v.Members() {
		switch {
		case name == "threadId":
			value = jsonvalue.NewString(string(in.Thread))
		case name == "runId" && run != nil && in.Run != "":
			value = jsonvalue.NewString(string(in.Run))
		case name == "parentRunId" && run != nil:
			continue // of the recording
		case name == "input" && run != nil && len(in.Messages) > 0:
			continue // its messages would stand beside those of the client
		}
		members = append(members, jsonvalue.Member{Name: name, Value: value})
	}
	return jsonvalue.NewObject(members...).AppendJSON(nil)
}
