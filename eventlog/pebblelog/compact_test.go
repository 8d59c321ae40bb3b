package pebblelog

import (
	"context"
	"reflect"
	"testing"

	"github.com/agstore/agstore/eventlog"
)

// Compaction packs tables anew that lie in the last level and have nothing to be
// merged with, and changes nothing that is read.
func TestCompact(t *testing.T) {
	ctx := context.Background()
	l, err := Open("d", Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	read := func() (out []eventlog.Record) {
		for r, err := range l.Read(ctx, k, eventlog.ReadOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, r)
		}
		return out
	}
	for range 8 {
		fill(t, l, k, 100)
		if err := l.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	records := read()
	for range 2 { // the second time nothing but packed tables is there
		before := tables(t, l)
		if err := l.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		for table := range tables(t, l) {
			if before[table] {
				t.Errorf("table %d is still there", table)
			}
		}
		if got := read(); !reflect.DeepEqual(got, records) {
			t.Error("other records than before")
		}
	}
	fill(t, l, k, 1)
	if n := len(read()); n != len(records)+1 {
		t.Errorf("%d records", n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Compact(ctx); err == nil {
		t.Error("a closed log was compacted")
	}
}

// tables are the numbers of the engine's tables.
func tables(t *testing.T, l *Log) map[uint64]bool {
	t.Helper()
	levels, err := l.db.SSTables()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[uint64]bool)
	for _, level := range levels {
		for _, table := range level {
			out[uint64(table.FileNum)] = true
		}
	}
	return out
}
