package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// faultsOf verifies a log.
func faultsOf(t *testing.T, l eventlog.Verifier, opts eventlog.VerifyOptions) (out []eventlog.Fault) {
	t.Helper()
	for f, err := range l.Verify(context.Background(), opts) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

func kindsOf(faults []eventlog.Fault) string {
	var out []string
	for _, f := range faults {
		out = append(out, string(f.Kind))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// clean fails the test for every fault of a log.
func clean(t *testing.T, l eventlog.Verifier) {
	t.Helper()
	for _, f := range faultsOf(t, l, eventlog.VerifyOptions{}) {
		t.Errorf("fault: %v", f)
	}
}

// verified is a store whose first thread, ordinal 1, has four runs, the last one
// held, in commits of several records; and a second thread.
func verified(t *testing.T, fs vfs.FS) *Log {
	t.Helper()
	l := fixtureOpen(t, Options{FS: fs})
	fixtureAppend(t, l, "s", "t", eventlog.Batch{Key: "k1"}, `{"type":"CUSTOM","name":"1"}`, `{"type":"CUSTOM","name":"2"}`, `{"type":"CUSTOM","name":"3"}`)
	fixtureAppend(t, l, "s", "u", eventlog.Batch{}, `{"type":"CUSTOM","name":"other"}`)
	fixtureAppend(t, l, "s", "t", eventlog.Batch{}, `{"type":"RUN_STARTED","runId":"a"}`, `{"type":"RUN_FINISHED","runId":"a"}`)
	fixtureAppend(t, l, "s", "t", eventlog.Batch{Parent: &agui.RunKey{}}, `{"type":"RUN_STARTED","runId":"b"}`, `{"type":"RUN_ERROR","message":"m"}`)
	fixtureAppend(t, l, "s", "t", eventlog.Batch{Parent: &agui.RunKey{ID: "a", Attempt: 1}}, `{"type":"RUN_STARTED","runId":"a"}`, `{"type":"RUN_FINISHED"}`)
	for _, title := range []string{"one", "two"} {
		entries := []eventlog.Entry{{Kind: "title", Body: []byte(title)}, {Kind: "note"}}
		if _, err := l.AppendCompanion(context.Background(), eventlog.ThreadKey{Scope: "s", Thread: "t"}, eventlog.CompanionBatch{Entries: entries}); err != nil {
			t.Fatal(err)
		}
	}
	fixtureRun(t, l, "s", "t", "held", `{"type":"CUSTOM","name":"x"}`)
	return l
}

func TestVerifyFindsNothing(t *testing.T) {
	l := verified(t, vfs.NewMem())
	defer l.Close()
	clean(t, l)
	if faults := faultsOf(t, l, eventlog.VerifyOptions{Thread: &eventlog.ThreadKey{Scope: "s", Thread: "t"}}); len(faults) != 0 {
		t.Error(faults)
	}
	for _, err := range l.Verify(context.Background(), eventlog.VerifyOptions{Thread: &eventlog.ThreadKey{Scope: "s", Thread: "none"}}) {
		if !errors.Is(err, eventlog.ErrThreadNotFound) {
			t.Errorf("a thread that is not there: %v", err)
		}
	}
	var last eventlog.VerifyProgress
	faultsOf(t, l, eventlog.VerifyOptions{Progress: func(p eventlog.VerifyProgress) { last = p }})
	if last.Threads != 2 || last.Records != 12 || last.Commits != 9 || last.Bytes == 0 {
		t.Errorf("progress %+v", last)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range l.Verify(ctx, eventlog.VerifyOptions{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}

// The fixtures are sound: as they were left, and once they are recovered.
func TestFixturesVerify(t *testing.T) {
	for _, version := range fixtureVersions {
		l := fixtureOpen(t, Options{FS: memoryOf(t, fixtureFiles(t, version)), Now: func() time.Time { return fixtureLater }})
		clean(t, l)
		fixtureGoesOn(t, l)
		if version >= FormatLifecycle {
			fixtureLifeGoesOn(t, l)
		}
		clean(t, l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// spoiling changes rows of a store as somebody could who has the engine and not
// the keys of chains.
type spoiling struct {
	t *testing.T
	l *Log
	d *decoder
	e *encoder
}

func (s *spoiling) set(key, value []byte) {
	s.t.Helper()
	if err := s.l.db.Set(key, value, pebble.Sync); err != nil {
		s.t.Fatal(err)
	}
}

func (s *spoiling) delete(key []byte) {
	s.t.Helper()
	if err := s.l.db.Delete(key, pebble.Sync); err != nil {
		s.t.Fatal(err)
	}
}

func (s *spoiling) get(key []byte) []byte {
	s.t.Helper()
	value, ok, err := s.l.get(key)
	if err != nil || !ok {
		s.t.Fatalf("key % x: %v, %v", key, ok, err)
	}
	return value
}

// record writes another record at a seq, with a checksum that is right.
func (s *spoiling) record(seq uint64, change func(h *recordHeader, event *[]byte)) {
	s.t.Helper()
	h, event, err := s.d.record(s.get(recordKey(1, seq)))
	if err != nil {
		s.t.Fatal(err)
	}
	event = bytes.Clone(event)
	change(&h, &event)
	s.set(recordKey(1, seq), s.e.record(&h, event))
}

func (s *spoiling) commit(position uint64, change func(r *commitRow)) {
	s.t.Helper()
	row, err := s.d.commit(s.get(commitKey(position)))
	if err != nil {
		s.t.Fatal(err)
	}
	change(&row)
	s.set(commitKey(position), s.e.commit(row))
}

func (s *spoiling) thread(change func(r *threadRow)) {
	s.t.Helper()
	row, err := s.d.thread(s.get(threadRowKey(1)))
	if err != nil {
		s.t.Fatal(err)
	}
	change(&row)
	s.set(threadRowKey(1), s.e.thread(row))
}

func (s *spoiling) run(run uint32, change func(r *runRow)) {
	s.t.Helper()
	row, err := s.d.runRow(s.get(runRowKey(1, run)))
	if err != nil {
		s.t.Fatal(err)
	}
	change(&row)
	s.set(runRowKey(1, run), s.e.runRow(&row))
}

// spoilings are changes to the store of verified, with the kinds of faults that
// each must yield, in order of their names.
func spoilings() []struct {
	name  string
	spoil func(s *spoiling)
	want  string
	mends bool // a repair leaves nothing of it
} {
	return []struct {
		name  string
		spoil func(s *spoiling)
		want  string
		mends bool
	}{
		{"a flipped byte of a record", func(s *spoiling) {
			value := s.get(recordKey(1, 2))
			value[len(value)-2] ^= 1
			s.set(recordKey(1, 2), value)
		}, "wrong_checksum", false},
		{"a record with another payload and a right checksum", func(s *spoiling) {
			s.record(2, func(_ *recordHeader, event *[]byte) { *event = []byte(`{"type":"CUSTOM","name":"7"}`) })
		}, "chain_mismatch", false},
		{"a record of another origin", func(s *spoiling) {
			s.record(2, func(h *recordHeader, _ *[]byte) { h.origin = eventlog.OriginStore })
		}, "chain_mismatch", false},
		{"two records that changed places", func(s *spoiling) {
			one, two := s.get(recordKey(1, 1)), s.get(recordKey(1, 2))
			s.set(recordKey(1, 1), two)
			s.set(recordKey(1, 2), one)
		}, "chain_mismatch", false},
		{"a record that is gone", func(s *spoiling) { s.delete(recordKey(1, 2)) }, "missing_record", false},
		{"the first record is gone", func(s *spoiling) { s.delete(recordKey(1, 1)) }, "missing_record", false},
		{"all records of a commit are gone", func(s *spoiling) {
			s.delete(recordKey(1, 4))
			s.delete(recordKey(1, 5))
		}, "commit_without_record missing_record", false},
		{"the last record is gone, of a commit of its own", func(s *spoiling) { s.delete(recordKey(1, 11)) }, "commit_without_record", false},
		{"the last records are gone, and with them the end of a run", func(s *spoiling) {
			s.delete(recordKey(1, 11))
			s.delete(recordKey(1, 10))
			s.delete(recordKey(1, 9))
		}, "commit_mismatch commit_without_record commit_without_record missing_record", false},
		{"a record was put in at the end", func(s *spoiling) {
			h := recordHeader{position: 9, time: 1, run: 4, typ: agui.TypeCustom}
			s.set(recordKey(1, 12), s.e.record(&h, []byte(`{"type":"CUSTOM"}`)))
		}, "commit_mismatch impossible_record", false},
		{"a commit was put in at the end", func(s *spoiling) {
			now := s.l.lastTime
			h := recordHeader{position: 10, time: now, run: 4, typ: agui.TypeCustom}
			s.set(recordKey(1, 12), s.e.record(&h, []byte(`{"type":"CUSTOM"}`)))
			s.set(commitKey(10), s.e.commit(commitRow{ord: 1, first: 12, count: 1, time: now, chain: make([]byte, 16)}))
		}, "chain_mismatch", false},
		{"a commit was put in at the end, without a chain value", func(s *spoiling) {
			now := s.l.lastTime
			h := recordHeader{position: 10, time: now, run: 4, typ: agui.TypeCustom}
			s.set(recordKey(1, 12), s.e.record(&h, []byte(`{"type":"CUSTOM"}`)))
			s.set(commitKey(10), s.e.commit(commitRow{ord: 1, first: 12, count: 1, time: now}))
		}, "chain_mismatch", false},
		{"two commits of a thread that changed places", func(s *spoiling) {
			// Runs a and b: their records with the positions and seqs of the other.
			move := func(seq uint64, to uint64) []byte {
				h, event, err := s.d.record(s.get(recordKey(1, seq)))
				if err != nil {
					s.t.Fatal(err)
				}
				other, _, err := s.d.record(s.get(recordKey(1, to)))
				if err != nil {
					s.t.Fatal(err)
				}
				h.position, h.time = other.position, other.time
				return bytes.Clone(s.e.record(&h, bytes.Clone(event)))
			}
			a, b, c, d := move(1, 4), move(2, 5), move(4, 1), move(5, 2)
			s.set(recordKey(1, 4), a)
			s.set(recordKey(1, 5), b)
			s.set(recordKey(1, 1), c)
			s.set(recordKey(1, 2), d)
		}, "chain_mismatch chain_mismatch impossible_record", false},
		{"a record that says another position", func(s *spoiling) {
			s.record(3, func(h *recordHeader, _ *[]byte) { h.position = 2 })
		}, "chain_mismatch commit_mismatch commit_mismatch", false},
		{"a record of a later time", func(s *spoiling) {
			s.record(3, func(h *recordHeader, _ *[]byte) { h.time++ })
		}, "impossible_record", false},
		{"a record of another type than its payload", func(s *spoiling) {
			s.record(2, func(h *recordHeader, _ *[]byte) { h.typ = agui.TypeRaw })
		}, "chain_mismatch impossible_record", false},
		{"a record whose payload is no event", func(s *spoiling) {
			s.record(2, func(_ *recordHeader, event *[]byte) { *event = []byte(`[]`) })
		}, "chain_mismatch impossible_record", false},
		{"a record of a run that has not started", func(s *spoiling) {
			s.record(2, func(h *recordHeader, _ *[]byte) { h.run = 9 })
		}, "chain_mismatch impossible_record", false},
		{"a value of the future", func(s *spoiling) { s.set(recordKey(1, 2), []byte{9, 0, 0, 0, 0, 0}) }, "unknown_version", false},
		{"an empty value", func(s *spoiling) { s.set(recordKey(1, 2), nil) }, "undecodable_value", false},
		{"a commit that is gone", func(s *spoiling) { s.delete(commitKey(4)) }, "missing_commit record_without_commit", false},
		{"the last commit is gone", func(s *spoiling) { s.delete(commitKey(9)) }, "missing_commit record_without_commit", false},
		{"a commit that cannot be read", func(s *spoiling) { s.set(commitKey(4), []byte{2, 0x96}) }, "undecodable_value", false},
		{"a commit with another count", func(s *spoiling) { s.commit(4, func(r *commitRow) { r.count = 3 }) }, "commit_mismatch", false},
		{"a commit with another first seq", func(s *spoiling) { s.commit(4, func(r *commitRow) { r.first = 5 }) }, "commit_mismatch", false},
		{"a commit of another thread", func(s *spoiling) { s.commit(4, func(r *commitRow) { r.ord = 2 }) }, "commit_mismatch", false},
		{"a commit of no thread", func(s *spoiling) { s.commit(4, func(r *commitRow) { r.ord = 99 }) }, "commit_mismatch", false},
		{"a commit with another chain value", func(s *spoiling) { s.commit(3, func(r *commitRow) { r.chain[0] ^= 1 }) }, "chain_mismatch chain_mismatch", false},
		{"a commit without its chain value", func(s *spoiling) { s.commit(3, func(r *commitRow) { r.chain = nil }) }, "chain_mismatch", false},
		{"another key of the chain", func(s *spoiling) { s.thread(func(r *threadRow) { r.chainKey[3] ^= 1 }) }, "chain_mismatch" + strings.Repeat(" chain_mismatch", 7), false},
		{"a flipped byte of a companion entry", func(s *spoiling) {
			value := s.get(companionKey(1, 1))
			value[len(value)-1] ^= 1
			s.set(companionKey(1, 1), value)
		}, "wrong_checksum", false},
		{"a companion entry with another body and a right checksum", func(s *spoiling) {
			h, _, err := s.d.entry(s.get(companionKey(1, 3)))
			if err != nil {
				s.t.Fatal(err)
			}
			s.set(companionKey(1, 3), s.e.entry(&h, []byte("six")))
		}, "chain_mismatch", false},
		{"a companion entry that is gone", func(s *spoiling) { s.delete(companionKey(1, 2)) }, "missing_record", false},
		{"the last companion entries are gone", func(s *spoiling) {
			s.delete(companionKey(1, 3))
			s.delete(companionKey(1, 4))
		}, "commit_without_record", false},
		{"a companion entry without a commit", func(s *spoiling) {
			s.set(companionKey(1, 5), s.e.entry(&entryHeader{position: 44, kind: "k"}, nil))
		}, "record_without_commit", false},
		{"a name that is gone", func(s *spoiling) { s.delete(nameKey(eventlog.ThreadKey{Scope: "s", Thread: "t"})) }, "name_index", true},
		{"a name that leads to another thread", func(s *spoiling) {
			s.set(nameKey(eventlog.ThreadKey{Scope: "s", Thread: "t"}), s.e.name(2))
		}, "name_index name_index", true},
		{"a second name of a thread", func(s *spoiling) {
			s.set(nameKey(eventlog.ThreadKey{Scope: "s", Thread: "v"}), s.e.name(1))
		}, "name_index", true},
		{"a name that leads nowhere", func(s *spoiling) {
			s.set(nameKey(eventlog.ThreadKey{Scope: "s", Thread: "v"}), s.e.name(77))
		}, "name_index", false},
		{"a name that cannot be read", func(s *spoiling) {
			s.set(nameKey(eventlog.ThreadKey{Scope: "s", Thread: "t"}), []byte{1})
		}, "name_index undecodable_value", true},
		{"a thread's row that is gone", func(s *spoiling) { s.delete(threadRowKey(1)) }, strings.Repeat("commit_without_record ", 8) + "name_index thread_row", false},
		{"a thread's row that cannot be read", func(s *spoiling) { s.set(threadRowKey(1), []byte{2, 1}) }, "undecodable_value", false},
		{"a thread with another number of runs", func(s *spoiling) { s.thread(func(r *threadRow) { r.runs = 7 }) }, "thread_row", true},
		{"a thread whose head is no run", func(s *spoiling) { s.thread(func(r *threadRow) { r.head = 7 }) }, "thread_row", true},
		{"a thread with a lower epoch", func(s *spoiling) { s.thread(func(r *threadRow) { r.epoch = 0 }) }, "thread_row", false},
		{"a thread that was created at another time", func(s *spoiling) { s.thread(func(r *threadRow) { r.created-- }) }, "thread_row", false},
		{"a thread of another name", func(s *spoiling) { s.thread(func(r *threadRow) { r.key.Thread = "tt" }) }, "name_index name_index", false},
		{"a run's row that is gone", func(s *spoiling) { s.delete(runRowKey(1, 1)) }, "run_row", true},
		{"the last run's row is gone", func(s *spoiling) { s.delete(runRowKey(1, 4)) }, "run_row", true},
		{"a run's row that cannot be read", func(s *spoiling) { s.set(runRowKey(1, 3), []byte{1}) }, "undecodable_value", true},
		{"a run of no records", func(s *spoiling) { s.set(runRowKey(1, 5), s.get(runRowKey(1, 1))) }, "run_row thread_row", false},
		{"a run with another status", func(s *spoiling) { s.run(1, func(r *runRow) { r.run.Status = agui.RunFailed }) }, "run_row", true},
		{"a run with another id", func(s *spoiling) { s.run(1, func(r *runRow) { r.run.Key.ID = "z" }) }, "run_row", true},
		{"a run with another number of records", func(s *spoiling) { s.run(1, func(r *runRow) { r.run.Events++ }) }, "run_row", true},
		{"a run with another end", func(s *spoiling) { s.run(1, func(r *runRow) { r.run.EndSeq++; r.ended++ }) }, "run_row", true},
		{"a run with a parent that started after it", func(s *spoiling) { s.run(1, func(r *runRow) { r.parent = 2 }) }, "run_row", true},
		{"a run that has ended and is held", func(s *spoiling) { s.run(1, func(r *runRow) { r.held = true }) }, "run_row", true},
		{"a lease that is gone", func(s *spoiling) { s.delete(leaseKey(1, 4)) }, "lease", true},
		{"a lease of a run that has ended", func(s *spoiling) { s.set(leaseKey(1, 1), s.e.lease(leaseRow{})) }, "lease", true},
		{"a lease of no run", func(s *spoiling) { s.set(leaseKey(1, 9), s.e.lease(leaseRow{})) }, "lease", true},
		{"a lease that cannot be read", func(s *spoiling) { s.set(leaseKey(1, 4), []byte{2}) }, "undecodable_value", true},
		{"a held run that says that nobody holds it", func(s *spoiling) { s.run(4, func(r *runRow) { r.held = false }) }, "run_row", true},
		{"a key of an append that never was", func(s *spoiling) {
			row := keyRow{first: 4, last: 9, position: 1, time: 5}
			s.set(idempotencyKey(1, keyName(1, "k2")), s.e.key(row))
			s.set(keyTimeKey(5, 1, keyName(1, "k2")), s.e.empty())
		}, "idempotency_key", false},
		{"a key that cannot be read", func(s *spoiling) { s.set(idempotencyKey(1, keyName(1, "k1")), []byte{1, 0x95}) }, "undecodable_value", false},
		{"a key that the index by time does not have", func(s *spoiling) {
			row, err := s.d.key(s.get(idempotencyKey(1, keyName(1, "k1"))))
			if err != nil {
				s.t.Fatal(err)
			}
			s.delete(keyTimeKey(row.time, 1, keyName(1, "k1")))
		}, "idempotency_time", true},
		{"an entry of that index without a key", func(s *spoiling) { s.set(keyTimeKey(5, 1, keyName(1, "none")), s.e.empty()) }, "idempotency_time", true},
		{"an unknown kind of key", func(s *spoiling) { s.set([]byte{0x7f, 1}, []byte{1}) }, "unknown_key", false},
		{"a key of a wrong length", func(s *spoiling) { s.set(append(recordKey(1, 2), 0), []byte{1}) }, "unknown_key", false},
		{"another kind of key of the store", func(s *spoiling) { s.set([]byte{prefixStore, 'z'}, []byte{1}) }, "unknown_key", false},
		{"the store's row is gone", func(s *spoiling) { s.delete(storeKey()) }, "store_row", false},
		{"the store is of the future", func(s *spoiling) {
			meta := s.l.meta
			meta.format = 99
			s.set(storeKey(), s.e.store(meta))
		}, "unknown_version", false},
	}
}

func TestVerifyFindsWhatWasSpoiled(t *testing.T) {
	for _, test := range spoilings() {
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			l := verified(t, vfs.NewMem())
			defer l.Close()
			test.spoil(&spoiling{t: t, l: l, d: newDecoder(), e: newEncoder()})
			faults := faultsOf(t, l, eventlog.VerifyOptions{})
			if got := kindsOf(faults); got != test.want {
				t.Errorf("found %q, want %q", got, test.want)
			}
			for _, f := range faults {
				t.Log(f)
				if f.Detail == "" || f.Kind.Meaning() == "" || f.Seq == 0 && f.Position == 0 && f.Place == "" {
					t.Errorf("it does not say where or what: %+v", f)
				}
			}
		})
	}
}

// Every fault is told, however many there are.
func TestVerifyDoesNotStopAtTheFirst(t *testing.T) {
	l := fixtureOpen(t, Options{FS: vfs.NewMem()})
	defer l.Close()
	key := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	fill(t, l, key, 1000)
	e := newEncoder()
	for seq := uint64(2); seq <= 1000; seq += 2 {
		if err := l.db.Set(recordKey(1, seq), e.empty(), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if faults := faultsOf(t, l, eventlog.VerifyOptions{}); len(faults) != 1000 { // each with its empty commit
		t.Errorf("%d faults", len(faults))
	}
	n := 0
	for range l.Verify(context.Background(), eventlog.VerifyOptions{}) {
		if n++; n == 3 {
			break
		}
	}
	fill(t, l, key, 1) // nothing of it is held
}

// While threads are written, verify sees none of it as a fault.
func TestVerifyWhileWriting(t *testing.T) {
	l := fixtureOpen(t, Options{FS: vfs.NewMem()})
	defer l.Close()
	ctx := context.Background()
	ended := make(chan struct{}, 3)
	for g := range 3 {
		go func() {
			defer func() { ended <- struct{}{} }()
			for n := range 150 {
				key := eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(g, "-", n%5)}
				start := fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":"%d"}`, n)
				w, err := l.BeginRun(ctx, key, eventlog.RunStart{Started: start})
				if err != nil {
					continue
				}
				_, _ = w.Append(ctx, custom(n), custom(n))
				_ = w.End(context.Background(), "STOP", "")
				_, _ = l.Append(ctx, key, eventlog.Batch{Events: [][]byte{custom(n)}, Key: fmt.Sprint(n)})
			}
		}()
	}
	for left := 3; left > 0; {
		clean(t, l)
		select {
		case <-ended:
			left--
		default:
		}
	}
	clean(t, l)
}

// Threads that were erased, cleared and redacted are sound, and what should be
// gone from them is found.
func TestVerifyWhatWasRemoved(t *testing.T) {
	ctx := context.Background()
	l := fixtureOpen(t, Options{FS: vfs.NewMem()})
	defer l.Close()
	names := []string{"erased", "cleared", "redacted"}
	for _, name := range names {
		fixtureEnd(t, fixtureRun(t, l, "s", name, "r", `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"secret"}`, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`), "STOP", "")
		fixtureAppend(t, l, "s", name, eventlog.Batch{Key: "k"}, `{"type":"CUSTOM","name":"x"}`)
		if _, err := l.AppendCompanion(ctx, eventlog.ThreadKey{Scope: "s", Thread: name}, eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "k"}}}); err != nil {
			t.Fatal(err)
		}
	}
	key := func(name string) eventlog.ThreadKey { return eventlog.ThreadKey{Scope: "s", Thread: name} }
	_, erased := l.Erase(ctx, key("erased"), eventlog.RemoveOptions{})
	_, cleared := l.Clear(ctx, key("cleared"), eventlog.RemoveOptions{})
	_, redacted := l.Redact(ctx, key("redacted"), eventlog.Redaction{Message: "m"}, eventlog.RemoveOptions{})
	if err := errors.Join(erased, cleared, redacted); err != nil {
		t.Fatal(err)
	}
	clean(t, l)
	for _, name := range names[1:] {
		fixtureEnd(t, fixtureRun(t, l, "s", name, "after", `{"type":"CUSTOM","name":"x"}`), "STOP", "")
		if _, err := l.AppendCompanion(ctx, key(name), eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "k"}}}); err != nil {
			t.Fatal(err)
		}
	}
	clean(t, l)
	e := newEncoder()
	h := recordHeader{position: 1, typ: agui.TypeCustom}
	for _, ord := range []uint64{1, 2} {
		if err := l.db.Set(recordKey(ord, 1), e.record(&h, []byte(`{"type":"CUSTOM"}`)), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	if got := kindsOf(faultsOf(t, l, eventlog.VerifyOptions{})); got != "remains remains" {
		t.Errorf("found %q", got)
	}
}
