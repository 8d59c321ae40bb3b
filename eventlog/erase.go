package eventlog

import (
	"errors"
	"fmt"
	"time"

	"github.com/agstore/agstore/agui"
)

// The kinds of failure that removed content brings.
var (
	// ErrErased: the thread was erased ([ErasedError]), or the idempotency key
	// was used for what was removed since ([KeyErasedError]).
	ErrErased = errors.New("erased")
	// ErrGap: records that were asked for were removed ([GapError]).
	ErrGap = errors.New("history was removed")
)

// ErasedError says when a thread was erased, and why.
type ErasedError struct {
	Time   time.Time // of the commit, UTC
	Reason string    // as given to Erase
}

func (e *ErasedError) Error() string {
	text := fmt.Sprintf("%v at %s", ErrErased, e.Time.UTC().Format(time.RFC3339))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Is reports that it is an ErrErased.
func (e *ErasedError) Is(target error) bool { return target == ErrErased }

// KeyErasedError: an idempotency key comes again whose append was made, and
// removed since. It is not made again.
type KeyErasedError struct {
	Key         string
	First, Last uint64 // what the key was used for
}

func (e *KeyErasedError) Error() string {
	return fmt.Sprintf("what key %q was used for (seq %d to %d) was appended, and %v since", e.Key, e.First, e.Last, ErrErased)
}

// Is reports that it is an ErrErased.
func (e *KeyErasedError) Is(target error) bool { return target == ErrErased }

// GapError: records of a thread were removed. It is no end: a sequence that
// yields it goes on behind the gap, if its reader does.
type GapError struct {
	From, To uint64  // the seqs that are missing
	Reason   Removal // what removed them
}

func (e *GapError) Error() string {
	return fmt.Sprintf("%v: seq %d to %d (%v)", ErrGap, e.From, e.To, e.Reason)
}

// Is reports that it is an ErrGap.
func (e *GapError) Is(target error) bool { return target == ErrGap }

// Removal is a way in which content is removed from a thread.
type Removal uint8

// The ways of removal.
const (
	RemovalErase  Removal = iota + 1 // all of the thread; a tombstone stays
	RemovalClear                     // all of the thread until now; it goes on
	RemovalRedact                    // what one message says
)

func (r Removal) String() string {
	switch r {
	case RemovalErase:
		return "erase"
	case RemovalClear:
		return "clear"
	case RemovalRedact:
		return "redact"
	}
	return "unknown"
}

// MarshalText gives the removal in words.
func (r Removal) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText gave.
func (r *Removal) UnmarshalText(text []byte) error {
	for _, known := range []Removal{RemovalErase, RemovalClear, RemovalRedact} {
		if known.String() == string(text) {
			*r = known
			return nil
		}
	}
	return &Error{Op: "read a removal", Err: ErrInvalid, Hint: "removals are erase, clear and redact"}
}

// RemoveOptions say how content is removed.
type RemoveOptions struct {
	// Reason and Actor are kept in the receipt: why, and who asked for it. At
	// most 1,024 bytes each, text. They outlive the content.
	Reason, Actor string
	// DryRun removes nothing: the receipt says what would go.
	DryRun bool
	// TakeOver lets Clear remove a run that is being written, whose writer then
	// gets ErrFenced, and Redact change what such a run has said, whose writer
	// goes on; without it they are refused with ErrRunActive. Erase always takes
	// over.
	TakeOver bool
	// Expect makes the removal conditional on the thread's last seq.
	Expect Expect
}

// Redaction names the message to redact: by its id, or by the seq of a record
// that carries it and no other.
type Redaction struct {
	Message string // its id; counts if Seq is 0
	Seq     uint64
}

// Receipt says what a removal removed, and from where.
type Receipt struct {
	Thread   ThreadKey
	Number   uint64 // 1, 2, 3 … of the thread; 0: of a dry run
	Removal  Removal
	Time     time.Time // of the commit from which on nobody sees the content
	Position uint64    // of that commit
	Reason   string
	Actor    string
	// Created is when the thread was created.
	Created time.Time
	// Generation is the one that was removed or redacted.
	Generation uint64
	// Message is the id of the message that was redacted.
	Message string
	// First and Last are the seqs of the first and the last record concerned; 0:
	// there was none.
	First, Last uint64
	// FirstPosition and LastPosition are those of the commits that wrote them.
	FirstPosition, LastPosition uint64
	// Places is what was removed, by place. It is complete once the receipt is
	// Removed, and of a dry run.
	Places []Place
	// Removed: the store holds the content no more. Gone: it is in none of the
	// store's files any more, since then; zero: not yet.
	Removed bool
	Gone    time.Time
	// DiskBytes is about what it took in the store's files, compressed.
	DiskBytes uint64
	// Holders are the places that still hold content of it and that the store
	// knows of. What it cannot know of are copies: backups, exports.
	Holders []string
}

// Place is what a removal found in one place. The names are PlaceRecords and
// the others.
type Place struct {
	Name  string
	Count uint64 // how many
	Bytes uint64 // of the values as stored, before the files' compression
}

// The places of a receipt.
const (
	PlaceRecords   = "records"
	PlaceRuns      = "runs"
	PlaceKeys      = "idempotency keys"
	PlaceCompanion = "companion entries"
	PlaceDerived   = "derived rows"
)

// Place gives what was removed from the place of that name.
func (r Receipt) Place(name string) Place {
	for _, p := range r.Places {
		if p.Name == name {
			return p
		}
	}
	return Place{Name: name}
}

// RedactedText is what a redacted message says.
const RedactedText = agui.RedactedText
