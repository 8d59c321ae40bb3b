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
// How a write goes. Callers check and copy their events and hand them to one
// committer. It takes all that waits, of all threads, gives out seqs, positions
// and runs, and applies one Pebble batch; a few such batches may be under way. A
// second goroutine waits for their syncs in order, and only then publishes: it
// moves the watermark, updates what readers see of each thread, and answers.
//
// How a read goes. A thread's description, its runs and the seq up to which it
// may be read come from its published state, never from Pebble, where a write
// that failed to sync is visible all the same. No Pebble iterator is held while
// a caller looks at records.
//
// After a write error the log takes no more writes ([eventlog.ErrUnavailable]
// with the cause) until it is opened again; reads go on.
//
// Keys and values are described in docs/format.md.
package pebblelog
