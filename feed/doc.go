// Package feed publishes what a log has committed, in order, to those who
// follow it.
//
// A [Hub] watches one log. [Hub.Follow] yields the records of a thread, first
// what is stored, then what comes, as one sequence without a gap or a
// duplicate:
//
//	for record, err := range hub.Follow(ctx, thread, after) {
//		if err != nil {
//			return err
//		}
//		…
//	}
//
// Nothing is published before it is durable, and followers hold nothing up: a
// slow one reads what it missed from the log.
package feed
