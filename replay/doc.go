// Package replay reads a thread back: what it looked like at any point, which
// records led there, and at what pace they came.
//
// A [Point] is the head of a thread, a run, or a seq. [View] folds the lineage
// that leads to it, [Records] yields it, [Pace] yields records at the speed at
// which they were recorded. [Snapshot] makes a short stream that brings an AG-UI
// client to a view, so that it can go on from the middle. [Diff] says what makes
// one view of another.
//
//	view, err := replay.View(ctx, log, thread, replay.AtRun(key), fold.Options{})
//
// Nothing here changes a log. A branch is begun by starting a run with a parent
// that is not the head.
package replay
