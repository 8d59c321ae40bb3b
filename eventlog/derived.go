package eventlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Derived keeps rows that were derived from a log, beside it: views, projections.
// They are never the log itself. All of them can be lost, and are made anew.
//
// A log may implement it; an engine without it leaves them to be kept elsewhere.
// It is safe for concurrent use.
//
// What every engine promises, and package logtest shows (RunDerived):
//
//   - A row is never ahead of the log: one that is found after a crash was
//     derived from records that are there too. It may be older than the latest
//     write, which is not synced by itself. What lies in one space was always
//     written by the same writes: all of each, and none after one that is lost.
//   - Exactly once: a write says from where to where it goes on, and is refused
//     with [ErrStale] if the rows are not there any more, as after a crash or
//     a failure of the disk, or were moved by somebody else.
//   - Removed with its thread: from the commit of a removal on (erase, clear,
//     redact) no row of the thread that was derived before is read, and none
//     appears after it. They leave the files with the content.
//   - Nothing that befalls derived rows is a failure of an append.
type Derived interface {
	// DerivedAt says at which point of the log the rows of a space are true. The
	// zero value: there are none.
	DerivedAt(ctx context.Context, space Space) (At, error)

	// DerivedGet gives the row of a key; ErrNotFound if there is none. A row that
	// is damaged is ErrCorrupt: drop the space.
	DerivedGet(ctx context.Context, space Space, key []byte) (DerivedRow, error)

	// DerivedScan yields rows in the order of their keys. They are the caller's
	// to keep. Many rows are read in several steps, between which they may be
	// written; each row says at which point it was.
	DerivedScan(ctx context.Context, space Space, opts ScanOptions) iter.Seq2[DerivedRow, error]

	// DerivedWrite makes changes to a space, all of them or none. When it returns
	// nil, every later read sees them; a crash may lose them.
	//
	// Refusals, with nothing written: [ErrStale], ErrErased, ErrThreadNotFound,
	// ErrInvalid (To is behind From or ahead of the watermark), ErrTooLarge.
	DerivedWrite(ctx context.Context, space Space, batch DerivedBatch) error

	// DerivedDrop removes all rows of a space. There may be none.
	DerivedDrop(ctx context.Context, space Space) error

	// DerivedSpaces yields the spaces of a thread that have rows, or those of the
	// scope itself if thread is empty, by owner; those of the log if both are.
	DerivedSpaces(ctx context.Context, scope, thread string) iter.Seq2[DerivedSpace, error]

	// DerivedForget removes all rows of an owner, in all spaces, in steps. What one
	// that fails has left is removed when it is called again.
	DerivedForget(ctx context.Context, owner string) error
}

// Space is where rows lie: those of one thread, which are removed with what it
// holds, those of a scope, or those of the whole log.
type Space struct {
	Scope  string // empty: rows of the log
	Thread string // empty: rows of the scope
	// Owner is who keeps them: 1 to 255 bytes of text, as "view". Rows of different
	// owners never meet.
	Owner string
}

// At is a point of the log at which rows are true.
type At struct {
	// Position up to which the log has gone into them.
	Position uint64
	// Removals is the thread's ([Thread.Removals]) at that point: with another
	// one, the rows were made of what is gone. 0 in the space of a
	// scope or of the log.
	Removals uint64
}

// DerivedRow is a row as stored.
type DerivedRow struct {
	Key   []byte
	Value []byte
	At    At // of the write that wrote it
}

// DerivedBatch is what one write changes, atomically.
type DerivedBatch struct {
	// From is where the rows of the space are ([Derived.DerivedAt]), To where the
	// changes bring them. To may be From.
	From, To At
	// Anew drops all rows of the space first, wherever they are.
	Anew    bool
	Changes []DerivedChange
}

// DerivedChange writes a row, or deletes it.
type DerivedChange struct {
	// Key is 1 to DerivedKeyBytes. It is to be a name and no content: an engine's
	// list of its files may hold it for a while after it was removed.
	Key    []byte
	Value  []byte // may be empty
	Delete bool
}

// ScanOptions select rows of a space. The zero value: all.
type ScanOptions struct {
	From    []byte // the first key; nil: the first that there is
	To      []byte // the key before which it ends; nil: behind the last
	Reverse bool   // from the last to the first
	Limit   int    // how many at most; 0: all
}

// DerivedSpace is a space that has rows.
type DerivedSpace struct {
	Space
	At At
}

// Bounds of derived rows.
const (
	DerivedOwnerBytes = 255      // of the name of an owner
	DerivedKeyBytes   = 4096     // of a key
	DerivedBatchBytes = 64 << 20 // of all keys and values of one write
)

// The kinds of failure of derived rows.
var (
	// ErrStale: derived rows are not where their writer left them ([StaleError]).
	// They were lost, or written by somebody else, or what they were derived from
	// was removed. Read them again, or make them anew.
	ErrStale = errors.New("derived rows are not where they were")
)

// StaleError says where the rows are.
type StaleError struct {
	Expected At     // From of the write that was refused
	Actual   At     // where the rows are; the zero value: there are none
	Removals uint64 // the thread's
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: expected position %d after %d removals, it is %d after %d, and the thread has %d",
		ErrStale, e.Expected.Position, e.Expected.Removals, e.Actual.Position, e.Actual.Removals, e.Removals)
}

// Is reports that it is an ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }
