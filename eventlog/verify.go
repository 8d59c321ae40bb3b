package eventlog

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/agstore/agstore/agui"
)

// Verifier is a log that can look for damage in what it stores.
type Verifier interface {
	// Verify looks at all that the log stores, or at one thread, and yields
	// every fault it finds: it goes on behind each. An error ends it; it says
	// that looking failed, not that something is damaged. Writes go on
	// meanwhile: each thread is looked at as it was at one moment, and what is
	// committed after Verify was called may or may not be among it.
	Verify(ctx context.Context, opts VerifyOptions) iter.Seq2[Fault, error]
}

// VerifyOptions say what is looked at. The zero value: all.
type VerifyOptions struct {
	// Thread is the only thread to look at; nil: all of them, and what belongs to
	// none.
	Thread *ThreadKey
	// Progress, if given, is called now and then with what was done so far.
	Progress func(VerifyProgress)
}

// VerifyProgress counts what was looked at.
type VerifyProgress struct {
	Threads int    `json:"threads"`
	Records uint64 `json:"records"`
	Commits uint64 `json:"commits"`
	Bytes   uint64 `json:"bytes"` // of records and entries, as stored
}

// Fault is one place where what is stored is not what was written, or does not
// agree with the rest.
type Fault struct {
	Kind FaultKind
	// Thread is the thread concerned; zero: none, or it is not known which.
	Thread ThreadKey
	// Seq is the record concerned, the first of those up to To; 0: none.
	Seq, To uint64
	// Companion: Seq and To are of the companion stream, and mean its entries.
	Companion bool
	// Position is the commit concerned, the first of those up to PositionTo; 0:
	// none.
	Position, PositionTo uint64
	// Run is the run concerned; the zero key: none.
	Run agui.RunKey
	// Place says where it is for those who look into the store itself: a key, a
	// range of keys, or a file.
	Place string
	// Detail says what was found, and what should have been.
	Detail string
	// Derived: what is wrong follows from records and commits that are sound, so
	// that it can be written anew.
	Derived bool
}

// String is the fault on one line.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(string(f.Kind))
	if f.Thread.Thread != "" {
		fmt.Fprintf(&b, " scope %q thread %q", f.Thread.Scope, f.Thread.Thread)
	}
	what := "seq"
	if f.Companion {
		what = "companion seq"
	}
	span := func(what string, from, to uint64) {
		if from == 0 {
			return
		}
		fmt.Fprintf(&b, " %s %d", what, from)
		if to > from {
			fmt.Fprintf(&b, " to %d", to)
		}
	}
	span(what, f.Seq, f.To)
	span("position", f.Position, f.PositionTo)
	if !f.Run.IsZero() {
		fmt.Fprintf(&b, " run %q", f.Run)
	}
	if f.Place != "" {
		fmt.Fprintf(&b, " (%s)", f.Place)
	}
	fmt.Fprintf(&b, ": %s", f.Detail)
	return b.String()
}

// FaultKind is what kind of fault it is: a stable code.
type FaultKind string

// The kinds of faults.
const (
	FaultValue           FaultKind = "undecodable_value"     // bytes that are no value
	FaultVersion         FaultKind = "unknown_version"       // a value of a newer version
	FaultChecksum        FaultKind = "wrong_checksum"        // a record or entry whose checksum is wrong
	FaultMissing         FaultKind = "missing_record"        // a hole in the seqs of a thread
	FaultMissingCommit   FaultKind = "missing_commit"        // a hole in the positions
	FaultStray           FaultKind = "record_without_commit" // a record or entry that no commit wrote
	FaultEmptyCommit     FaultKind = "commit_without_record" // a commit whose records or entries are gone
	FaultCommit          FaultKind = "commit_mismatch"       // a commit that says other things than its records
	FaultChain           FaultKind = "chain_mismatch"        // records that were changed, put in, taken out or moved
	FaultRecord          FaultKind = "impossible_record"     // a record that cannot be where it is
	FaultRemains         FaultKind = "remains"               // content that should have been removed
	FaultThread          FaultKind = "thread_row"            // what is stored of a thread
	FaultName            FaultKind = "name_index"            // by which threads are found
	FaultRun             FaultKind = "run_row"               // what is stored of a run
	FaultLease           FaultKind = "lease"                 // a lease without a run that is held, or the reverse
	FaultIdempotency     FaultKind = "idempotency_key"       // a key of an append that never was
	FaultIdempotencyTime FaultKind = "idempotency_time"      // by which old keys are found
	FaultStore           FaultKind = "store_row"             // what is stored of the store
	FaultShort           FaultKind = "log_is_short"          // the log ends before what was closed with it
	FaultUnknownKey      FaultKind = "unknown_key"           // a key that no version writes
	FaultBlock           FaultKind = "unreadable_block"      // part of a file cannot be read
	FaultView            FaultKind = "view_mismatch"         // what was derived from the log and kept is not sound, or not what the records say
)

// FaultKinds lists the kinds of faults.
func FaultKinds() []FaultKind {
	return []FaultKind{
		FaultValue, FaultVersion, FaultChecksum, FaultMissing, FaultMissingCommit, FaultStray, FaultEmptyCommit, FaultCommit,
		FaultChain, FaultRecord, FaultRemains, FaultThread, FaultName, FaultRun, FaultLease, FaultIdempotency,
		FaultIdempotencyTime, FaultStore, FaultShort, FaultUnknownKey, FaultBlock, FaultView,
	}
}

// Meaning says in a sentence what the kind of fault means for who has the store.
func (k FaultKind) Meaning() string {
	switch k {
	case FaultValue, FaultChecksum:
		return "bytes of it changed on the disk, or were written by something else; what it said is lost, unless a backup has it"
	case FaultVersion:
		return "a newer version of agstore wrote it, or its first byte changed"
	case FaultMissing, FaultEmptyCommit:
		return "records that were acknowledged are gone; a backup may have them"
	case FaultMissingCommit, FaultShort:
		return "commits that were acknowledged are gone; a backup may have them"
	case FaultStray, FaultCommit, FaultChain, FaultRecord:
		return "somebody or something other than agstore changed the log; do not trust the records named"
	case FaultRemains:
		return "content that was erased or cleared is still stored; erase or clear the thread again"
	case FaultThread, FaultName, FaultRun, FaultLease, FaultIdempotencyTime:
		return "an index does not agree with the log; agstore verify --repair writes it anew where it follows from sound records"
	case FaultIdempotency:
		return "an append repeated with this key may be answered wrongly"
	case FaultStore:
		return "what this store is cannot be read"
	case FaultUnknownKey:
		return "something other than agstore wrote into the store"
	case FaultBlock:
		return "a part of a file cannot be read back; what lay there is lost, unless a backup has it"
	case FaultView:
		return "a view, or what else was derived from the log and kept, is wrong; it is made anew when the store is opened again"
	}
	return "a fault of a kind that this version does not know"
}

// Mended is one thing that a repair has written or removed.
type Mended struct {
	Fault Fault
	// Action says what was done about it.
	Action string
}
