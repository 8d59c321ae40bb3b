package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/replay"
)

// Thread is a thread in lists.
type Thread struct {
	Thread  ID        `json:"thread"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	LastSeq uint64    `json:"lastSeq"`
	Runs    int       `json:"runs"`
	Head    ID        `json:"head,omitempty"` // the run to continue from
}

// ThreadList is a page of threads, in order of their ids.
type ThreadList struct {
	Threads []Thread `json:"threads"`
	Next    ID       `json:"next,omitempty"` // the after of the next page
}

// maxThreads is the most threads of one page.
const maxThreads = 1000

func (s *Server) threads(w http.ResponseWriter, r *http.Request) error {
	limit, err := seqParam(r, "limit")
	if err != nil {
		return err
	}
	if limit == 0 || limit > maxThreads {
		limit = maxThreads
	}
	list := ThreadList{Threads: []Thread{}}
	for t, err := range s.scope(r).Threads(r.Context(), r.URL.Query().Get("after")) {
		if err != nil {
			return err
		}
		if uint64(len(list.Threads)) == limit {
			list.Next = list.Threads[limit-1].Thread
			break
		}
		list.Threads = append(list.Threads, Thread{
			Thread: ID(t.Key.Thread), Created: t.Created, Updated: t.Updated,
			LastSeq: t.LastSeq, Runs: t.Runs, Head: ID(t.Head.String()),
		})
	}
	return writeJSON(w, list)
}

// thread answers with a view. Parameters: run, or at (a seq); messages (only
// the newest so many); profile (durable or reference); history (instead of the
// view its messages as a model takes them) with unanswered (the result of calls
// that have none).
func (s *Server) thread(w http.ResponseWriter, r *http.Request, name string) error {
	scope := s.scope(r)
	at, err := s.point(r, scope, name)
	if err != nil {
		return err
	}
	newest, err := seqParam(r, "messages")
	if err != nil {
		return err
	}
	history, err := boolParam(r, "history")
	if err != nil {
		return err
	}
	unanswered := r.URL.Query().Get("unanswered")
	switch {
	case history && newest > 0:
		// A call could be cut from its result.
		return badRequest("read the history", "history and messages exclude each other")
	case !history && unanswered != "":
		return badRequest("read unanswered", "unanswered is for the history")
	}
	view, err := s.view(r, scope, name, at)
	if err != nil {
		return err
	}
	if history {
		messages := replay.History(view, replay.HistoryOptions{Unanswered: unanswered})
		return writeMessages(w, messages)
	}
	if n := uint64(len(view.Messages)); newest > 0 && n > newest {
		shown := *view
		shown.Messages = view.Messages[n-newest:]
		view = &shown
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(view.AppendJSON(nil), '\n'))
	return ignore(err)
}

// writeMessages answers with a JSON list, whose values are as they were written.
func writeMessages(w http.ResponseWriter, messages []agui.Message) error {
	out := []byte{'['}
	for i := range messages {
		if i > 0 {
			out = append(out, ',')
		}
		out = messages[i].AppendJSON(out)
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(append(out, "]\n"...))
	return ignore(err)
}

func (s *Server) view(r *http.Request, scope *agstore.Scope, thread string, at *replay.Point) (*fold.View, error) {
	switch r.URL.Query().Get("profile") {
	case "", "durable":
	case "reference":
		head := replay.AtHead()
		if at == nil {
			at = &head
		}
		return scope.ViewAs(r.Context(), thread, *at, fold.Options{Profile: fold.Reference})
	default:
		return nil, badRequest("read profile", "profiles are durable and reference")
	}
	if at == nil {
		return scope.View(r.Context(), thread)
	}
	return scope.ViewAt(r.Context(), thread, *at)
}

// point reads the parameters run and at; nil is the head.
func (s *Server) point(r *http.Request, scope *agstore.Scope, thread string) (*replay.Point, error) {
	q := r.URL.Query()
	if q.Has("run") && q.Has("at") {
		return nil, badRequest("read the point", "run and at exclude each other")
	}
	if q.Has("run") {
		key, err := scope.FindRun(r.Context(), thread, q.Get("run"))
		if err != nil {
			return nil, err
		}
		at := replay.AtRun(key)
		return &at, nil
	}
	if q.Has("at") {
		seq, err := seqParam(r, "at")
		at := replay.AtSeq(seq)
		return &at, err
	}
	return nil, nil
}

// Run is one run of a thread's tree.
type Run struct {
	Run       ID             `json:"run"`
	Attempt   int            `json:"attempt"`
	Parent    *ID            `json:"parent"` // null: it starts from nothing
	ParentSeq uint64         `json:"parentSeq,omitempty"`
	Status    agui.RunStatus `json:"status"`
	FirstSeq  uint64         `json:"firstSeq"`
	LastSeq   uint64         `json:"lastSeq"`
	EndSeq    uint64         `json:"endSeq,omitempty"`
	Events    uint64         `json:"events"`
	Started   time.Time      `json:"started"`
	Ended     *time.Time     `json:"ended,omitempty"`
	Origin    string         `json:"origin"`
	Held      bool           `json:"held"`            // a writer holds it
	Owner     ID             `json:"owner,omitempty"` // of its latest lease
	Head      bool           `json:"head"`
}

// RunList is all runs of a thread in order of their starts.
type RunList struct {
	Runs []Run `json:"runs"`
}

func (s *Server) runs(w http.ResponseWriter, r *http.Request, name string) error {
	scope := s.scope(r)
	info, err := scope.Thread(r.Context(), name)
	if err != nil {
		return err
	}
	runs, err := scope.Runs(r.Context(), name)
	if err != nil {
		return err
	}
	list := RunList{Runs: []Run{}}
	for _, run := range runs {
		list.Runs = append(list.Runs, runEntry(run, info.Head))
	}
	return writeJSON(w, list)
}

func runEntry(run eventlog.Run, head agui.RunKey) Run {
	entry := Run{
		Run: ID(run.Key.ID), Attempt: run.Key.Attempt, ParentSeq: run.ParentSeq, Status: run.Status,
		FirstSeq: run.FirstSeq, LastSeq: run.LastSeq, EndSeq: run.EndSeq, Events: run.Events,
		Started: run.Started, Origin: run.Origin.String(), Held: run.Held, Owner: ID(run.Owner), Head: run.Key == head,
	}
	if !run.Parent.IsZero() {
		parent := ID(run.Parent.String())
		entry.Parent = &parent
	}
	if !run.Ended.IsZero() {
		entry.Ended = &run.Ended
	}
	return entry
}

// events sends stored events and, with follow, those to come. Parameters:
// after, to (seqs), run (its lineage), follow, format (sse, jsonl, records), gaps
// (of records: those in front of the first too).
func (s *Server) events(w http.ResponseWriter, r *http.Request, name string) error {
	scope := s.scope(r)
	f, err := formatOf(r)
	if err != nil {
		return err
	}
	after, err := seqParam(r, "after")
	if err != nil {
		return err
	}
	cursor, err := s.lastEventID(r)
	if err != nil {
		return err
	}
	if cursor > 0 {
		after = cursor
	}
	to, err := seqParam(r, "to")
	if err != nil {
		return err
	}
	follow, err := boolParam(r, "follow")
	if err != nil {
		return err
	}
	opts := eventlog.ReadOptions{From: after + 1, To: to}
	if after == 0 {
		opts.From = 0 // from the first that there is
	}
	if run := r.URL.Query().Get("run"); run != "" || r.URL.Query().Has("run") {
		if follow {
			return badRequest("read events", "run and follow exclude each other")
		}
		key, err := scope.FindRun(r.Context(), name, run)
		if err != nil {
			return err
		}
		opts.Lineage = &key
	}
	info, err := scope.Thread(r.Context(), name)
	if err != nil && !(follow && errors.Is(err, eventlog.ErrThreadNotFound)) {
		return err
	}
	if after > info.LastSeq {
		return behindTheEnd(info, after, cursor > 0 || follow)
	}
	if err := gone(info, after); err != nil {
		return err
	}
	gaps, err := boolParam(r, "gaps")
	if err != nil {
		return err
	}
	noteGap(w, info, after)
	records := scope.Read(r.Context(), name, opts)
	if follow {
		records = scope.Follow(r.Context(), name, after)
	}
	out, stop := s.newStream(w, f, follow)
	defer stop()
	if gaps && f == formatRecords && after == 0 && opts.Lineage == nil && info.FirstSeq > 1 {
		out.gap(&eventlog.GapError{From: 1, To: info.FirstSeq - 1, Reason: eventlog.RemovalClear})
	}
	for rec, err := range records {
		if gap := (*eventlog.GapError)(nil); f != formatJSONL && errors.As(err, &gap) {
			if !out.gap(gap) || to > 0 && to <= gap.To {
				return nil
			}
			continue
		}
		if err != nil {
			// The answer has begun; only breaking it off can tell the client
			// that this is not the end.
			panic(http.ErrAbortHandler)
		}
		if !out.record(rec, echoed(rec)) || rec.Seq == to {
			return nil
		}
	}
	return nil
}

// behindTheEnd is the error for a seq that a thread does not have: a cursor that
// was given out by another life of the store, or just a wrong number.
func behindTheEnd(info eventlog.Thread, seq uint64, cursor bool) error {
	if cursor {
		return &eventlog.Error{
			Op: "go on in", Key: info.Key, Hint: "the cursor is of another life of this store: start again from 0",
			Err: &eventlog.ConflictError{Expected: seq, Actual: info.LastSeq},
		}
	}
	return &eventlog.Error{
		Op: "read", Key: info.Key, Seq: seq + 1, Err: eventlog.ErrNotFound,
		Hint: fmt.Sprintf("the last record of the thread is %d", info.LastSeq),
	}
}

// echoed reports whether a record says again what the store wrote before it: an
// agent's own RUN_STARTED. A start that an import repeats is the import's own
// word and stays.
func echoed(r eventlog.Record) bool { return r.Echo && r.Origin == eventlog.OriginAgent }

// Appended is the answer to an append.
type Appended struct {
	First     uint64 `json:"first"`
	Last      uint64 `json:"last"`
	Position  uint64 `json:"position"`
	Duplicate bool   `json:"duplicate"`
}

// append writes the lines of the body, one event each, as one batch.
// Parameters: expect (the last seq), key (idempotency), run, parent, origin
// (append or import); or run and epoch, those of a lease.
func (s *Server) append(w http.ResponseWriter, r *http.Request, name string) error {
	scope := s.scope(r)
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	batch := eventlog.Batch{Events: splitLines(body), Key: r.URL.Query().Get("key")}
	q := r.URL.Query()
	if q.Has("expect") {
		n, err := seqParam(r, "expect")
		if err != nil {
			return err
		}
		batch.Expect = eventlog.LastSeq(n)
	}
	if q.Has("epoch") {
		if batch.Lease, err = leaseParams(r, scope, name); err != nil {
			return err
		}
	} else if q.Has("run") {
		if batch.Run, err = scope.FindRun(r.Context(), name, q.Get("run")); err != nil {
			return err
		}
	}
	if q.Has("parent") {
		key, err := scope.FindRun(r.Context(), name, q.Get("parent"))
		if errors.Is(err, eventlog.ErrThreadNotFound) && q.Get("parent") == agui.RootParent {
			err = nil // nothing is before its first run
		}
		if err != nil {
			return err
		}
		batch.Parent = &key
	}
	switch q.Get("origin") {
	case "", "append":
	case "import":
		batch.Origin = eventlog.OriginImport
	default:
		return badRequest("read origin", "origin is append or import")
	}
	done, err := scope.AppendBatch(r.Context(), name, batch)
	if err != nil {
		return err
	}
	return writeJSON(w, Appended{done.First, done.Last, done.Position, done.Duplicate})
}

// splitLines is the lines that are not blank.
func splitLines(body []byte) [][]byte {
	var out [][]byte
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

// branchRequest is the body of a branch request.
type branchRequest struct {
	From     string            `json:"from"`     // a run of the thread, or "root"
	Run      string            `json:"run"`      // the new run's id; empty: a random one
	Messages []json.RawMessage `json:"messages"` // the turn it begins with
	Events   []json.RawMessage `json:"events"`   // what the run holds (agstore.BranchInput)
}

// Branched is the answer to a branch request.
type Branched struct {
	Run    ID     `json:"run"`
	Parent ID     `json:"parent"` // "root": none
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
}

// branch writes a run behind an earlier one, wholly or not at all. The thread
// goes on from there.
func (s *Server) branch(w http.ResponseWriter, r *http.Request, name string) error {
	scope := s.scope(r)
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	var req branchRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return badRequest("read the branch", `the body is {"from": …, "run": …, "messages": […], "events": […]}`)
	}
	from, err := scope.FindRun(r.Context(), name, string(req.From))
	if err != nil {
		return err
	}
	in := agstore.BranchInput{RunID: string(req.Run), Messages: req.Messages}
	for _, e := range req.Events {
		in.Events = append(in.Events, e)
	}
	done, err := scope.Branch(r.Context(), name, from, in)
	if err != nil {
		return err
	}
	return writeJSON(w, Branched{Run: ID(done.Run.ID), Parent: ID(parentName(from)), First: done.First, Last: done.Last})
}

func parentName(k agui.RunKey) string {
	if k.IsZero() {
		return agui.RootParent
	}
	return k.String()
}

func writeJSON(w http.ResponseWriter, value any) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(out.Bytes())
	return ignore(err)
}

// headerValue is an id as a header's value: escaped like a path where it holds
// what headers may not.
func headerValue(id string) string {
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; c > 0x20 && c < 0x7F && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
