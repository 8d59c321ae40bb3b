package eventlog

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agstore/agstore/agui"
)

// The kinds of failure. Test with errors.Is; what is returned is an [*Error]
// around one of the typed errors of this package or one of these.
var (
	// ErrNotFound: what was named does not exist.
	ErrNotFound = errors.New("not found")
	// ErrThreadNotFound: the scope has no such thread. It is an ErrNotFound.
	ErrThreadNotFound = fmt.Errorf("thread %w", ErrNotFound)
	// ErrRunNotFound: the thread has no such run. It is an ErrNotFound.
	ErrRunNotFound = fmt.Errorf("run %w", ErrNotFound)
	// ErrConflict: the thread is not at the expected seq ([ConflictError]), or
	// the idempotency key was used for other events ([KeyConflictError]).
	ErrConflict = errors.New("conflict")
	// ErrRunExists: the thread has a run of that id already ([RunExistsError]).
	// It is an ErrConflict.
	ErrRunExists = fmt.Errorf("%w: the run exists", ErrConflict)
	// ErrRunActive: the run of the head is being written ([RunActiveError]).
	ErrRunActive = errors.New("a run is active")
	// ErrFenced: the lease is gone; nothing was written ([FencedError]).
	ErrFenced = errors.New("lease lost")
	// ErrLocked: another process holds the store ([LockedError]).
	ErrLocked = errors.New("the store is in use")
	// ErrInvalidEvent: bytes that are no event ([agui.InvalidEventError]).
	ErrInvalidEvent = agui.ErrInvalidEvent
	// ErrInvalid: an argument that cannot be used ([InvalidError]).
	ErrInvalid = errors.New("invalid argument")
	// ErrTooLarge: over one of the Limits ([TooLargeError]).
	ErrTooLarge = errors.New("too large")
	// ErrCorrupt: stored bytes are not what was written.
	ErrCorrupt = errors.New("the store is damaged")
	// ErrNoSpace: the disk is full.
	ErrNoSpace = errors.New("no space left for the store")
	// ErrUnavailable: the disk refuses what the log asks of it. After a write that
	// failed the log takes no others until the disk does again, reads go on. Or the
	// server that has the log cannot be reached.
	ErrUnavailable = errors.New("unavailable")
	// ErrVersion: written by a newer version of agstore ([VersionError]).
	ErrVersion = errors.New("unknown format version")
	// ErrReadOnly: the log was opened to be read only.
	ErrReadOnly = errors.New("opened to read only")
	// ErrClosed: the log, or what belongs to it, was closed.
	ErrClosed = errors.New("closed")
)

// Error is a failed operation: what was being done, where, and why.
type Error struct {
	Op   string // what was being done, as "append"
	Key  ThreadKey
	Run  agui.RunKey
	Seq  uint64 // the record concerned; 0: none
	Line int    // the event of the batch concerned, from 1; 0: none
	Err  error  // the cause
	Hint string // what to do, where something can be said
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Key.Thread != "" {
		fmt.Fprintf(&b, " thread %q", e.Key.Thread)
	}
	if !e.Run.IsZero() {
		fmt.Fprintf(&b, " run %q", e.Run)
	}
	if e.Seq != 0 {
		fmt.Fprintf(&b, " seq %d", e.Seq)
	}
	if e.Line != 0 {
		fmt.Fprintf(&b, " event %d", e.Line)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// InvalidError says which argument cannot be used, and why.
type InvalidError struct {
	Reason string // as "the thread id is empty"
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%v: %s", ErrInvalid, e.Reason) }

// Is reports that it is an ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// ConflictError: the thread's last seq is not the expected one.
type ConflictError struct {
	Expected, Actual uint64
	// Run is the first run that was started behind the expected seq: who was
	// faster, as with the answer to an interrupt. The zero key: none was.
	Run   agui.RunKey
	Owner string // of its lease; empty: it never had one
}

func (e *ConflictError) Error() string {
	text := fmt.Sprintf("%v: expected last seq %d, it is %d", ErrConflict, e.Expected, e.Actual)
	if !e.Run.IsZero() {
		text += fmt.Sprintf("; run %q was started in between", e.Run)
	}
	if e.Owner != "" {
		text += " by " + e.Owner
	}
	return text
}

// Is reports that it is an ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// KeyConflictError: an idempotency key comes again with other events.
type KeyConflictError struct {
	Key         string
	First, Last uint64 // what the key was used for
}

func (e *KeyConflictError) Error() string {
	return fmt.Sprintf("%v: key %q was used for other events (seq %d to %d)", ErrConflict, e.Key, e.First, e.Last)
}

// Is reports that it is an ErrConflict.
func (e *KeyConflictError) Is(target error) bool { return target == ErrConflict }

// RunActiveError names the run that is in the way.
type RunActiveError struct {
	Run   agui.RunKey
	Owner string // who writes it, where that is known
}

func (e *RunActiveError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("%v: %q", ErrRunActive, e.Run)
	}
	return fmt.Sprintf("%v: %q, written by %s", ErrRunActive, e.Run, e.Owner)
}

// Is reports that it is an ErrRunActive.
func (e *RunActiveError) Is(target error) bool { return target == ErrRunActive }

// FencedError says what the lease was and what is true now.
type FencedError struct {
	Run     agui.RunKey
	Epoch   uint64         // of the lease that was refused; 0: none was asked for
	Current uint64         // of the lease that was given after it, if one was
	Owner   string         // whose that is
	Status  agui.RunStatus // of the run
}

func (e *FencedError) Error() string {
	switch {
	case e.Current > e.Epoch:
		return fmt.Sprintf("%v: run %q was taken over by %s (epoch %d, yours %d)", ErrFenced, e.Run, e.Owner, e.Current, e.Epoch)
	case e.Status == agui.RunRunning && e.Current > 0:
		return fmt.Sprintf("%v: run %q is written by %s (epoch %d, yours %d)", ErrFenced, e.Run, e.Owner, e.Current, e.Epoch)
	case e.Status == agui.RunRunning:
		return fmt.Sprintf("%v: nobody holds run %q", ErrFenced, e.Run)
	}
	return fmt.Sprintf("%v: run %q has ended (%v)", ErrFenced, e.Run, e.Status)
}

// Is reports that it is an ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// LockedError says who holds the store.
type LockedError struct {
	Dir   string
	PID   int
	Host  string
	Since time.Time // zero: it is not known
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%v: %s is held by another process", ErrLocked, e.Dir)
	}
	since := ""
	if !e.Since.IsZero() {
		since = " since " + e.Since.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%v: %s is held by process %d on %s%s", ErrLocked, e.Dir, e.PID, e.Host, since)
}

// Is reports that it is an ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// TooLargeError says what is over which limit.
type TooLargeError struct {
	What        string // "event", "batch", …
	Size, Limit int    // in bytes, or a count for "batch events" and "open runs"
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s %v: %d, the limit is %d", e.What, ErrTooLarge, e.Size, e.Limit)
}

// Is reports that it is an ErrTooLarge.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// RunExistsError: a run is to be started under an id that the thread has used.
type RunExistsError struct {
	Run         agui.RunKey
	Status      agui.RunStatus
	InputDigest [16]byte // of the run that has the id
}

func (e *RunExistsError) Error() string {
	return fmt.Sprintf("%v: %q (%v)", ErrRunExists, e.Run, e.Status)
}

// Is reports that it is an ErrRunExists, which is an ErrConflict.
func (e *RunExistsError) Is(target error) bool {
	return target == ErrRunExists || target == ErrConflict
}

// VersionError says which version was found and which is the newest known.
type VersionError struct {
	What         string // "store" or "value"
	Found, Known int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s in %v %d, the newest known is %d", e.What, ErrVersion, e.Found, e.Known)
}

// Is reports that it is an ErrVersion.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }
