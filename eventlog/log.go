package eventlog

import (
	"context"
	"iter"
	"time"

	"github.com/agstore/agstore/agui"
)

// Log is a log of AG-UI threads. It is safe for concurrent use.
//
// Errors are of type [*Error] and wrap one of the sentinels of this package.
type Log interface {
	// Append writes a batch to a thread, which it creates if need be. When it
	// returns nil, the batch is durable.
	//
	// Refusals, with nothing written: ErrInvalidEvent, ErrTooLarge, ErrInvalid,
	// ErrConflict (expected seq, or the key with other events), ErrRunNotFound
	// (of an explicit run or parent), ErrRunActive (a run starts while the
	// head's run is held by a writer, or the batch would write into such a run),
	// ErrFenced (the batch has a lease, and it is gone).
	Append(ctx context.Context, thread ThreadKey, batch Batch) (Appended, error)

	// BeginRun starts a run by committing its RUN_STARTED and gives the lease
	// to write it. A run id that the thread has used, whatever became of its
	// run, is refused with ErrRunExists. If the head's run is still open and has
	// an owner, ErrRunActive; if it has none, or its lease has expired, it is
	// closed as abandoned first.
	BeginRun(ctx context.Context, thread ThreadKey, start RunStart) (Writer, error)

	// TakeRun gives a new lease, of a higher epoch, on a run that has not ended,
	// whoever holds it: to go on writing it, or to end it. Its former writer gets
	// ErrFenced, also for what it has enqueued and what is not yet committed.
	// ErrThreadNotFound, ErrRunNotFound, ErrFenced if the run has ended.
	TakeRun(ctx context.Context, thread ThreadKey, run agui.RunKey, holder Holder) (Writer, error)

	// Attach gives a writer for a lease that was given before, to this process
	// or another, before or after a restart. Thread, Run and Epoch say which.
	// ErrFenced if it is not the run's current lease, or the run has ended;
	// ErrThreadNotFound, ErrRunNotFound. It writes nothing and renews nothing.
	Attach(ctx context.Context, lease Lease) (Writer, error)

	// Read yields records in the order of their seqs, up to the end that was
	// durable when it was called. The records are the caller's to keep. If the
	// seqs asked for begin in what was removed, an ErrGap ([GapError]) comes
	// first, and behind it what there is, if the caller goes on.
	Read(ctx context.Context, thread ThreadKey, opts ReadOptions) iter.Seq2[Record, error]

	// Thread describes one thread; ErrThreadNotFound if there is none.
	Thread(ctx context.Context, thread ThreadKey) (Thread, error)

	// Threads yields the threads of a scope by id, beginning behind after.
	Threads(ctx context.Context, scope, after string) iter.Seq2[Thread, error]

	// Runs lists the runs of a thread in order of their starts.
	Runs(ctx context.Context, thread ThreadKey) ([]Run, error)

	// AppendCompanion writes a batch to the companion stream of a thread, which
	// it creates if need be. When it returns nil, the batch is durable. What it
	// gives back are seqs of the companion stream.
	//
	// Refusals, with nothing written: ErrInvalid, ErrTooLarge, ErrConflict.
	AppendCompanion(ctx context.Context, thread ThreadKey, batch CompanionBatch) (Appended, error)

	// Companion yields the entries of a thread's companion stream from seq from
	// (0 is 1) to seq to (0: the end that was durable when it was called). The
	// entries are the caller's to keep.
	Companion(ctx context.Context, thread ThreadKey, from, to uint64) iter.Seq2[Entry, error]

	// Erase removes a thread for good: from its commit on, before it returns,
	// every other call for the thread is ErrErased, its writers' included. What
	// stays is a tombstone: the ids, and the receipt. It waits until the content
	// is in none of the store's files, which goes on when ctx ends the wait; the
	// receipt says how far it is. Erasing again gives the first receipt.
	Erase(ctx context.Context, thread ThreadKey, opts RemoveOptions) (Receipt, error)

	// Clear removes all that a thread holds until now and begins a new
	// generation of it: seqs go on, ids of runs may be used anew, idempotency
	// keys of before are ErrErased. As Erase, it waits for the files. A run that
	// is being written is in the way (ErrRunActive) without opts.TakeOver.
	Clear(ctx context.Context, thread ThreadKey, opts RemoveOptions) (Receipt, error)

	// Redact replaces what one message says by a marker, in every record that
	// carries it ([agui.Redactor] says where it looks). Seqs, types, ids and runs
	// stay. It waits for the files, as Erase. ErrNotFound: no record carries such
	// a message. Redacting again gives the first receipt.
	Redact(ctx context.Context, thread ThreadKey, what Redaction, opts RemoveOptions) (Receipt, error)

	// Receipts yields the receipts of a thread, in their order, also of one that
	// was erased; of all threads of the scope, by thread, if thread is empty.
	Receipts(ctx context.Context, scope, thread string) iter.Seq2[Receipt, error]

	// Commits yields the durable commits of all scopes and threads, and of all
	// streams, from a position on.
	Commits(ctx context.Context, from uint64) iter.Seq2[Commit, error]

	// Watermark is the position up to which all is durable; 0 in a new log.
	Watermark() uint64

	// Wait returns once the watermark has reached position, with the watermark.
	// It ends with ErrClosed when the log is closed.
	Wait(ctx context.Context, position uint64) (uint64, error)

	// Incarnation names this log's life: a restored backup is another one.
	Incarnation() string

	// Close ends all waiting calls with ErrClosed and closes the log.
	Close() error
}

// ThreadKey names one thread of one scope.
type ThreadKey struct {
	Scope  string // 1 to 4,096 bytes, text
	Thread string // 1 to 4,096 bytes, text: UTF-8, or a lone surrogate in three bytes
}

// Batch is what one append writes, atomically.
type Batch struct {
	// Events are the events, each one JSON object with a type. None: the thread
	// is created, if need be, and nothing is written to it.
	Events [][]byte
	// Origin is who writes; OriginAppend or OriginImport.
	Origin Origin
	// Run says which run the events belong to, RUN_STARTED apart. The zero key:
	// as each event says (agui.Tracker).
	Run agui.RunKey
	// Parent places the first RUN_STARTED of the batch: the zero key before the
	// first run, else behind that run, which must have ended. nil: as the event
	// says, else behind the head.
	Parent *agui.RunKey
	// Expect makes the append conditional on the thread's last seq.
	Expect Expect
	// Key makes the append idempotent: repeated with the same events it answers
	// with the first seqs and writes nothing, with others it is a conflict.
	// Empty: none. At most 1,024 bytes; kept for 7 days.
	Key string
	// Lease writes the events under a lease, as [Writer.Append] does, and renews
	// it: Run, Parent and Origin are left zero then. Of the lease, Run and Epoch
	// count. A key that is known is answered also when the lease is gone.
	Lease *Lease
}

// Expect is a condition on a thread's last seq. The zero value is none.
type Expect struct {
	seq uint64
	set bool
}

// LastSeq is the condition that the thread's last seq is seq (0: the thread is
// empty or does not exist).
func LastSeq(seq uint64) Expect { return Expect{seq: seq, set: true} }

// Seq gives the expected last seq and whether there is a condition at all.
func (e Expect) Seq() (uint64, bool) { return e.seq, e.set }

// Appended says where an append went.
type Appended struct {
	First     uint64 // seq of the first record; 0 for an append of no events
	Last      uint64 // seq of the last record; of an append of no events the thread's last seq
	Position  uint64 // of the commit
	Duplicate bool   // the key was known: this is the answer to the first append
}

// RunStart is how a run begins.
type RunStart struct {
	// Started is the RUN_STARTED event to commit, with the run's id.
	Started []byte
	// Parent is the run to continue: nil for the head, the zero key for none.
	// It must be known and must have ended. What Started says of its parent
	// places nothing; if it names another run, the record is marked.
	Parent *agui.RunKey
	// Expect makes the start conditional on the thread's last seq.
	Expect Expect
	// InputDigest is kept with the run, so that a repeated start can be told
	// from another run of the same id.
	InputDigest [16]byte
	// Holder is who will write the run.
	Holder Holder
	// TakeOver closes what still runs in the lineage to be continued, with the
	// ends that it lacks and as abandoned, in the commit of the start, instead of
	// refusing it with ErrRunActive. Its writers get ErrFenced, naming the new
	// holder.
	TakeOver bool
}

// Holder is who holds a lease, and for how long.
type Holder struct {
	// Owner names the holder in the errors of others. Empty: this process, as
	// host/process. At most 4,096 bytes of text.
	Owner string
	// TTL is how long the lease lasts without being renewed: for a holder in
	// another process, which may die alone. Every append renews it, and so does
	// Writer.Renew. When it has expired, the log closes the run as abandoned; so
	// it does after a restart, and not before. From [MinTTL] to [MaxTTL].
	//
	// 0: the lease does not expire; it ends with the run, or with this process.
	TTL time.Duration
}

// The bounds of Holder.TTL.
const (
	MinTTL = 10 * time.Millisecond
	MaxTTL = 24 * time.Hour
)

// Writer writes one run, under a lease. It is safe for concurrent use.
type Writer interface {
	// Lease says which run it is and under which epoch.
	Lease() Lease
	// First is the seq of the run's RUN_STARTED.
	First() uint64
	// Append writes events of the run; durable when it returns nil. Whatever ids
	// they have, they are this run's: a RUN_STARTED is recorded as an echo, a
	// RUN_FINISHED or RUN_ERROR ends it. After that: ErrFenced.
	Append(ctx context.Context, events ...[]byte) (Appended, error)
	// Enqueue hands events over in order and returns without waiting for the
	// disk, unless too much is under way. nil means accepted, not acknowledged:
	// Sync says what became of them. An invalid event is refused at once and
	// leaves the writer usable.
	Enqueue(ctx context.Context, events ...[]byte) error
	// Sync waits until all that was enqueued is durable and gives the seq of
	// the writer's last durable record.
	Sync(ctx context.Context) (uint64, error)
	// Renew says that the holder is alive: the lease lasts its TTL from now. It
	// is a matter of the disk only now and then. ErrFenced if the lease is gone;
	// one that has expired cannot be renewed.
	Renew(ctx context.Context) (Lease, error)
	// End gives the lease back. If the run has no terminal event, it is closed
	// with the ends that it lacks and a RUN_ERROR of this code and message.
	// Ending twice changes nothing.
	End(ctx context.Context, code, message string) error
}

// Lease is the right to write a run.
type Lease struct {
	Thread ThreadKey
	Run    agui.RunKey
	Epoch  uint64 // grows with every lease given for a run of the thread
	Owner  string // who holds it
	// TTL is how long it lasts without being renewed; 0: it does not expire.
	TTL time.Duration
	// Expires is when it ends unless it is renewed; zero: it does not expire.
	// Not every renewal is on disk: after a restart of the log the end may come
	// up to half a TTL later, never earlier.
	Expires time.Time
}

// ReadOptions select records of a thread. The zero value: all.
type ReadOptions struct {
	From uint64 // the first seq; 0: the first that there is
	To   uint64 // the last seq; 0: to the end
	// Lineage: only the records of that run's lineage (agui.Lineage), and those
	// that belong to no run. nil: all records.
	Lineage *agui.RunKey
}

// Record is one event as stored.
type Record struct {
	Seq      uint64
	Position uint64    // of the commit that wrote it
	Time     time.Time // of the commit, UTC, in whole microseconds
	Run      agui.RunKey
	Type     agui.Type
	Origin   Origin
	Echo     bool // a RUN_STARTED of a run that had started already
	// UnknownParent: the record begins a run whose parentRunId is no pointer.
	UnknownParent bool
	Redacted      bool   // Event is what a redaction has left
	Event         []byte // verbatim, outer white space removed
}

// Origin is who wrote a record.
type Origin uint8

// The origins of records.
const (
	OriginAppend Origin = iota // a raw append, by a producer that keeps no lease
	OriginImport               // an import of a finished stream
	OriginAgent                // the writer of a run
	OriginStore                // the store: starts of runs and the ends they lacked
)

func (o Origin) String() string {
	switch o {
	case OriginAppend:
		return "append"
	case OriginImport:
		return "import"
	case OriginAgent:
		return "agent"
	case OriginStore:
		return "store"
	}
	return "unknown"
}

// MarshalText gives the origin in words.
func (o Origin) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText gave.
func (o *Origin) UnmarshalText(text []byte) error {
	for _, known := range []Origin{OriginAppend, OriginImport, OriginAgent, OriginStore} {
		if known.String() == string(text) {
			*o = known
			return nil
		}
	}
	return &Error{Op: "read an origin", Err: ErrInvalid, Hint: "origins are append, import, agent and store"}
}

// Thread describes a thread.
type Thread struct {
	Key     ThreadKey
	Created time.Time
	Updated time.Time // of the latest commit of records; of the clear, if that is later
	LastSeq uint64    // 0: no records
	Runs    int
	Head    agui.RunKey // the run to continue from; the zero key: none
	// CompanionSeq is the last seq of the companion stream; 0: it is empty.
	CompanionSeq uint64
	// Generation is how often the thread was cleared. Seqs below FirstSeq, 1 in
	// the first generation, are gone.
	Generation uint64
	FirstSeq   uint64
	// Removals is how many receipts there are: when it grows, what was derived
	// from the thread's records is to be derived anew.
	Removals uint64
}

// Run is one run of a thread, with what the log knows beside the tree.
type Run struct {
	agui.Run
	Started     time.Time
	Ended       time.Time // zero while it runs
	Origin      Origin    // of its RUN_STARTED
	Held        bool      // a writer holds it
	Epoch       uint64    // of its lease; 0 if it never had one
	Owner       string    // of its lease
	InputDigest [16]byte
}

// Tree is the runs without what only the log knows.
func Tree(runs []Run) []agui.Run {
	out := make([]agui.Run, len(runs))
	for i, r := range runs {
		out[i] = r.Run
	}
	return out
}

// Commit is one atomic append.
type Commit struct {
	Position uint64
	Thread   ThreadKey
	// Stream says of what it is: First and Count are records, entries of the
	// companion stream, or nothing.
	Stream Stream
	First  uint64 // seq of its first record or entry; 0: there is none
	Count  int    // how many; 0: the thread was created empty, or its Stream is StreamControl
	Time   time.Time
}

// Stream is what a commit is of.
type Stream uint8

// The streams of commits. Whoever follows records passes over the others.
const (
	StreamEvents    Stream = iota // records: AG-UI events
	StreamCompanion               // entries of the companion stream
	StreamControl                 // neither: something about the thread has changed, as the holder of a run
)

func (s Stream) String() string {
	switch s {
	case StreamEvents:
		return "events"
	case StreamCompanion:
		return "companion"
	case StreamControl:
		return "control"
	}
	return "unknown"
}

// Limits are the sizes beyond which an append is refused. A zero field has the
// default of DefaultLimits.
type Limits struct {
	IDBytes     int // bytes of a scope or a thread id; 4,096
	KeyBytes    int // bytes of an idempotency key; 1,024
	EventBytes  int // bytes of one event, and of one companion entry's body; 32 MiB
	BatchEvents int // events, or entries, of one batch; 10,000
	BatchBytes  int // bytes of all events, or entries, of one batch; 64 MiB
	OpenRuns    int // running runs of one thread; 1,000
}

// DefaultLimits are the limits of a log that was given none.
func DefaultLimits() Limits {
	return Limits{
		IDBytes:     4096,
		KeyBytes:    1024,
		EventBytes:  32 << 20,
		BatchEvents: 10_000,
		BatchBytes:  64 << 20,
		OpenRuns:    1000,
	}
}

// WithDefaults fills the zero fields.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ field, value *int }{
		{&l.IDBytes, &d.IDBytes},
		{&l.KeyBytes, &d.KeyBytes},
		{&l.EventBytes, &d.EventBytes},
		{&l.BatchEvents, &d.BatchEvents},
		{&l.BatchBytes, &d.BatchBytes},
		{&l.OpenRuns, &d.OpenRuns},
	} {
		if *f.field == 0 {
			*f.field = *f.value
		}
	}
	return l
}
