package pebblelog

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

func TestKeysSort(t *testing.T) {
	key := func(scope, thread string) []byte {
		return nameKey(eventlog.ThreadKey{Scope: scope, Thread: thread})
	}
	ordered := [][]byte{
		backupKey(1), backupKey(256), storeKey(),
		key("a", ""), key("a", "\x00"), key("a", "a"), key("a", "\xff\xff"), key("b", "a"), key("aa", "a"),
		threadRowKey(1), threadRowKey(256),
		recordKey(1, 1), recordKey(1, 255), recordKey(1, 256), recordKey(2, 1),
		runRowKey(1, 1), runRowKey(1, 256), runRowKey(2, 1),
		leaseKey(1, 1), commitKey(1), commitKey(1 << 40),
		idempotencyKey(1, "a"), keyTimeKey(1, 9, "z"), keyTimeKey(256, 1, "a"),
		companionKey(1, 1), companionKey(1, 256), companionKey(2, 1), receiptKey(1, 1), receiptKey(2, 1),
	}
	for i := 1; i < len(ordered); i++ {
		if bytes.Compare(ordered[i-1], ordered[i]) >= 0 {
			t.Errorf("% x does not sort before % x", ordered[i-1], ordered[i])
		}
	}
	if got := after([]byte{2, 0xff, 0xff}); !bytes.Equal(got, []byte{3}) {
		t.Errorf("after: % x", got)
	}
}

// Every value reads as it was written, and 50 encodings are one.
func TestValuesRoundTrip(t *testing.T) {
	e, d := newEncoder(), newDecoder()
	rapid.Check(t, func(rt *rapid.T) {
		u := func(name string) uint64 { return rapid.Uint64().Draw(rt, name) }
		i := func(name string) int64 { return rapid.Int64().Draw(rt, name) }
		s := func(name string) string { return string(rapid.SliceOf(rapid.Byte()).Draw(rt, name)) }
		n := func(name string) int { return rapid.IntRange(0, 1<<40).Draw(rt, name) }
		ord := func(name string) uint32 { return rapid.Uint32().Draw(rt, name) }
		digest := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "digest"))
		same := func(what string, got, want any, err error) {
			if err != nil || !reflect.DeepEqual(got, want) {
				rt.Fatalf("%s: %+v, %v; want %+v", what, got, err, want)
			}
		}
		th := threadRow{key: eventlog.ThreadKey{Scope: s("scope"), Thread: s("thread")}, created: i("created"), position: u("position"), runs: n("runs"), head: ord("head"), epoch: u("epoch"), lifecycle: lifecycle{generation: u("generation"), firstSeq: u("firstSeq"), firstRun: ord("firstRun"), state: state(rapid.Byte().Draw(rt, "state")), chainStart: u("chainStart")}}
		if rapid.Bool().Draw(rt, "chained") {
			th.chainKey = rapid.SliceOfN(rapid.Byte(), chainKeyBytes, chainKeyBytes).Draw(rt, "chainKey")
			th.chainBase = digest[:]
		}
		gotThread, err := d.thread(e.thread(th))
		same("thread", gotThread, th, err)
		run := runRow{
			run:    agui.Run{Key: agui.RunKey{ID: s("id"), Attempt: n("attempt")}, ParentSeq: u("parentSeq"), FirstSeq: u("first"), LastSeq: u("last"), EndSeq: u("end"), Events: u("events"), Status: agui.RunStatus(rapid.Byte().Draw(rt, "status"))},
			parent: ord("parent"), started: i("started"), ended: i("ended"), origin: eventlog.Origin(rapid.Byte().Draw(rt, "origin")),
			held: rapid.Bool().Draw(rt, "held"), epoch: u("epoch"), owner: s("owner"), digest: digest,
		}
		gotRun, err := d.runRow(e.runRow(&run))
		same("run", gotRun, run, err)
		c := commitRow{ord: u("ord"), first: u("first"), count: n("count"), time: i("time"), stream: stream(rapid.Byte().Draw(rt, "stream"))}
		if rapid.Bool().Draw(rt, "linked") {
			c.chain = digest[:]
		}
		gotCommit, err := d.commit(e.commit(c))
		same("commit", gotCommit, c, err)
		le := leaseRow{ttl: i("ttl"), expires: i("expires")}
		gotLease, err := d.lease(e.lease(le))
		same("lease", gotLease, le, err)
		k := keyRow{first: u("first"), last: u("last"), digest: digest, position: u("position"), time: i("time")}
		gotKey, err := d.key(e.key(k))
		same("key", gotKey, k, err)
		ba := backupRow{time: i("time"), position: u("position"), upTo: u("upTo"), dir: s("dir"), incarnation: s("incarnation"), format: u("format")}
		gotBackup, err := d.backup(e.backup(ba))
		same("backup", gotBackup, ba, err)
		st := storeRow{format: u("format"), incarnation: s("incarnation"), created: i("created")}
		gotStore, err := d.store(e.store(st))
		same("store", gotStore, st, err)
		h := recordHeader{position: u("position"), time: i("time"), run: ord("run"), typ: agui.Type(s("type")), origin: eventlog.Origin(rapid.Byte().Draw(rt, "origin")), flags: rapid.Byte().Draw(rt, "flags")}
		if rapid.Bool().Draw(rt, "known") {
			h.typ = rapid.SampledFrom(agui.Types()).Draw(rt, "type")
		}
		if h.flags&flagRedacted != 0 {
			h.redacted = digest
		}
		event := []byte(s("event"))
		value := bytes.Clone(e.record(&h, event))
		gotHeader, gotEvent, err := d.record(value)
		same("record", gotHeader, h, err)
		if !bytes.Equal(gotEvent, event) {
			rt.Fatalf("event %q, want %q", gotEvent, event)
		}
		if !bytes.Equal(e.record(&h, event), value) {
			rt.Fatal("two encodings differ")
		}
	})
}

func TestTypeNumbersAreComplete(t *testing.T) {
	for _, typ := range agui.Types() {
		if typeNumber(typ) == 0 {
			t.Errorf("%s has no number", typ)
		}
	}
}

// Whatever is flipped in a value, it is told or it reads as a value; nothing
// panics, and a record's fault is always told.
func TestDamagedValues(t *testing.T) {
	e, d := newEncoder(), newDecoder()
	h := recordHeader{position: 7, time: 1, run: 1, typ: "OTHER", flags: flagEcho}
	record := bytes.Clone(e.record(&h, []byte(`{"type":"OTHER"}`)))
	for at := range record {
		for bit := range 8 {
			bad := bytes.Clone(record)
			bad[at] ^= 1 << bit
			_, _, err := d.record(bad)
			if !errors.Is(damage(err), eventlog.ErrCorrupt) && !errors.Is(err, eventlog.ErrVersion) {
				t.Fatalf("byte %d bit %d: %v", at, bit, err)
			}
		}
		if _, _, err := d.record(record[:at]); err == nil {
			t.Fatalf("cut at %d: no error", at)
		}
	}
	row := bytes.Clone(e.thread(threadRow{key: eventlog.ThreadKey{Scope: "s", Thread: "t"}, runs: 2}))
	for at := range row {
		if _, err := d.thread(row[:at]); !errors.Is(damage(err), eventlog.ErrCorrupt) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		for b := range 256 {
			bad := bytes.Clone(row)
			bad[at] = byte(b)
			_, _ = d.thread(bad) // must return
		}
	}
	if _, err := d.thread(append(row, 0)); !errors.Is(damage(err), eventlog.ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
}

// What version 1 wrote is read: a thread in its first generation, a commit of
// records without a chain, a lease of the process that has the store.
func TestFirstFormatIsRead(t *testing.T) {
	e, d := newEncoder(), newDecoder()
	e.begin(7)
	e.text("s")
	e.text("t")
	e.time(5)
	e.uint(6)
	e.ordinal(2)
	e.run(1)
	e.uint(9)
	th, err := d.thread(e.finish())
	want := threadRow{key: eventlog.ThreadKey{Scope: "s", Thread: "t"}, created: 5, position: 6, runs: 2, head: 1, epoch: 9, lifecycle: lifecycle{firstSeq: 1}}
	if err != nil || !reflect.DeepEqual(th, want) {
		t.Errorf("thread: %+v, %v", th, err)
	}
	e.begin(4)
	e.uint(1)
	e.uint(2)
	e.ordinal(3)
	e.time(4)
	if c, err := d.commit(e.finish()); err != nil || !reflect.DeepEqual(c, commitRow{ord: 1, first: 2, count: 3, time: 4}) {
		t.Errorf("commit: %+v, %v", c, err)
	}
	if le, err := d.lease(e.empty()); err != nil || le != (leaseRow{}) {
		t.Errorf("lease: %+v, %v", le, err)
	}
	e.begin(3)
	e.time(4)
	e.uint(5)
	e.text("d")
	if b, err := d.backup(e.finish()); err != nil || b != (backupRow{time: 4, position: 5, upTo: math.MaxUint64, dir: "d"}) {
		t.Errorf("backup: %+v, %v", b, err)
	}
	e.beginVersion(2, 4)
	e.time(4)
	e.uint(5)
	e.uint(6)
	e.text("d")
	if b, err := d.backup(e.finish()); err != nil || b != (backupRow{time: 4, position: 5, upTo: 6, dir: "d"}) {
		t.Errorf("backup: %+v, %v", b, err)
	}
}
