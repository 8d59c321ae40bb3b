package projection

import (
	"fmt"
	"regexp"

	"github.com/agstore/agstore/eventlog"
)

// Reducer is a user's own projection: what it makes of the records of a log is
// kept beside the log, up to date, and each record has gone into it exactly once.
//
// Its function must be pure: the same state and record give the same, whatever
// else is so. It is called by one goroutine at a time, and must not call the
// store. It may be called for a record again, with the state of before, whose
// result was lost in a crash. If it fails or panics, the projection stops where it
// is and says why ([Status]); it is tried again when the store is opened.
type Reducer struct {
	// Name is the projection's: a to z, 0 to 9, '.', '_' and '-', at most 64.
	Name string
	// Version is to change whenever the function does, so that what was made by
	// the former one is made anew. It is above 0.
	Version int
	// Global makes one state of all threads of a scope, in the order of their
	// commits, instead of one per thread.
	Global bool
	// Removals says what a global state does when content is removed from a thread
	// of the scope. The state of a thread is always made anew of what is left.
	Removals Removals

	// Reduce gives the state after a record; nil is none. state is its own to
	// change, and what it returns is the projection's.
	Reduce func(state []byte, in Input) ([]byte, error)
	// Rows is what a reducer has instead of Reduce whose state is many rows: it
	// changes some of them for a record.
	Rows func(rows *Rows, in Input) error
}

// Input is what a reducer is given: a record, or a removal.
type Input struct {
	Thread eventlog.ThreadKey
	eventlog.Record
	// Removed, if not nil, says that content was removed from the thread: there is
	// no Record then. A global reducer with RemovalsTold gets it at its position,
	// and takes out what it has of the content. The records of before may or may
	// not have been given to it, as they had gone already.
	Removed *eventlog.Receipt
}

// Removals is what a global projection does when content is removed.
type Removals uint8

// The ways to take a removal.
const (
	// RemovalsRebuild makes the state of the scope anew, of what is left.
	RemovalsRebuild Removals = iota
	// RemovalsTold gives the removal to the reducer.
	RemovalsTold
	// RemovalsIgnored leaves the state as it is: for counts and sums that hold
	// nothing of what was said, and are to stay.
	RemovalsIgnored
)

var nameForm = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// check refuses a reducer that cannot be kept.
func (r *Reducer) check() error {
	refuse := func(reason string) error {
		return &eventlog.Error{Op: fmt.Sprintf("keep the projection %q", r.Name), Err: &eventlog.InvalidError{Reason: reason}}
	}
	switch {
	case !nameForm.MatchString(r.Name):
		return refuse("its name is not 1 to 64 of a-z, 0-9, '.', '_' and '-'")
	case r.Version <= 0:
		return refuse("its version is not above 0")
	case (r.Reduce == nil) == (r.Rows == nil):
		return refuse("it has not exactly one of Reduce and Rows")
	case !r.Global && r.Removals != RemovalsRebuild:
		return refuse("the state of a thread goes with what is removed from it; Removals is for global ones")
	}
	return nil
}

// ReducerError is why a projection has stopped: its reducer failed, or panicked.
type ReducerError struct {
	Projection string
	Thread     eventlog.ThreadKey
	Seq        uint64 // of the record; 0: of a removal
	Position   uint64
	Panic      any // what it panicked with; nil: it did not
	Err        error
}

func (e *ReducerError) Error() string {
	what := fmt.Sprintf("seq %d", e.Seq)
	if e.Seq == 0 {
		what = "a removal"
	}
	if e.Panic != nil {
		return fmt.Sprintf("projection %q: its reducer panicked at %s of thread %q: %v", e.Projection, what, e.Thread.Thread, e.Panic)
	}
	return fmt.Sprintf("projection %q: its reducer failed at %s of thread %q: %v", e.Projection, what, e.Thread.Thread, e.Err)
}

// Unwrap gives the reducer's error.
func (e *ReducerError) Unwrap() error { return e.Err }

// reduce calls the reducer for one input.
func (r *Reducer) reduce(rows *Rows, in Input, position uint64) (err error) {
	failed := &ReducerError{Projection: r.Name, Thread: in.Thread, Seq: in.Seq, Position: position}
	defer func() {
		if p := recover(); p != nil {
			failed.Panic = p
			err = failed
		}
	}()
	err = r.call(rows, in)
	if rows.err != nil {
		return rows.err // the store's, not the reducer's
	}
	if err != nil {
		failed.Err = err
		return failed
	}
	return nil
}

func (r *Reducer) call(rows *Rows, in Input) error {
	if r.Rows != nil {
		return r.Rows(rows, in)
	}
	state, _ := rows.Get(stateKey)
	if rows.err != nil {
		return nil
	}
	state, err := r.Reduce(state, in)
	switch {
	case err != nil:
		return err
	case state == nil:
		rows.Delete(stateKey)
	default:
		rows.Put(stateKey, state)
	}
	return nil
}
