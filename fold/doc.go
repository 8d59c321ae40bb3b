// Package fold makes a session view out of AG-UI events: transcript, state,
// interrupts, runs, tool calls, steps, subagents, usage.
//
// A [Fold] is fed with [Record]s in order of their seqs and gives a [View] at
// any point. It is a function of the records alone: it reads no clock, makes no
// random ids, does no I/O, and a fold that went on from a point is the same as
// one from the beginning.
//
// There are two profiles. [Durable], the default, is for histories that must
// not lose a word: cut runs, late events, events out of place and ids used
// twice neither stop it nor harm what came before, and everything it had to
// decide is a [Diagnostic] on the view. [Reference] shows exactly what the
// official client shows. docs/fold.md lists where they differ.
//
//	f := fold.New(fold.Options{})
//	for _, r := range records {
//		f.Apply(fold.Record{Seq: r.Seq, Run: r.Run, Raw: r.Event})
//	}
//	view := f.View()
//	for i := range view.Messages {
//		fmt.Println(view.Messages[i].ID, view.Messages[i].Role)
//	}
//
// [Fold.Snapshot] and [Restore] store a fold at any point, in the middle of
// anything, so that it can go on from there: docs/fold-snapshot.md.
//
// [Stream] folds the lines of a file, which have no records yet.
package fold
