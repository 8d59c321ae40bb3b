package agstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/replay"
)

// RunInput is what a run is started with. It is recorded in the run's
// RUN_STARTED before the agent hears of it, so that the user's turn outlives
// whatever becomes of the run.
type RunInput struct {
	RunID  string       // empty: a new random id
	Parent *agui.RunKey // the run to continue; nil: the head; the zero key: none
	// UnknownParent is a parentRunId that names no ended run of the thread. It
	// is recorded as given, the run follows the head, and the view says so
	// (fold-rules R33).
	UnknownParent string
	// Messages are AG-UI messages. Those whose ids the lineage holds already
	// are left out of the record.
	Messages []json.RawMessage
	// State, if not nil, becomes the thread's state (fold-rules R26).
	State json.RawMessage
	// InitialState becomes the thread's state if the run continues none and
	// State is nil.
	InitialState   json.RawMessage
	Tools          json.RawMessage // AG-UI's list of tools; nil: none
	Context        json.RawMessage // AG-UI's list of context entries; nil: none
	Resume         json.RawMessage // AG-UI's list of answers to interrupts; nil: none
	ForwardedProps json.RawMessage // recorded as given: no secrets; nil: none
	// Digest is kept with the run, to tell a repeated start from another one;
	// zero: it is not needed.
	Digest [16]byte
	// Holder is who writes the run, if that is somebody in another process:
	// its lease expires, and it reaches the run with Scope.Attach.
	Holder eventlog.Holder
	// TakeOver closes a live run that is in the way, as abandoned, in the same
	// commit, instead of being refused with ErrRunActive.
	TakeOver bool
}

// Run is a run that this process writes.
type Run struct {
	eventlog.Writer
	// Parent is the run that it continues; the zero key: none.
	Parent agui.RunKey
	// Before is the view that the run continues.
	Before *fold.View
	// Turn are the messages of the input that Before does not hold.
	Turn []json.RawMessage
}

// startAttempts bounds how often BeginRun starts over because others write to
// the thread in between.
const startAttempts = 100

// BeginRun starts a run: it records RUN_STARTED with the input and gives the
// writer for what the agent says. Errors: ErrRunActive while the head's run is
// being written, ErrRunExists for a run id that was used before, ErrRunNotFound
// for an unknown parent, ErrConflict for the answer to an interrupt that another
// run has answered, which it names, and those of writing.
func (s *Scope) BeginRun(ctx context.Context, thread string, in RunInput) (*Run, error) {
	if err := in.check(); err != nil {
		return nil, &eventlog.Error{Op: "begin run", Key: s.key(thread), Err: err}
	}
	if in.RunID == "" {
		in.RunID = newRunID()
	}
	for attempt := 1; ; attempt++ {
		run, moved, err := s.beginRun(ctx, thread, in)
		if !moved || attempt == startAttempts {
			return run, err
		}
	}
}

func newRunID() string { return "run-" + strings.ToLower(rand.Text()) }

// beginRun tries it once. moved: somebody wrote to the thread since it was looked
// at.
func (s *Scope) beginRun(ctx context.Context, thread string, in RunInput) (run *Run, moved bool, err error) {
	before, parent, start, err := s.origin(ctx, thread, in.Parent)
	if err != nil {
		return nil, false, err
	}
	if in.Parent == nil && in.UnknownParent != "" {
		parent = in.UnknownParent
	}
	if err := answered(before, in.Resume); err != nil {
		return nil, false, &eventlog.Error{Op: "begin run", Key: s.key(thread), Err: err, Hint: "the interrupt was answered; read the run that answered it"}
	}
	turn := unknown(before, in.Messages)
	if in.State == nil && before.State == nil && !emptyObject(in.InitialState) {
		in.State = in.InitialState
	}
	start.InputDigest, start.Holder, start.TakeOver = in.Digest, in.Holder, in.TakeOver
	start.Started = runStarted(thread, parent, turn, in)
	w, err := s.store.log.BeginRun(ctx, s.key(thread), start)
	if err != nil {
		conflict := (*eventlog.ConflictError)(nil)
		return nil, errors.As(err, &conflict), err
	}
	run = &Run{Writer: w, Parent: before.Run, Before: before, Turn: turn}
	if in.Parent != nil {
		run.Parent = *in.Parent
	}
	return run, false, nil
}

// origin gives the view that a run with this parent continues, the parent as it
// is named in the record, and the start that is right as long as the view is.
func (s *Scope) origin(ctx context.Context, thread string, parent *agui.RunKey) (*fold.View, string, eventlog.RunStart, error) {
	info, err := s.Thread(ctx, thread)
	if errors.Is(err, eventlog.ErrThreadNotFound) && (parent == nil || parent.IsZero()) {
		return &fold.View{Thread: thread}, "", eventlog.RunStart{Parent: parent, Expect: eventlog.LastSeq(0)}, nil
	}
	if err != nil {
		return nil, "", eventlog.RunStart{}, err
	}
	if parent == nil {
		view, err := s.View(ctx, thread)
		if err != nil {
			return nil, "", eventlog.RunStart{}, err
		}
		// What the view shows and the seq it is true at belong together; the head
		// asked for before may be another one by now.
		return view, view.Run.ID, eventlog.RunStart{Expect: eventlog.LastSeq(view.Seq)}, nil
	}
	if parent.IsZero() {
		return &fold.View{Thread: thread}, parentID(*parent, info.Runs), eventlog.RunStart{Parent: parent}, nil
	}
	view, err := s.ViewAt(ctx, thread, replay.AtRun(*parent))
	return view, parent.ID, eventlog.RunStart{Parent: parent}, err
}

// unknown picks the messages whose ids a view does not hold.
func unknown(view *fold.View, messages []json.RawMessage) []json.RawMessage {
	known := make(map[string]bool, len(view.Messages))
	for i := range view.Messages {
		known[view.Messages[i].ID] = true
	}
	var out []json.RawMessage
	for _, m := range messages {
		if id, ok := messageID(m); !ok || !known[id] {
			out = append(out, m)
		}
	}
	return out
}

// messageID is the id of an AG-UI message; false if it has none.
func messageID(m json.RawMessage) (string, bool) {
	var fields struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(m, &fields) != nil {
		return "", false
	}
	return agui.Unquote(fields.ID)
}

func emptyObject(raw json.RawMessage) bool {
	var members map[string]json.RawMessage
	return len(raw) == 0 || json.Unmarshal(raw, &members) == nil && members != nil && len(members) == 0
}

// check refuses an input that would not be what it says in the record.
func (in RunInput) check() error {
	for i, m := range in.Messages {
		if !isJSON(m, '{') {
			return &eventlog.InvalidError{Reason: fmt.Sprintf("messages[%d] is no JSON object", i)}
		}
	}
	for _, f := range []struct {
		name  string
		value json.RawMessage
		first byte
	}{
		{"State", in.State, 0}, {"InitialState", in.InitialState, 0}, {"ForwardedProps", in.ForwardedProps, 0},
		{"Tools", in.Tools, '['}, {"Context", in.Context, '['}, {"Resume", in.Resume, '['},
	} {
		if len(f.value) > 0 && !isJSON(f.value, f.first) {
			return &eventlog.InvalidError{Reason: f.name + " is no JSON of its kind"}
		}
	}
	return nil
}

// isJSON reports whether raw is one JSON value, and begins with first unless
// that is 0.
func isJSON(raw []byte, first byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return json.Valid(raw) && utf8.Valid(raw) && (first == 0 || raw[0] == first)
}

// runStarted writes the RUN_STARTED of a run.
func runStarted(thread, parent string, turn []json.RawMessage, in RunInput) []byte {
	ids := func(out []byte) []byte {
		out = append(append(out, `"threadId":`...), agui.Quote(thread)...)
		out = append(append(out, `,"runId":`...), agui.Quote(in.RunID)...)
		if parent != "" {
			out = append(append(out, `,"parentRunId":`...), agui.Quote(parent)...)
		}
		return out
	}
	out := ids([]byte(`{"type":"RUN_STARTED",`))
	out = ids(append(out, `,"input":{`...))
	out = append(out, `,"messages":[`...)
	for i, m := range turn {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m...)
	}
	out = append(out, ']')
	for _, f := range []struct {
		name  string
		value json.RawMessage
	}{
		{"state", in.State}, {"tools", in.Tools}, {"context", in.Context},
		{"resume", in.Resume}, {"forwardedProps", in.ForwardedProps},
	} {
		if len(f.value) > 0 {
			out = append(append(append(append(out, ',', '"'), f.name...), '"', ':'), f.value...)
		}
	}
	return append(out, '}', '}')
}
