// Package projection keeps views of threads up to date as commits arrive.
//
// [Views] answers what a thread looks like now. It keeps the folds of the
// threads asked for most recently and, when asked again, folds only the records
// that have come since; a thread that is not among them is folded from its log.
// A view is always a function of the log: kept or folded afresh, it is the same.
//
//	views := projection.New(log, projection.Options{})
//	view, err := views.Head(ctx, thread)
package projection
