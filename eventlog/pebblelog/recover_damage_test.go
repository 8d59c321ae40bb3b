package pebblelog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// One thread that is damaged does not keep a store from being opened: the
// listener hears of it, the runs of all others are closed, and they can be
// written to.
func TestRecoveryPassesByWhatIsDamaged(t *testing.T) {
	const threads, bad = 5, 3 // the third has ordinal 3
	row := newEncoder().thread(threadRow{key: eventlog.ThreadKey{Scope: "s", Thread: "3"}})
	later := append([]byte{99}, row[1:]...)
	for name, spoil := range map[string]func(s *spoiling){
		"Row":        func(s *spoiling) { s.set(threadRowKey(bad), row[:len(row)-1]) },
		"RowOfLater": func(s *spoiling) { s.set(threadRowKey(bad), later) },
		"NoRow":      func(s *spoiling) { s.delete(threadRowKey(bad)) },
		"Lease":      func(s *spoiling) { s.set(leaseKey(bad, 1), []byte{leaseVersion, 0x91, 1}) },
		"Record":     func(s *spoiling) { s.set(recordKey(bad, 1), []byte{valueVersion, 1, 2, 3, 4, 5}) },
		"NoRecord": func(s *spoiling) {
			for seq := range uint64(9) {
				s.delete(recordKey(bad, seq+1))
			}
		},
		"Run":  func(s *spoiling) { s.set(runRowKey(bad, 1), []byte{valueVersion}) },
		"Name": func(s *spoiling) { s.set(nameKey(eventlog.ThreadKey{Scope: "s", Thread: "3"}), []byte{valueVersion}) },
		"Keys": func(s *spoiling) {
			s.set([]byte{prefixLease, 1}, nil)
			s.set([]byte{prefixPending, 1}, nil)
			s.set(pendingKey(bad, 1), s.e.empty())
			s.delete(threadRowKey(bad))
		},
	} {
		t.Run(name, func(t *testing.T) { passesBy(t, threads, bad, spoil) })
	}
}

func passesBy(t *testing.T, threads, bad int, spoil func(s *spoiling)) {
	ctx := context.Background()
	fs := vfs.NewMem()
	l := fixtureOpen(t, Options{FS: fs})
	key := func(i int) eventlog.ThreadKey { return eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(i)} }
	for i := range threads {
		fixtureRun(t, l, "s", fmt.Sprint(i+1), "r")
	}
	spoil(&spoiling{t, l, newDecoder(), newEncoder()})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var recovered []string
	var told []error
	opts := Options{FS: fs}
	opts.Listener.RunRecovered = func(k eventlog.ThreadKey, _ agui.RunKey) { recovered = append(recovered, k.Thread) }
	opts.Listener.EngineError = func(err error) { told = append(told, err) }
	l = fixtureOpen(t, opts)
	defer l.Close()
	slices.Sort(recovered)
	if fmt.Sprint(recovered) != "[1 2 4 5]" {
		t.Errorf("recovered %v", recovered)
	}
	if len(told) == 0 {
		t.Error("nobody was told")
	}
	for _, err := range told {
		if !errors.Is(err, eventlog.ErrCorrupt) && !errors.Is(err, eventlog.ErrVersion) {
			t.Errorf("told: %v", err)
		}
	}
	for i := 1; i <= threads; i++ {
		_, err := l.Append(ctx, key(i), eventlog.Batch{Events: [][]byte{custom(1)}})
		if damaged := errors.Is(err, eventlog.ErrCorrupt) || errors.Is(err, eventlog.ErrVersion); damaged != (i == bad) || !damaged && err != nil {
			t.Errorf("append to thread %d: %v", i, err)
		}
	}
	if faults := faultsOf(t, l, eventlog.VerifyOptions{}); len(faults) == 0 {
		t.Error("verify finds nothing")
	}
}

// What is no damage is not passed by.
func TestOnlyDamageIsPassedBy(t *testing.T) {
	l := &Log{opts: Options{}.withDefaults()}
	for _, err := range []error{eventlog.ErrClosed, eventlog.ErrUnavailable, context.Canceled, pebble.ErrClosed} {
		if l.passBy(err) {
			t.Errorf("%v is passed by", err)
		}
	}
}
