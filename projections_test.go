package agstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/projection"
)

// counting are two projections: the records of each thread, and the threads of the
// scope with their numbers of records, as rows.
func counting(version int) []projection.Reducer {
	return []projection.Reducer{
		{Name: "count", Version: version, Reduce: func(state []byte, _ projection.Input) ([]byte, error) {
			n, _ := strconv.Atoi(string(state))
			return strconv.AppendInt(nil, int64(n+version), 10), nil
		}},
		{Name: "threads", Version: 1, Global: true, Rows: func(rows *projection.Rows, in projection.Input) error {
			old, _ := rows.Get(in.Thread.Thread)
			n, _ := strconv.Atoi(string(old))
			rows.Put(in.Thread.Thread, strconv.AppendInt(nil, int64(n+1), 10))
			return nil
		}},
	}
}

// A store keeps the projections it was opened with: their answers are of the
// scope, follow what is written and removed, and outlive it.
func TestProjections(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	event := []byte(`{"type":"CUSTOM","name":"x"}`)
	open := func(version int) (*agstore.Store, *agstore.Scope) {
		store, err := agstore.Open(dir, agstore.Options{Projections: counting(version)})
		if err != nil {
			t.Fatal(err)
		}
		return store, store.Scope("a")
	}
	store, a := open(1)
	look := func() string {
		t.Helper()
		all, err := store.Projections(ctx)
		if err != nil || len(all) != 2 {
			t.Fatal(all, err)
		}
		for _, st := range all {
			if err := store.WaitProjected(ctx, st.Name, store.Log().Watermark()); err != nil {
				t.Fatal(err)
			}
		}
		one, err := a.Projected(ctx, "count", "t1")
		if err != nil {
			t.Fatal(err)
		}
		out := "t1 has " + string(one.Value) + ","
		for row, err := range a.ProjectedRows(ctx, "threads", "", "") {
			if err != nil {
				t.Fatal(err)
			}
			out += fmt.Sprintf(" %s=%s", row.Key, row.Value)
		}
		return out
	}
	for range 3 {
		if _, err := a.Append(ctx, "t1", event, event); err != nil {
			t.Fatal(err)
		}
	}
	for _, scope := range []string{"a", "b"} {
		if _, err := store.Scope(scope).Append(ctx, "t2", event); err != nil {
			t.Fatal(err)
		}
	}
	if got := look(); got != "t1 has 6, t1=6 t2=1" {
		t.Error(got)
	}
	if row, err := store.Scope("b").ProjectedRow(ctx, "threads", "", "t2"); err != nil || string(row.Value) != "1" {
		t.Errorf("another scope: %+v, %v", row, err)
	}
	if _, err := a.Erase(ctx, "t2", eventlog.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if row, err := a.ProjectedRow(ctx, "threads", "", "t2"); err != nil || row.Value != nil {
		t.Errorf("an erased thread is still told of: %+v, %v", row, err)
	}
	if err := store.RebuildProjection(ctx, "threads", nil); err != nil {
		t.Fatal(err)
	}
	if got := look(); got != "t1 has 6, t1=6" {
		t.Error(got)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store, a = open(2)
	defer store.Close()
	if got := look(); got != "t1 has 12, t1=6" {
		t.Error(got)
	}
	_, state := a.Projected(ctx, "none", "t1")
	_, row := a.ProjectedRow(ctx, "none", "t1", "k")
	var rows error
	for _, rows = range a.ProjectedRows(ctx, "none", "t1", "") {
	}
	for i, err := range []error{state, row, rows, store.RebuildProjection(ctx, "none", nil), store.WaitProjected(ctx, "none", 1)} {
		if !errors.Is(err, eventlog.ErrNotFound) {
			t.Errorf("call %d for no projection: %v", i, err)
		}
	}
	if _, err := agstore.Open("", agstore.Options{InMemory: true, Projections: []projection.Reducer{{Name: "no function", Version: 1}}}); !errors.Is(err, eventlog.ErrInvalid) {
		t.Errorf("a projection that cannot be: %v", err)
	}
}
