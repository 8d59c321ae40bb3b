package agstore

import (
	"bytes"
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

// A stored view that is not what its records fold to is found, though its rows
// are whole.
func TestVerifyFindsAWrongStoredView(t *testing.T) {
	store, err := Open("", Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, scope := t.Context(), store.Scope("s")
	var events [][]byte
	for _, e := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
		`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"what was really said"}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
	} {
		events = append(events, []byte(e))
	}
	if _, err := scope.Append(ctx, "t", events...); err != nil {
		t.Fatal(err)
	}
	if _, err := scope.View(ctx, "t"); err != nil { // stores it, if it is not yet
		t.Fatal(err)
	}
	rows := store.Log().(eventlog.Derived)
	space := eventlog.Space{Scope: "s", Thread: "t", Owner: "view"}
	at, err := rows.DerivedAt(ctx, space)
	if err != nil {
		t.Fatal(err)
	}
	wrong := eventlog.DerivedBatch{From: at, To: at}
	for row, err := range rows.DerivedScan(ctx, space, eventlog.ScanOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if value := bytes.Replace(row.Value, []byte("really"), []byte("hardly"), 1); !bytes.Equal(value, row.Value) {
			wrong.Changes = append(wrong.Changes, eventlog.DerivedChange{Key: row.Key, Value: value})
		}
	}
	if len(wrong.Changes) != 1 {
		t.Fatalf("the message is in %d rows", len(wrong.Changes))
	}
	if err := rows.DerivedWrite(ctx, space, wrong); err != nil {
		t.Fatal(err)
	}
	var found []eventlog.Fault
	for f, err := range store.Verify(ctx, eventlog.VerifyOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Fault != nil {
			found = append(found, *f.Fault)
		}
	}
	if len(found) != 1 || found[0].Kind != eventlog.FaultView {
		t.Errorf("found %v", found)
	}
}
