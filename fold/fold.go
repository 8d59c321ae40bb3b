package fold

import (
	"fmt"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// Profile says whose answer a fold gives where a stream is out of order.
type Profile uint8

const (
	// Durable loses no word: fold-rules R1 to R34. It is what a store shows.
	Durable Profile = iota
	// Reference is what the official client shows (SEMANTICS).
	Reference
)

// String is the name of the profile on command lines.
func (p Profile) String() string {
	switch p {
	case Durable:
		return "durable"
	case Reference:
		return "reference"
	}
	return fmt.Sprintf("Profile(%d)", uint8(p))
}

// Limits bound what a fold does for one event. 0 means the default. What is
// over a limit changes nothing and is a diagnostic (fold-rules R25).
type Limits struct {
	EventBytes  int // default 32 MiB
	PatchOps    int // operations in a patch; default 10,000
	PatchCopied int // bytes copied by a patch; default 16 MiB
	StateBytes  int // of the state, or of an activity's content; default 64 MiB
	Nesting     int // levels of lists and objects; default 3,000
}

// WithDefaults returns l with every 0 replaced by its default.
func (l Limits) WithDefaults() Limits {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&l.EventBytes, 32<<20)
	set(&l.PatchOps, 10_000)
	set(&l.PatchCopied, 16<<20)
	set(&l.StateBytes, 64<<20)
	set(&l.Nesting, agui.MaxNesting)
	return l
}

func (l Limits) patch() jsonvalue.PatchLimits {
	return jsonvalue.PatchLimits{Ops: l.PatchOps, Copied: l.PatchCopied, Size: l.StateBytes, Nesting: l.Nesting}
}

// Options for New. The zero Options are the defaults.
type Options struct {
	Profile Profile
	Limits  Limits
	// NoVerify leaves out the stage of [Reference] that checks the order of events
	// (SEMANTICS section 7). Durable never ends a stream and has no such stage.
	NoVerify bool
}

// Record is one event of a thread as a fold takes it.
type Record struct {
	Seq uint64 // greater than that of the record before
	// Run is the run the record belongs to, which the log has decided; the zero
	// key: none.
	Run agui.RunKey
	// Echo: a RUN_STARTED of a run that is open already. It changes nothing.
	Echo bool
	// UnknownParent: a RUN_STARTED whose parentRunId was no pointer (R33).
	UnknownParent bool
	Raw           []byte // the event; not kept
}

// Fold folds the records of one lineage. It is not safe for concurrent use; its
// views are.
type Fold struct {
	reducer reducer
}

// reducer is a profile.
type reducer interface {
	apply(r Record)
	view() *View
	save(w *snapshotWriter)
	changes() *Changes
}

// New returns a fold that has seen nothing.
func New(opts Options) *Fold {
	opts.Limits = opts.Limits.WithDefaults()
	return &Fold{reducer: newReducer(opts)}
}

// Apply adds the next record. It cannot fail: what is wrong with an event is a
// diagnostic on the view.
func (f *Fold) Apply(r Record) { f.reducer.apply(r) }

// View is what the records so far come to. It never changes; its cost grows
// with the transcript. The caller may set its Thread and Seq.
func (f *Fold) View() *View { return f.reducer.view() }
