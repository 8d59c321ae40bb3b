package agstoretest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/replay"
)

// Open opens the store in dir, or one in memory if dir is empty, for the time of
// a test. See the package comment for what happens when the test is over. The
// test may close the store itself; one in a directory is opened again then, to
// be looked at.
func Open(t testing.TB, dir string, opts agstore.Options) *agstore.Store {
	t.Helper()
	opts.InMemory = opts.InMemory || dir == ""
	store, err := agstore.Open(dir, opts)
	if err != nil {
		t.Fatalf("open the store: %v", err)
	}
	logtest.Keep(t, func() string { return "store: " + dir }, func(to string) error {
		if opts.InMemory {
			return nil
		}
		return os.CopyFS(filepath.Join(to, "store"), os.DirFS(dir))
	})
	t.Cleanup(func() {
		for _, fault := range atEnd(store, dir, opts) {
			t.Errorf("the store, when the test is over: %v", fault)
		}
	})
	return store
}

// atEnd looks at a store, and closes it.
func atEnd(store *agstore.Store, dir string, opts agstore.Options) []error {
	ctx := context.Background()
	if _, err := store.Log().Wait(ctx, 0); errors.Is(err, eventlog.ErrClosed) {
		if opts.InMemory {
			return nil
		}
		if store, err = agstore.Open(dir, opts); errors.Is(err, eventlog.ErrLocked) {
			return nil // another one has it, whose end will come
		} else if err != nil {
			return []error{err}
		}
	}
	faults := Check(ctx, store)
	if err := store.Close(); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// Check lists what is wrong with a store that nobody writes to: what the log
// finds when it verifies itself, and views that are not what their threads' logs
// say.
func Check(ctx context.Context, store *agstore.Store) []error {
	log := store.Log()
	faults := logtest.Check(ctx, log)
	seen := make(map[eventlog.ThreadKey]bool)
	for c, err := range log.Commits(ctx, 0) {
		if err != nil {
			return append(faults, err)
		}
		if seen[c.Thread] {
			continue
		}
		seen[c.Thread] = true
		if err := sameView(ctx, store.Scope(c.Thread.Scope), c.Thread.Thread); err != nil {
			faults = append(faults, fmt.Errorf("thread %q of scope %q: %w", c.Thread.Thread, c.Thread.Scope, err))
		}
	}
	return faults
}

// sameView compares the kept view of a thread's head with one folded anew.
func sameView(ctx context.Context, scope *agstore.Scope, thread string) error {
	kept, err := scope.View(ctx, thread)
	if errors.Is(err, eventlog.ErrErased) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("its view: %w", err)
	}
	anew, err := scope.ViewAt(ctx, thread, replay.AtHead())
	if err != nil {
		return fmt.Errorf("its view, folded anew: %w", err)
	}
	if a, b := string(kept.AppendJSON(nil)), string(anew.AppendJSON(nil)); a != b {
		return fmt.Errorf("its view is\n%s\nfolded anew it is\n%s", a, b)
	}
	return nil
}
