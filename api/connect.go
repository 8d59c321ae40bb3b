package api

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// ConnectMode is how the history comes to a client that connects.
type ConnectMode string

// The modes. In each of them the official client ends in the same messages,
// state and pending interrupts; what comes live is the same in all.
const (
	// ConnectRaw: every event, as it was recorded. The default.
	ConnectRaw ConnectMode = "raw"
	// ConnectCompact: the history compacted (agui.Compactor).
	ConnectCompact ConnectMode = "compact"
	// ConnectSnapshot: the transcript, the state and what is pending and open, as
	// the store has them, instead of the history (replay.Snapshot).
	ConnectSnapshot ConnectMode = "snapshot"
)

func connectMode(r *http.Request) (ConnectMode, error) {
	switch mode := ConnectMode(r.URL.Query().Get("mode")); mode {
	case "":
		return ConnectRaw, nil
	case ConnectRaw, ConnectCompact, ConnectSnapshot:
		return mode, nil
	}
	return "", badRequest("read mode", "modes are raw, compact and snapshot")
}

// connect sends a thread's history, as an AG-UI client takes it, and if a run
// is live, follows it to its end. A thread that does not exist has no history.
// With Last-Event-ID only what came after it. Parameter: mode.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) error {
	if _, ok := s.opts.Agents[r.PathValue("agent")]; !ok {
		return s.agentNotFound(r)
	}
	mode, err := connectMode(r)
	if err != nil {
		return err
	}
	in, err := s.readInput(w, r)
	if err != nil {
		return err
	}
	after, err := s.lastEventID(r)
	if err != nil {
		return err
	}
	scope := s.scope(r)
	if mode == ConnectSnapshot && after == 0 {
		return s.connectSnapshot(w, r, scope, in.thread)
	}
	info, err := scope.Thread(r.Context(), in.thread)
	if err != nil && !errors.Is(err, eventlog.ErrThreadNotFound) {
		return err
	}
	if after > info.LastSeq {
		return behindTheEnd(info, after, true)
	}
	if err := gone(info, after); err != nil {
		return err
	}
	noteGap(w, info, after)
	path, err := pathToHead(r.Context(), scope, info)
	if err != nil {
		return err
	}
	out, stop := s.newStream(w, formatSSE, true)
	defer stop()
	if len(path.segments) == 0 || (!path.live && after >= path.end) {
		return nil
	}
	records := scope.Follow(r.Context(), in.thread, after)
	if mode != ConnectCompact || after > 0 {
		return sendPath(records, path, out)
	}
	join := info.LastSeq
	if !path.live {
		join = path.end
	}
	return sendPath(records, path, &compacting{out: out, join: join, compactor: agui.NewCompactor(agui.CompactLimits{})})
}

// connectSnapshot is connect without a cursor in the mode snapshot.
func (s *Server) connectSnapshot(w http.ResponseWriter, r *http.Request, scope *agstore.Scope, thread string) error {
	opening, err := scope.Snapshot(r.Context(), thread)
	if err != nil && !errors.Is(err, eventlog.ErrThreadNotFound) {
		return err
	}
	var p path
	if opening.Live {
		info, err := scope.Thread(r.Context(), thread)
		if err != nil {
			return err
		}
		// The run that the snapshot goes on with, also if it is no longer the head.
		info.Head = opening.Run
		if p, err = pathToHead(r.Context(), scope, info); err != nil {
			return err
		}
		p.live = true
	}
	out, stop := s.newStream(w, formatSSE, true)
	defer stop()
	for i, event := range opening.Events {
		var seq uint64
		if i == len(opening.Events)-1 {
			seq = opening.Seq // whoever has this has all
		}
		if !out.event(seq, event) {
			return nil
		}
	}
	if !opening.Live {
		return nil
	}
	return sendPath(scope.Follow(r.Context(), thread, opening.Seq), p.alone(), out)
}

// recordWriter takes the records of a path; false: nobody listens any more.
// reached tells it of every seq, also of records that it is not sent.
type recordWriter interface {
	record(r eventlog.Record, echo bool) bool
	reached(seq uint64) bool
}

// sendPath sends the records of a path, and ends where it ends.
func sendPath(records iter.Seq2[eventlog.Record, error], p path, to recordWriter) error {
	for rec, err := range records {
		if err != nil {
			panic(http.ErrAbortHandler) // as in streamRun
		}
		if p.holds(rec) && !to.record(rec, rec.Echo) || !to.reached(rec.Seq) || p.ends(rec) {
			return nil
		}
	}
	return nil
}

// compacting sends the records up to seq join compacted, and those behind it as
// they are. Its events have no ids but the last: a compacted event is of many
// records, so nobody could go on within.
type compacting struct {
	out       *stream
	join      uint64
	compactor *agui.Compactor // nil: the history is over
	last      []byte          // what was sent last is kept back, for the id
}

func (c *compacting) record(r eventlog.Record, echo bool) bool {
	if c.compactor == nil {
		return c.out.record(r, echo)
	}
	return echo || c.send(c.compactor.Add(r.Event))
}

func (c *compacting) reached(seq uint64) bool {
	if c.compactor == nil || seq < c.join {
		return true
	}
	ok := c.send(c.compactor.Flush()) && (c.last == nil || c.out.event(seq, c.last))
	c.compactor, c.last = nil, nil
	return ok
}

func (c *compacting) send(events [][]byte) bool {
	for _, event := range events {
		if c.last != nil && !c.out.event(0, c.last) {
			return false
		}
		c.last = event
	}
	return true
}

// path is what a client that connects is shown: the runs that lead to the head,
// each up to its end. What came behind a run's end is no part of its story, and
// the official client would refuse it.
type path struct {
	segments map[agui.RunKey]uint64 // run -> its last seq
	head     agui.RunKey
	live     bool   // the head runs: it is followed to its end
	end      uint64 // else: the last seq
}

func pathToHead(ctx context.Context, scope *agstore.Scope, info eventlog.Thread) (path, error) {
	if info.Runs == 0 {
		return path{}, nil
	}
	runs, err := scope.Runs(ctx, info.Key.Thread)
	if err != nil {
		return path{}, err
	}
	p := path{segments: make(map[agui.RunKey]uint64), head: info.Head}
	for _, seg := range agui.Lineage(eventlog.Tree(runs), info.Head) {
		p.segments[seg.Run] = seg.Through
	}
	for _, run := range runs {
		through, ok := p.segments[run.Key]
		if !ok {
			continue
		}
		if !run.Running() {
			through = min(through, run.EndSeq)
		}
		p.segments[run.Key] = through
		p.live = p.live || run.Running() && run.Key == info.Head
		// A run that an import left open beside the head is shown as far as it is.
		p.end = max(p.end, min(through, run.LastSeq))
	}
	return p, nil
}

// alone is the path's last run by itself: of the others the client has all that
// it can take.
func (p path) alone() path {
	p.segments = map[agui.RunKey]uint64{p.head: p.segments[p.head]}
	return p
}

func (p path) holds(r eventlog.Record) bool {
	through, ok := p.segments[r.Run]
	return ok && r.Seq <= through
}

func (p path) ends(r eventlog.Record) bool {
	if p.live {
		return r.Run == p.head && r.Type.Terminal()
	}
	return r.Seq >= p.end
}

// lastEventID reads the cursor of a client that comes back: the seq of the last
// event it has, with or without the incarnation of the store before it (DESIGN
// decision 15). 0 if it comes for the first time, or from another incarnation.
func (s *Server) lastEventID(r *http.Request) (uint64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return 0, nil
	}
	if inc, seq, ok := strings.Cut(text, "-"); ok {
		if inc != s.store.Log().Incarnation() {
			return 0, nil
		}
		text = seq
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, badRequest("read Last-Event-ID", "it is the id of an event that this server has sent")
	}
	return n, nil
}
