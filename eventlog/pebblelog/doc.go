// Package pebblelog is the embedded engine of the log: an [eventlog.Log] in one
// directory, on Pebble.
//
//	log, err := pebblelog.Open("data", pebblelog.Options{})
//	if err != nil {
//		return err
//	}
//	defer log.Close()
//	done, err := log.Append(ctx, key, eventlog.Batch{Events: events})
//
// How a write goes. Callers check, copy and hash their events, each on its own
// processor, and put them into a queue. One goroutine, the committer, takes all
// that waits, of all threads, gives out seqs, positions and runs, and applies one
// Pebble batch: a group. A second one waits for the syncs of the groups in order,
// and only then publishes: it updates what readers see of each thread, moves the
// watermark, and answers, one wake-up for each call.
//
// What a call costs is mostly its share of a sync, so groups should be large. While
// the sync of one group is under way calls gather for the next, which is made when
// that sync is done, or earlier once some 128 wait: with few writers every sync
// carries all of them, with many the committer works while the disk does. Before
// a group is closed those that were just answered may run and come with their
// next call (queue.go). In the batch the rows of commits lie behind everything
// else: the engine applies keys faster that are in order. Calls, their copies of
// events and groups are used again, so an append allocates next to nothing.
//
// How a read goes. A thread's description, its runs and the seq up to which it
// may be read come from its published state, never from Pebble, where a write
// that failed to sync is visible all the same. No Pebble iterator is held while
// a caller looks at records.
//
// After a write error the log takes no more writes ([eventlog.ErrUnavailable]
// with the cause) until the disk does and it has reopened its files, which it
// tries by itself; reads go on.
//
// Keys and values are described in docs/format.md.
package pebblelog
