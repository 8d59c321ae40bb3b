// Package projection keeps views of threads up to date as commits arrive.
//
// [Views] answers what a thread looks like now, or looked like at a run. It keeps
// the folds of the threads asked for most recently and, when asked again, folds
// only the records that have come since; for a thread that is not among them it
// reads the newest checkpoint of its lineage, where [Views.Run] has stored one
// behind the log, and folds what came after. A view is always a function of the
// log: kept, stored or folded afresh, it is the same.
//
//	views := projection.New(log, projection.Options{})
//	go views.Run(ctx, log) // stores views as commits arrive, until ctx ends
//	view, err := views.Head(ctx, thread)
//	page, err := views.Page(ctx, thread, projection.PageOptions{Count: 20})
//
// A [Reducer] is a projection of one's own: a function that makes a state of the
// records of each thread, or of all threads of a scope. [Keep] keeps such states
// beside the log while it is open: each record goes into each of them exactly
// once, whenever the process is killed, since a state is stored with the position
// of its last record in one atomic write. It is never ahead of what is durable,
// and [Reduced.WaitFor] waits for one's own write.
//
//   - A new Version, or [Reduced.Rebuild], makes all states anew in the background;
//     the old ones are answered with until that is done.
//   - What is removed from a thread goes from its state, which is made anew of what
//     is left. A global state is made anew too, or its reducer is told of the
//     removal, or ignores it ([Removals]).
//   - A reducer that fails or panics stops its projection, and nothing else.
//
// Each projection has one goroutine, which [Reducers.Close] ends, and holds in
// memory what it has changed since it last wrote: about 4 MiB at most, beside one
// commit and, with Reduce, the state itself, which is written whole each time.
package projection
