// Package agstore keeps AG-UI conversations: every event of a thread goes to a
// durable log, and transcript, state and pending interrupts are folded from it.
// A conversation survives restarts, can be followed live, and can be replayed
// or branched from any run.
//
//	store, err := agstore.Open("agstore-data", agstore.Options{})
//	if err != nil { … }
//	defer store.Close()
//	scope := store.Scope(agstore.DefaultScope)
//	run, err := scope.BeginRun(ctx, "thread-1", agstore.RunInput{Messages: turn})
//	for event := range agent(ctx) {
//		if err := run.Enqueue(ctx, event); err != nil { … }
//	}
//	err = run.End(ctx, "AGENT_CUT", "the agent left without an end")
//	view, err := scope.View(ctx, "thread-1")
//
// A [Store] is one directory, or memory in tests. A [Scope] is one tenant or
// user of it and has every call on threads. Errors are those of package
// eventlog.
package agstore
