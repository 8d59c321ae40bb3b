package fold

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// reference is the profile Reference: the pipeline of SEMANTICS P-1 and the
// reducer of its section 8.
type reference struct {
	limits   Limits
	decoder  agui.Decoder
	thinking agui.Thinking
	expander agui.Expander
	verifier agui.Verifier
	noVerify bool
	event    agui.Event // of the record at hand

	at       int // number of the record at hand, from 1
	applied  int
	failed   *StreamError
	warnings []Warning
	minted   int

	transcript refTranscript
	state      jsonvalue.Document
	pending    []agui.Interrupt
	asked      agui.RunKey // the run that set pending
	askedAt    uint64

	seq  uint64
	runs []Run
}

func newReference(opts Options) *reference {
	r := &reference{limits: opts.Limits, noVerify: opts.NoVerify, decoder: agui.Decoder{Nesting: opts.Limits.Nesting}}
	r.transcript.clear()
	r.state.Set(jsonvalue.NewObject())
	return r
}

func (r *reference) apply(rec Record) {
	r.seq = rec.Seq
	if rec.Echo {
		// The client never gets to see it.
		return
	}
	r.at++
	if r.failed != nil {
		return
	}
	stage, events, err := r.through(rec)
	if err != nil {
		r.failed = &StreamError{At: r.at, Stage: stage, Err: err}
		return
	}
	r.applied = r.at
	for _, e := range events {
		r.reduce(rec, e)
	}
}

// through takes a record through all stages but the reducer. The events it
// returns are valid until the next record.
func (r *reference) through(rec Record) (Stage, []*agui.Event, error) {
	if len(rec.Raw) > r.limits.EventBytes {
		return StageTransport, nil, &agui.InvalidEventError{Reason: fmt.Sprintf("larger than %d bytes", r.limits.EventBytes)}
	}
	e := &r.event
	if err := r.decoder.Decode(rec.Raw, e); err != nil {
		r.warnOfNotes(e)
		return stageOf(rec.Raw, e.Type), nil, err
	}
	r.thinking.Name(e, r.mint)
	r.warnOfNotes(e)
	if !e.Type.Known() {
		return "", nil, nil
	}
	events, err := r.expander.Expand(e)
	if err != nil {
		return StageChunks, nil, err
	}
	if r.noVerify {
		return "", events, nil
	}
	for _, e := range events {
		if err := r.verifier.Verify(rec.Seq, e); err != nil {
			return StageVerify, nil, err
		}
	}
	return "", events, nil
}

// stageOf says which stage refuses an event that cannot be decoded.
func stageOf(raw []byte, t agui.Type) Stage {
	if !t.Known() {
		return StageTransport
	}
	// The compatibility stage breaks on a message that is null.
	v, err := jsonvalue.Parse(raw, math.MaxInt)
	if err != nil {
		return StageTransport
	}
	messages := v.Get("messages")
	switch t {
	case agui.TypeMessagesSnapshot:
	case agui.TypeRunStarted:
		messages = v.Get("input").Get("messages")
	default:
		return StageEnforce
	}
	for _, m := range messages.Items() {
		if m.IsNull() {
			return StageInternal
		}
	}
	return StageEnforce
}

// mint returns the next id of the oracle's making (C-6).
func (r *reference) mint() string {
	r.minted++
	return agui.MintedID(r.minted)
}

func (r *reference) warn(stage Stage, code string) {
	r.warnings = append(r.warnings, Warning{At: r.at, Stage: stage, Code: code})
}

func (r *reference) warnOfNotes(e *agui.Event) {
	enforcing := func(n agui.Note) bool { return n.Code == agui.NoteRemoved || n.Code == agui.NoteEventDropped }
	for _, n := range e.Notes {
		if !enforcing(n) {
			r.warn(StageCompat, string(n.Code))
		}
	}
	for _, n := range e.Notes {
		if enforcing(n) {
			r.warn(StageEnforce, string(n.Code))
		}
	}
}

func (r *reference) reduce(rec Record, e *agui.Event) {
	switch e.Type {
	case agui.TypeTextMessageStart, agui.TypeReasoningMessageStart:
		r.startText(e)
	case agui.TypeTextMessageContent, agui.TypeReasoningMessageContent,
		agui.TypeTextMessageEnd, agui.TypeReasoningMessageEnd:
		r.continueText(e)
	case agui.TypeToolCallStart:
		r.startCall(e)
	case agui.TypeToolCallArgs, agui.TypeToolCallEnd:
		r.continueCall(e)
	case agui.TypeToolCallResult:
		r.result(e)
	case agui.TypeStateSnapshot:
		r.state.Set(e.Snapshot)
	case agui.TypeStateDelta:
		if !r.patch(&r.state, e) {
			r.warn(StageApply, "state-patch-failed")
		}
	case agui.TypeMessagesSnapshot:
		r.snapshot(e)
	case agui.TypeActivitySnapshot:
		r.activity(e)
	case agui.TypeActivityDelta:
		r.patchActivity(e)
	case agui.TypeReasoningEncryptedValue:
		r.encrypted(e)
	case agui.TypeRunStarted:
		r.startRun(rec, e)
	case agui.TypeRunFinished, agui.TypeRunError:
		r.endRun(rec, e)
	}
}

// patch applies a patch; one that the client's library would refuse for its
// names fails (J-10).
func (r *reference) patch(d *jsonvalue.Document, e *agui.Event) bool {
	for _, op := range e.Patch {
		if unsafeNames(op.Path) || unsafeNames(op.From) || op.Kind == jsonvalue.Test && equalsNothing(op.Value) {
			return false
		}
	}
	limits := r.limits.patch()
	limits.ShiftingMoves = true
	return d.Patch(e.Patch, limits) == nil
}

// equalsNothing tells whether the client finds no value equal to this one: it
// asks objects with a member hasOwnProperty for theirs (B-7), and what it
// compares with has no infinite numbers, since they have turned into null.
func equalsNothing(v agui.Value) bool {
	switch v.Kind() {
	case jsonvalue.Number:
		f, _ := v.Float()
		return math.IsInf(f, 0)
	case jsonvalue.List:
		for _, item := range v.Items() {
			if equalsNothing(item) {
				return true
			}
		}
	case jsonvalue.Object:
		for name, item := range v.Members() {
			if name == "hasOwnProperty" || equalsNothing(item) {
				return true
			}
		}
	}
	return false
}

func unsafeNames(pointer string) bool {
	if !strings.Contains(pointer, "proto") {
		return false
	}
	tokens, _ := jsonvalue.SplitPointer(pointer)
	for i, token := range tokens {
		if token == "__proto__" || token == "prototype" && i > 0 && tokens[i-1] == "constructor" {
			return true
		}
	}
	return false
}

func (r *reference) startRun(rec Record, e *agui.Event) {
	if e.ProtocolVersion.Set {
		if code := versionWarning(e.ProtocolVersion.V); code != "" {
			r.warn(StageVersion, code)
		}
	}
	if e.Input != nil {
		r.transcript.addUnknown(e.Input.Messages)
	}
	key := rec.Run
	if key.IsZero() {
		// A file has no run keys: the id, and how often it came.
		key = agui.RunKey{ID: e.RunID.V, Attempt: 1}
		for _, run := range r.runs {
			if run.Key.ID == key.ID {
				key.Attempt++
			}
		}
	}
	r.runs = append(r.runs, Run{Key: key, Status: agui.RunRunning, FirstSeq: rec.Seq})
}

// versionWarning says what is to be said about a protocol version (R-RUN-5).
func versionWarning(version string) string {
	major, minor, ok := strings.Cut(version, ".")
	x, errX := strconv.ParseUint(major, 10, 64)
	y, errY := strconv.ParseUint(minor, 10, 64)
	switch {
	case !ok || errX != nil || errY != nil:
		return "version-uninterpretable"
	case x > 1 || x == 1 && y > 0:
		return "version-newer"
	}
	return ""
}

// endRun: a RUN_FINISHED decides what is pending (I-1, I-2), a RUN_ERROR
// nothing (R-RUN-3).
func (r *reference) endRun(rec Record, e *agui.Event) {
	status := agui.RunFailed
	if e.Type == agui.TypeRunFinished {
		status = agui.RunSuccess
		r.pending = nil
		if e.Outcome != nil {
			r.pending = e.Outcome.Interrupts
			switch e.Outcome.Type {
			case agui.OutcomeInterrupt:
				status = agui.RunInterrupted
			case agui.OutcomeCancelled:
				status = agui.RunCancelled
			}
		}
	}
	if len(r.runs) == 0 {
		return
	}
	last := &r.runs[len(r.runs)-1]
	if e.Type == agui.TypeRunFinished {
		r.asked, r.askedAt = last.Key, rec.Seq
	}
	// A RUN_ERROR may follow a RUN_FINISHED; the first one decides.
	if last.EndSeq == 0 {
		last.Status, last.EndSeq = status, rec.Seq
		last.Error, last.Code, last.Result = e.Message, e.Code, e.Result
	}
}

func (r *reference) view() *View {
	v := &View{
		Seq:      r.seq,
		Runs:     slices.Clone(r.runs),
		Messages: r.transcript.show(),
		State:    r.state.Snapshot().AppendJSON(nil),
		Reference: &ReferenceResult{
			AppliedEvents: r.applied,
			Error:         r.failed,
			Warnings:      slices.Clone(r.warnings),
		},
	}
	if n := len(r.runs); n > 0 {
		v.Run, v.Status = r.runs[n-1].Key, r.runs[n-1].Status
	}
	for _, in := range r.pending {
		v.PendingInterrupts = append(v.PendingInterrupts, Interrupt{Interrupt: in, Run: r.asked, Seq: r.askedAt, Status: InterruptPending})
	}
	return v
}
