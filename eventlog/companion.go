package eventlog

import "time"

// Entry is one entry of a thread's companion stream: what a product keeps beside
// the conversation, and what is no AG-UI event. A title, settings, a queue, a
// message that waits for the next run. The AG-UI log stays an AG-UI log.
//
// Entries are numbered 1, 2, 3 … without holes, by a seq of their own. They are
// as durable as records, are committed in the same order of positions, and are
// erased with the thread. The log gives them no meaning.
type Entry struct {
	Seq      uint64
	Position uint64    // of the commit that wrote it
	Time     time.Time // of the commit, UTC, in whole microseconds
	Kind     string    // what it is, for whoever reads the stream: 1 to 128 bytes of text
	Body     []byte    // as given: JSON, or anything else; may be empty
}

// CompanionBatch is what one append writes to a companion stream, atomically.
type CompanionBatch struct {
	// Entries to write, at least one. Kind and Body count.
	Entries []Entry
	// Expect makes the append conditional on the last seq of the companion
	// stream.
	Expect Expect
	// Key makes the append idempotent, as Batch.Key does. A thread's keys are
	// those of both streams: one used for records is a conflict here.
	Key string
}

// KindBytes is how long the kind of an entry may be.
const KindBytes = 128
