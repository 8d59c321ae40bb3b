package fold

import (
	"encoding/json"
	"time"

	"github.com/agstore/agstore/agui"
)

// View is a session at one point. It is immutable, but for Thread and Seq,
// which whoever asked for it may set.
type View struct {
	Thread string
	Seq    uint64      // of the last record
	Run    agui.RunKey // the last run; the zero key before the first
	Status agui.RunStatus
	Runs   []Run // in order of their starts

	Messages []agui.Message
	State    json.RawMessage // nil: never set, which is not null

	PendingInterrupts []Interrupt
	InterruptHistory  []Interrupt // all, in the order they were first asked in
	LegacyInterrupts  []LegacyInterrupt
	PendingToolCalls  []string // ids of calls the last run left to the front end

	Subagents       []Subagent
	Steps           []Step
	Custom          []Custom
	OpaqueReasoning []OpaqueReasoning
	Usage           []agui.Usage // totals per provider and model
	Diagnostics     []Diagnostic

	// Reference is set by the profile [Reference] alone.
	Reference *ReferenceResult
}

// Run is a run of the view's lineage.
type Run struct {
	Key      agui.RunKey
	Status   agui.RunStatus
	FirstSeq uint64
	EndSeq   uint64 // of its first terminal event; 0 while it runs
	// Error and Code are the words of its RUN_ERROR.
	Error, Code agui.Opt[string]
	Result      agui.Value // of its RUN_FINISHED
}

// Interrupt is a question that a run ended with, and what became of it
// (fold-rules R18, R19).
type Interrupt struct {
	agui.Interrupt
	Run      agui.RunKey // that asked
	Seq      uint64      // of the RUN_FINISHED that asked
	Status   InterruptStatus
	Answered bool // it is no longer pending
	Answers  []Answer
	// Expired is set by [View.Interrupts] alone.
	Expired bool
}

// InterruptStatus is what becomes of an interrupt.
type InterruptStatus string

// The statuses of an interrupt.
const (
	InterruptPending   InterruptStatus = "pending"
	InterruptAnswering InterruptStatus = "answering" // a run that answers it is running
	InterruptAnswered  InterruptStatus = "answered"
)

// Answer is one answer to an interrupt: an entry of a run's input.resume.
type Answer struct {
	Run      agui.RunKey
	Seq      uint64 // of the run's start
	Status   string // resolved or cancelled
	Payload  agui.Value
	Metadata agui.Value
}

// LegacyInterrupt is a CUSTOM event on_interrupt, the question of 0.x producers
// (fold-rules R21).
type LegacyInterrupt struct {
	Run   agui.RunKey
	Seq   uint64
	Value agui.Value
}

// Activity is how far a step or a subagent is.
type Activity string

// The statuses of steps and subagents. What its run's end closed is cut.
const (
	ActivityRunning   Activity = "running"
	ActivityFinished  Activity = "finished"  // a step
	ActivitySuccess   Activity = "success"   // a subagent
	ActivitySuspended Activity = "suspended" // a subagent
	ActivityFailed    Activity = "failed"    // a subagent
	ActivityCut       Activity = "cut"
)

// Step is a step of a run.
type Step struct {
	Run           agui.RunKey
	StepName      string
	SubagentRunID agui.Opt[string]
	Status        Activity
	Seq, EndSeq   uint64 // EndSeq is 0 while it runs
}

// Subagent is a subagent of a run.
type Subagent struct {
	Run                 agui.RunKey
	SubagentRunID       string
	Name                string
	Description         agui.Opt[string]
	ParentSubagentRunID agui.Opt[string]
	ParentToolCallID    agui.Opt[string]
	ParentMessageID     agui.Opt[string]
	Status              Activity
	InterruptIDs        []string // of a suspended one
	Result              agui.Value
	Error, Code         agui.Opt[string]
	Seq, EndSeq         uint64
}

// Custom is a CUSTOM or RAW event with its place (fold-rules R32).
type Custom struct {
	Type        agui.Type
	Name        string     // of CUSTOM
	Value       agui.Value // of CUSTOM
	Event       agui.Value // of RAW
	Source      agui.Opt[string]
	Run         agui.RunKey
	Seq         uint64
	OpenMessage agui.Opt[string] // the message it came in the middle of
}

// OpaqueReasoning is a REASONING_ENCRYPTED_VALUE for something that did not
// exist (fold-rules R28).
type OpaqueReasoning struct {
	ID      string
	Subtype string
	Value   string
	Run     agui.RunKey
	Seq     uint64
	// After is the message that was the last one then.
	After agui.Opt[string]
}

// Diagnostic is something a fold had to decide, or found wrong.
type Diagnostic struct {
	Seq    uint64
	Rule   string     // late_event, patch_failed, …: docs/fold.md lists them
	Detail agui.Value // an object with what the rule has to say, or absent
}

// Interrupts lists the pending interrupts with Expired set for those whose
// expiresAt is not after now. One that cannot be read never expires (R20).
func (v *View) Interrupts(now time.Time) []Interrupt {
	out := make([]Interrupt, len(v.PendingInterrupts))
	for i, in := range v.PendingInterrupts {
		if at, ok := expiry(in.ExpiresAt); ok {
			in.Expired = !at.After(now)
		}
		out[i] = in
	}
	return out
}

// expiry reads an expiresAt.
func expiry(at agui.Opt[string]) (time.Time, bool) {
	if !at.Set {
		return time.Time{}, false
	}
	// Without an offset it is taken for UTC, which those who leave it out mean.
	for _, layout := range [...]string{
		time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02T15:04", time.DateOnly,
	} {
		if t, err := time.Parse(layout, at.V); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
