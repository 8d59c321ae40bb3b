// Package eventlog is the contract of agstore's log, whatever engine keeps it.
//
// A [Log] holds threads. A thread is an append-only sequence of [Record]s,
// numbered 1, 2, 3 … without holes, and a tree of [Run]s. One append is one
// atomic [Commit]; commits of all threads are totally ordered by position.
//
// What every engine promises, and package logtest shows:
//
//   - Acknowledged is durable: an append that returned nil survives kill -9 and
//     power loss. Nothing that is not durable is ever read: readers, commits and
//     waiters stop at [Log.Watermark].
//   - Verbatim: the event read back is, byte for byte, the event given.
//   - Dense and atomic: a batch is wholly there or wholly absent.
//   - One writer per run: a [Writer] whose lease is gone gets [ErrFenced] and
//     changes nothing.
//   - A crash leaves the thread continuable: runs whose writer died with the
//     process are closed when the log is opened again, runs leased to a writer
//     elsewhere ([Holder]) when the lease expires, and not before.
//   - Scopes are walls.
//
// Beside its records a thread has a companion stream of [Entry] values, for what
// is no AG-UI event: a title, settings, what waits for the next run.
//
// An append that failed with anything but a refusal (a conflict, an invalid
// event …) has an unknown outcome: it may be found in the log once it has come
// back from the failure, or was opened again. An idempotency key settles it:
// repeat the append with the same key. For a [Writer] its Sync does.
package eventlog
