package fold

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"strconv"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// ReferenceResult is what a view of the profile [Reference] has beside messages,
// state and pending interrupts.
type ReferenceResult struct {
	// AppliedEvents is how many records took effect before the end or the fatal
	// one.
	AppliedEvents int
	// Error is what ended the stream; nil if nothing did.
	Error *StreamError
	// Warnings are what the official client would have warned of.
	Warnings []Warning
}

// Stage is the part of the official client that speaks (SEMANTICS P-1).
type Stage string

// The stages.
const (
	StageTransport Stage = "transport"
	StageCompat    Stage = "compat"
	StageEnforce   Stage = "enforce"
	StageChunks    Stage = "chunks"
	StageVerify    Stage = "verify"
	StageVersion   Stage = "version"
	StageApply     Stage = "apply"
	StageInternal  Stage = "internal" // where the client itself breaks
)

// StreamError is what ends a stream for the official client: it and all that
// follows it have no effect.
type StreamError struct {
	At    int // the number of the record, from 1
	Stage Stage
	Err   error // an *agui.InvalidEventError, *agui.MalformedError, *agui.ChunkError or *agui.Violation
}

func (e *StreamError) Error() string {
	return "event " + strconv.Itoa(e.At) + ": " + e.Err.Error()
}

func (e *StreamError) Unwrap() error { return e.Err }

// Warning is a warning of the official client.
type Warning struct {
	At    int // the number of the record, from 1
	Stage Stage
	Code  string // the client's warnings have none of their own: those of the oracle
}

// AppendReferenceJSON appends a view of the profile [Reference] as canonical
// JSON: messages, state, pendingInterrupts, appliedEvents, error and warnings.
// An error is {at, message, stage}, that of the stage verify also has its
// violation ([agui.Violation.JSON]).
// The view of another profile has its messages, state and pending interrupts,
// all its events applied and no error.
func (v *View) AppendReferenceJSON(dst []byte) []byte {
	r := v.Reference
	if r == nil {
		r = &ReferenceResult{AppliedEvents: int(v.Seq)}
	}
	failed := jsonvalue.NewNull()
	if r.Error != nil {
		members := []jsonvalue.Member{
			{Name: "at", Value: jsonvalue.NewInt(int64(r.Error.At))},
			{Name: "message", Value: jsonvalue.NewString(r.Error.Err.Error())},
			{Name: "stage", Value: jsonvalue.NewString(string(r.Error.Stage))},
		}
		if violation, ok := errors.AsType[*agui.Violation](r.Error.Err); ok {
			members = append(members, jsonvalue.Member{Name: "violation", Value: violation.JSON()})
		}
		failed = jsonvalue.NewObject(members...)
	}
	warnings := make([]agui.Value, len(r.Warnings))
	for i, w := range r.Warnings {
		warnings[i] = jsonvalue.NewObject(
			jsonvalue.Member{Name: "at", Value: jsonvalue.NewInt(int64(w.At))},
			jsonvalue.Member{Name: "code", Value: jsonvalue.NewString(w.Code)},
			jsonvalue.Member{Name: "stage", Value: jsonvalue.NewString(string(w.Stage))},
		)
	}
	messages, state, pending := v.held()
	return jsonvalue.NewObject(
		jsonvalue.Member{Name: "messages", Value: messages},
		jsonvalue.Member{Name: "state", Value: state},
		jsonvalue.Member{Name: "pendingInterrupts", Value: pending},
		jsonvalue.Member{Name: "appliedEvents", Value: jsonvalue.NewInt(int64(r.AppliedEvents))},
		jsonvalue.Member{Name: "error", Value: failed},
		jsonvalue.Member{Name: "warnings", Value: jsonvalue.NewList(warnings...)},
	).AppendCanonical(dst)
}

// AppendDigests appends the digests line of the view after an event: its
// number, and the SHA-256 of the canonical JSON of messages, state and pending
// interrupts; or its number, ERROR and the stage if the stream has ended there.
func (v *View) AppendDigests(dst []byte, event int) []byte {
	dst = strconv.AppendInt(dst, int64(event), 10)
	if v.Reference != nil && v.Reference.Error != nil {
		return append(append(dst, " ERROR "...), v.Reference.Error.Stage...)
	}
	messages, state, pending := v.held()
	for _, part := range [...]agui.Value{messages, state, pending} {
		sum := sha256.Sum256(part.AppendCanonical(nil))
		dst = hex.AppendEncode(append(dst, ' '), sum[:])
	}
	return dst
}

// held is what the official client holds. A state never set is {} there.
func (v *View) held() (messages, state, pending agui.Value) {
	list := make([]agui.Value, len(v.Messages))
	for i := range v.Messages {
		list[i] = v.Messages[i].JSON()
	}
	messages = jsonvalue.NewList(list...)
	list = make([]agui.Value, len(v.PendingInterrupts))
	for i := range v.PendingInterrupts {
		list[i] = v.PendingInterrupts[i].JSON()
	}
	pending = jsonvalue.NewList(list...)
	state, err := jsonvalue.Parse(v.State, math.MaxInt)
	if err != nil {
		state = jsonvalue.NewObject()
	}
	return messages, state, pending
}
