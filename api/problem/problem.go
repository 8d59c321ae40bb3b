package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// ContentType is the media type of problems.
const ContentType = "application/problem+json"

// Problem is the details of one failed request (RFC 9457). The members from
// Code on are ours; which of the optional ones are there depends on the code.
type Problem struct {
	Type   string `json:"type"`   // "urn:agstore:problem:" and the code
	Title  string `json:"title"`  // the kind of failure, in words
	Status int    `json:"status"` // the HTTP status
	Detail string `json:"detail"` // what failed, where and why
	Code   string `json:"code"`   // stable, for programs
	Hint   string `json:"hint,omitempty"`

	Op       string `json:"op,omitempty"`
	Thread   string `json:"thread,omitempty"`
	Run      string `json:"run,omitempty"`
	Attempt  int    `json:"attempt,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Line     int    `json:"line,omitempty"` // of a batch, from 1
	Expected uint64 `json:"expected,omitempty"`
	Actual   uint64 `json:"actual,omitempty"`
	Key      string `json:"key,omitempty"`
	First    uint64 `json:"first,omitempty"`
	Last     uint64 `json:"last,omitempty"`
	Epoch    uint64 `json:"epoch,omitempty"`
	Current  uint64 `json:"current,omitempty"`
	Owner    string `json:"owner,omitempty"`
	RunState string `json:"runStatus,omitempty"`
	Offset   int    `json:"offset,omitempty"`
	Reason   string `json:"reason,omitempty"`
	What     string `json:"what,omitempty"`
	Size     int    `json:"size,omitempty"`
	Limit    int    `json:"limit,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Host     string `json:"host,omitempty"`
	Since    string `json:"since,omitempty"`
	Dir      string `json:"dir,omitempty"`
	Removal  string `json:"removal,omitempty"` // of a gap from first to last
	Erased   string `json:"erased,omitempty"`  // when
	Found    int    `json:"found,omitempty"`   // the version of what
	Known    int    `json:"known,omitempty"`   // the newest version that the server knows
	// Of derived rows that are stale: how often something was removed from the
	// thread, as expected, where they are, and now.
	Removals []uint64 `json:"removals,omitempty"`

	cause error // of a problem made by Of
}

// kind is one row of the table of problems.
type kind struct {
	code   string
	status int
	is     error
}

// kinds lists the problems, the finer ones before those they are instances of.
func kinds() []kind {
	return []kind{
		{"gap", http.StatusGone, eventlog.ErrGap},
		{"erased", http.StatusGone, eventlog.ErrErased},
		{"thread_not_found", http.StatusNotFound, eventlog.ErrThreadNotFound},
		{"run_not_found", http.StatusNotFound, eventlog.ErrRunNotFound},
		{"not_found", http.StatusNotFound, eventlog.ErrNotFound},
		{"run_exists", http.StatusConflict, eventlog.ErrRunExists},
		{"conflict", http.StatusConflict, eventlog.ErrConflict},
		{"run_active", http.StatusConflict, eventlog.ErrRunActive},
		{"fenced", http.StatusConflict, eventlog.ErrFenced},
		{"stale", http.StatusConflict, eventlog.ErrStale},
		{"locked", http.StatusServiceUnavailable, eventlog.ErrLocked},
		{"invalid_event", http.StatusUnprocessableEntity, eventlog.ErrInvalidEvent},
		{"too_large", http.StatusRequestEntityTooLarge, eventlog.ErrTooLarge},
		{"invalid", http.StatusBadRequest, eventlog.ErrInvalid},
		{"version", http.StatusInternalServerError, eventlog.ErrVersion},
		{"corrupt", http.StatusInternalServerError, eventlog.ErrCorrupt},
		{"no_space", http.StatusInsufficientStorage, eventlog.ErrNoSpace},
		{"unavailable", http.StatusServiceUnavailable, eventlog.ErrUnavailable},
		{"read_only", http.StatusForbidden, eventlog.ErrReadOnly},
		{"closed", http.StatusServiceUnavailable, eventlog.ErrClosed},
		{"timeout", http.StatusGatewayTimeout, context.DeadlineExceeded},
		{"canceled", 499, context.Canceled},
	}
}

// hints say what to do where nobody has said anything better.
var hints = map[string]string{
	"run_active":       "connect to the thread to follow the run, or start again when it has ended",
	"run_exists":       "use a new run id; the same request again joins its run",
	"thread_not_found": "agstore threads, or GET /v1/threads, lists the threads",
	"fenced":           "stop writing the run: it has ended, or somebody else writes it",
	"gap":              "start again from the beginning: what is left begins behind the gap",
	"erased":           "it is gone for good; the receipt says when and why",
	"version":          "use the version of agstore that wrote the store, or a newer one",
	"run_not_found":    "agstore runs, or GET /v1/threads/{thread}/runs, lists the runs",
}

// Of makes the problem of an error. An error of no known kind is a 500 with
// code "internal".
func Of(err error) *Problem {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p
	}
	p := &Problem{Code: "internal", Title: "internal error", Status: http.StatusInternalServerError, Detail: err.Error(), cause: err}
	for _, k := range kinds() {
		if errors.Is(err, k.is) {
			p.Code, p.Title, p.Status = k.code, k.is.Error(), k.status
			break
		}
	}
	p.Type = "urn:agstore:problem:" + p.Code
	p.describe(err)
	if p.Hint == "" {
		p.Hint = hints[p.Code]
	}
	return p
}

// New makes a problem of a kind that has no error of its own in the store.
func New(status int, code, detail string) *Problem {
	return &Problem{
		Type: "urn:agstore:problem:" + code, Title: http.StatusText(status), Status: status,
		Code: code, Detail: detail,
	}
}

func (p *Problem) describe(err error) {
	if e := (*eventlog.Error)(nil); errors.As(err, &e) {
		p.Op, p.Thread, p.Seq, p.Line, p.Hint = e.Op, e.Key.Thread, e.Seq, e.Line, e.Hint
		p.Run, p.Attempt = e.Run.ID, e.Run.Attempt
	}
	if e := (*eventlog.ConflictError)(nil); errors.As(err, &e) {
		p.Expected, p.Actual = e.Expected, e.Actual
		p.Run, p.Attempt, p.Owner = e.Run.ID, e.Run.Attempt, e.Owner // who was faster, if anybody was
	}
	if e := (*eventlog.KeyConflictError)(nil); errors.As(err, &e) {
		p.Key, p.First, p.Last = e.Key, e.First, e.Last
	}
	if e := (*eventlog.RunActiveError)(nil); errors.As(err, &e) {
		p.Run, p.Attempt, p.Owner = e.Run.ID, e.Run.Attempt, e.Owner
	}
	if e := (*eventlog.RunExistsError)(nil); errors.As(err, &e) {
		p.Run, p.Attempt, p.RunState = e.Run.ID, e.Run.Attempt, e.Status.String()
	}
	if e := (*eventlog.FencedError)(nil); errors.As(err, &e) {
		p.Run, p.Attempt, p.Epoch, p.Current, p.Owner = e.Run.ID, e.Run.Attempt, e.Epoch, e.Current, e.Owner
		p.RunState = e.Status.String()
	}
	if e := (*eventlog.ErasedError)(nil); errors.As(err, &e) {
		p.Erased, p.Reason = e.Time.UTC().Format(time.RFC3339Nano), e.Reason
	}
	if e := (*eventlog.KeyErasedError)(nil); errors.As(err, &e) {
		p.Key, p.First, p.Last = e.Key, e.First, e.Last
	}
	if e := (*eventlog.GapError)(nil); errors.As(err, &e) {
		p.First, p.Last, p.Removal = e.From, e.To, e.Reason.String()
	}
	if e := (*eventlog.InvalidError)(nil); errors.As(err, &e) {
		p.Reason = e.Reason
	}
	if e := (*agui.InvalidEventError)(nil); errors.As(err, &e) {
		p.Offset, p.Reason = e.Offset, e.Reason
	}
	if e := (*eventlog.TooLargeError)(nil); errors.As(err, &e) {
		p.What, p.Size, p.Limit = e.What, e.Size, e.Limit
	}
	if e := (*eventlog.VersionError)(nil); errors.As(err, &e) {
		p.What, p.Found, p.Known = e.What, e.Found, e.Known
	}
	if e := (*eventlog.StaleError)(nil); errors.As(err, &e) {
		p.Expected, p.Actual = e.Expected.Position, e.Actual.Position
		p.Removals = []uint64{e.Expected.Removals, e.Actual.Removals, e.Removals}
	}
	if e := (*eventlog.LockedError)(nil); errors.As(err, &e) {
		p.PID, p.Host, p.Dir, p.Since = e.PID, e.Host, e.Dir, e.Since.UTC().Format(time.RFC3339Nano)
	}
}

// Error is the detail, so that a problem can be returned as an error.
func (p *Problem) Error() string { return p.Detail }

// Unwrap is the error the problem was made of, or the one it stands for.
func (p *Problem) Unwrap() error {
	if p.cause != nil {
		return p.cause
	}
	return p.root()
}

// Err is the error that the problem stands for on the client's side: the same
// typed errors as on the server's, with the server's words.
func (p *Problem) Err() error {
	root := p.root()
	if root == nil {
		return p
	}
	if p.Op == "" {
		return &worded{text: p.Detail, err: root}
	}
	return &eventlog.Error{
		Op: p.Op, Key: eventlog.ThreadKey{Thread: p.Thread}, Run: agui.RunKey{ID: p.Run, Attempt: p.Attempt},
		Seq: p.Seq, Line: p.Line, Hint: p.Hint, Err: root,
	}
}

// worded is an error with the words it had on the server.
type worded struct {
	text string
	err  error
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.err }

// root is the typed error, or the sentinel, of the problem's code.
func (p *Problem) root() error {
	run := agui.RunKey{ID: p.Run, Attempt: p.Attempt}
	var status agui.RunStatus
	if p.RunState != "" {
		_ = status.UnmarshalText([]byte(p.RunState)) // a newer server's word reads as running
	}
	switch {
	case p.Code == "erased" && p.Key != "":
		return &eventlog.KeyErasedError{Key: p.Key, First: p.First, Last: p.Last}
	case p.Code == "erased" && p.Erased != "":
		at, _ := time.Parse(time.RFC3339Nano, p.Erased)
		return &eventlog.ErasedError{Time: at, Reason: p.Reason}
	case p.Code == "gap":
		gap := &eventlog.GapError{From: p.First, To: p.Last}
		_ = gap.Reason.UnmarshalText([]byte(p.Removal)) // a newer server's word is none of ours
		return gap
	case p.Code == "invalid" && p.Reason != "":
		return &eventlog.InvalidError{Reason: p.Reason}
	case p.Code == "conflict" && p.Key != "":
		return &eventlog.KeyConflictError{Key: p.Key, First: p.First, Last: p.Last}
	case p.Code == "conflict":
		return &eventlog.ConflictError{Expected: p.Expected, Actual: p.Actual, Run: run, Owner: p.Owner}
	case p.Code == "run_active":
		return &eventlog.RunActiveError{Run: run, Owner: p.Owner}
	case p.Code == "run_exists":
		return &eventlog.RunExistsError{Run: run, Status: status}
	case p.Code == "fenced":
		return &eventlog.FencedError{Run: run, Epoch: p.Epoch, Current: p.Current, Owner: p.Owner, Status: status}
	case p.Code == "invalid_event" && p.Reason != "":
		return &agui.InvalidEventError{Offset: p.Offset, Reason: p.Reason}
	case p.Code == "too_large" && p.Limit != 0:
		return &eventlog.TooLargeError{What: p.What, Size: p.Size, Limit: p.Limit}
	case p.Code == "stale" && len(p.Removals) == 3:
		return &eventlog.StaleError{
			Expected: eventlog.At{Position: p.Expected, Removals: p.Removals[0]},
			Actual:   eventlog.At{Position: p.Actual, Removals: p.Removals[1]}, Removals: p.Removals[2],
		}
	case p.Code == "version" && p.Found != 0:
		return &eventlog.VersionError{What: p.What, Found: p.Found, Known: p.Known}
	case p.Code == "locked":
		since, _ := time.Parse(time.RFC3339Nano, p.Since)
		return &eventlog.LockedError{Dir: p.Dir, PID: p.PID, Host: p.Host, Since: since}
	}
	for _, k := range kinds() {
		if k.code == p.Code {
			return k.is
		}
	}
	return nil
}

// Write answers a request with the problem of err.
func Write(w http.ResponseWriter, err error) {
	p := Of(err)
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client is gone, or has it
}

// Read makes the error of an answer that is not a success.
func Read(status int, body []byte) error {
	var p Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		return fmt.Errorf("the server answered %d %s", status, http.StatusText(status))
	}
	return p.Err()
}
