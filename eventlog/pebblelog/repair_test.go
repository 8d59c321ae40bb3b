package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

func mended(t *testing.T, fs vfs.FS) (out []eventlog.Mended) {
	t.Helper()
	for m, err := range Repair(context.Background(), "store", Options{FS: fs}, eventlog.VerifyOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// logRows are the rows that no repair may touch.
func logRows(t *testing.T, fs vfs.FS) string {
	t.Helper()
	db, err := pebble.Open("store", engineOptions(Options{}.withDefaults(), nil, fs, newTraffic(), func(error) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var out bytes.Buffer
	for ok := it.First(); ok; ok = it.Next() {
		switch it.Key()[0] {
		case prefixRecord, prefixCommit, prefixKey, prefixCompanion, prefixReceipt:
			out.Write(it.Key())
			out.Write(it.Value())
		}
	}
	return out.String()
}

// A repair writes what is derived, and nothing else: afterwards there is no such
// fault, and the log is byte for byte what it was. What it mends wholly can be
// opened and is what it had been.
func TestRepair(t *testing.T) {
	for _, test := range spoilings() {
		if strings.HasPrefix(test.name, "the store") {
			continue // such a store is refused
		}
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			fs := vfs.NewMem()
			l := verified(t, fs)
			test.spoil(&spoiling{t: t, l: l, d: newDecoder(), e: newEncoder()})
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			before := logRows(t, fs)
			first := mended(t, fs)
			if len(first) == 0 {
				t.Fatal("nothing was found")
			}
			for _, m := range first {
				t.Log(m.Fault, "=>", m.Action)
				if m.Fault.Derived != (m.Action != "") {
					t.Errorf("%v: did %q", m.Fault, m.Action)
				}
			}
			second := mended(t, fs)
			for _, m := range second {
				if m.Action != "" || test.mends {
					t.Errorf("found again: %v => %s", m.Fault, m.Action)
				}
			}
			if logRows(t, fs) != before {
				t.Error("the log was changed")
			}
			if !test.mends {
				return
			}
			l = fixtureOpen(t, Options{FS: fs})
			defer l.Close()
			clean(t, l)
			runs, err := l.Runs(context.Background(), eventlog.ThreadKey{Scope: "s", Thread: "t"})
			if err != nil || len(runs) != 4 || runs[2].Parent != runs[0].Key && test.name != "a run's row that cannot be read" || !runs[1].Parent.IsZero() && !strings.Contains(test.name, "parent") {
				t.Errorf("runs %+v, %v", runs, err)
			}
			for _, r := range runs {
				if r.Running() && test.name != "the last run's row is gone" && !strings.Contains(test.name, "lease that") {
					t.Errorf("run %v is still open", r.Key)
				}
			}
		})
	}
}

func TestRepairNeedsAStoreOfItsOwn(t *testing.T) {
	fs := vfs.NewMem()
	l := verified(t, fs)
	for _, err := range Repair(context.Background(), "store", Options{FS: fs}, eventlog.VerifyOptions{}) {
		if err == nil {
			t.Error("an open store was repaired")
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, err := range Repair(context.Background(), dir, Options{}, eventlog.VerifyOptions{}) {
		if err == nil || errors.Is(err, eventlog.ErrLocked) {
			t.Errorf("no store: %v", err)
		}
	}
	if ok, err := Exists(dir); ok || err != nil {
		t.Errorf("a repair has made a store: %v", err)
	}
}
