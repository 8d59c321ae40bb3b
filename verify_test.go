package agstore

import (
	"testing"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/projection"
)

// A kept view that is not what its records fold to is a fault of its thread, and
// of no other.
func TestVerifyComparesViews(t *testing.T) {
	store, err := Open("", Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	scope := store.Scope("s")
	start := []byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)
	for thread, state := range map[string]string{
		"sound": `{"type":"STATE_SNAPSHOT","snapshot":1}`,
		"wrong": `{"type":"STATE_SNAPSHOT","snapshot":"more than four bytes"}`,
	} {
		if _, err := scope.Append(t.Context(), thread, start, []byte(state)); err != nil {
			t.Fatal(err)
		}
	}
	faults := func() (found []eventlog.Fault) {
		for f, err := range store.Verify(t.Context(), eventlog.VerifyOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if f.Fault != nil {
				found = append(found, *f.Fault)
			}
		}
		return found
	}
	if found := faults(); len(found) != 0 {
		t.Fatalf("a sound store: %v", found)
	}
	// As if the views had been kept by a build that took less state.
	store.views = projection.New(store.log, projection.Options{Fold: fold.Options{Limits: fold.Limits{StateBytes: 4}}})
	found := faults()
	if len(found) == 0 {
		t.Fatal("nothing was found")
	}
	for _, f := range found {
		if f.Kind != eventlog.FaultView || f.Thread != scope.key("wrong") {
			t.Errorf("found %v", f)
		}
	}
}
