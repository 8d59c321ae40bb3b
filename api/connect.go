package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// connect sends a thread's history, as an AG-UI client takes it, and if a run
// is live, follows it to its end. A thread that does not exist has no history.
// With Last-Event-ID only what came after it.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) error {
	if _, ok := s.opts.Agents[r.PathValue("agent")]; !ok {
		return s.agentNotFound(r)
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
	for rec, err := range scope.Follow(r.Context(), in.thread, after) {
		if err != nil {
			panic(http.ErrAbortHandler) // as in streamRun
		}
		if path.holds(rec) && !out.record(rec, rec.Echo) {
			return nil
		}
		if path.ends(rec) {
			return nil
		}
	}
	return nil
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
