package pebblelog

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// What is hashed is what docs/format.md says, and the hash is HMAC-SHA-256.
func TestChainBytes(t *testing.T) {
	key := bytes.Repeat([]byte{7}, chainKeyBytes)
	before := chainValue{15: 9}
	row := commitRow{ord: 3, first: 11, count: 3, time: 1_896_000_000_000_000}
	records := []struct {
		h recordHeader
		e string
	}{
		{recordHeader{run: 2, typ: agui.TypeRunStarted, origin: eventlog.OriginStore, flags: flagUnknownParent}, "{1}"},
		{recordHeader{run: 2, typ: "NEW_TYPE", origin: eventlog.OriginAgent, flags: flagEcho | flagRedacted}, "{22}"},
		{recordHeader{typ: agui.TypeCustom}, ""},
	}
	var k link
	for range 2 { // a link can be used again
		k.reset()
		for i := range records {
			k.record(&records[i].h, payloadDigest([]byte(records[i].e)))
		}
		digest := func(s string) []byte { sum := sha256.Sum256([]byte(s)); return sum[:16] }
		var m []byte
		m = append(m, before[:]...)
		for _, v := range []uint64{40, 11, 3, 1_896_000_000_000_000, 0} {
			m = binary.BigEndian.AppendUint64(m, v)
		}
		m = append(m, 0, 0, 0, 0, 0, 0, 0, 2, 0, 17, 3, 2)
		m = append(m, digest("{1}")...)
		m = append(m, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 8)
		m = append(m, "NEW_TYPE\x02\x01"...)
		m = append(m, digest("{22}")...)
		m = append(m, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0)
		m = append(m, digest("")...)
		mac := hmac.New(sha256.New, key)
		mac.Write(m)
		if got, want := k.sum(key, before, 40, &row), mac.Sum(nil)[:16]; !bytes.Equal(got[:], want) {
			t.Fatalf("got % x, want % x", got, want)
		}
	}
	k.reset()
	k.entry("title", []byte("a name"))
	m := append(make([]byte, 16), make([]byte, 40)...)
	m[16+7], m[16+15], m[16+23], m[16+31], m[16+39] = 1, 2, 1, 5, 1
	m = append(m, 0, 0, 0, 5)
	m = append(m, "title"...)
	sum := sha256.Sum256([]byte("a name"))
	m = append(m, sum[:16]...)
	mac := hmac.New(sha256.New, key)
	mac.Write(m)
	if got := k.sum(key, chainValue{}, 1, &commitRow{first: 2, count: 1, time: 5, stream: streamCompanion}); !bytes.Equal(got[:], mac.Sum(nil)[:16]) {
		t.Error("companion entries")
	}
}

// The chain costs no memory of its own, however many commits there are.
func TestChainAllocatesNothing(t *testing.T) {
	var k link
	key := make([]byte, chainKeyBytes)
	var tip chainValue
	h := recordHeader{run: 1, typ: agui.TypeTextMessageContent}
	row := commitRow{ord: 1, first: 1, count: 100}
	if n := testing.AllocsPerRun(100, func() {
		k.reset()
		for range row.count {
			k.record(&h, tip)
		}
		tip = k.sum(key, tip, 1, &row)
	}); n != 0 {
		t.Errorf("%v allocations for a commit", n)
	}
}

// rows reads the thread's row and the chain values of its commits.
func chainRows(t *testing.T, l *Log, ord uint64) (threadRow, map[uint64]commitRow) {
	t.Helper()
	d := newDecoder()
	value, _, err := l.get(threadRowKey(ord))
	if err != nil {
		t.Fatal(err)
	}
	th, err := d.thread(value)
	if err != nil {
		t.Fatal(err)
	}
	commits := make(map[uint64]commitRow)
	if err := l.scan([]byte{prefixCommit}, func(k, v []byte) error {
		row, err := d.commit(v)
		if row.ord == ord {
			commits[commitPosition(k)] = row
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return th, commits
}

// Every commit continues the one before, also when the thread was loaded again
// in between, and each thread has a key of its own.
func TestChainGoesOn(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewMem()
	k, other := eventlog.ThreadKey{Scope: "s", Thread: "t"}, eventlog.ThreadKey{Scope: "s", Thread: "u"}
	for round := range 3 {
		l, err := Open("d", Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, l, k, 2)
		fill(t, l, other, 1)
		w, err := l.BeginRun(ctx, k, eventlog.RunStart{Started: fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":"%d"}`, round)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(ctx, custom(1), []byte(`{"type":"TEXT_MESSAGE_START","messageId":"m"}`)); err != nil {
			t.Fatal(err)
		}
		th, commits := chainRows(t, l, 1)
		otherRow, _ := chainRows(t, l, 2)
		if len(th.chainKey) != chainKeyBytes || bytes.Equal(th.chainKey, otherRow.chainKey) || th.chainStart != 1 {
			t.Fatalf("keys % x, % x from %d on", th.chainKey, otherRow.chainKey, th.chainStart)
		}
		checkChain(t, l, k, th, commits)
		if err := l.Close(); err != nil { // the run is closed at the next open
			t.Fatal(err)
		}
	}
}

// checkChain computes the chain anew from what a reader sees.
func checkChain(t *testing.T, l *Log, key eventlog.ThreadKey, th threadRow, commits map[uint64]commitRow) {
	t.Helper()
	runs, err := l.Runs(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	ordinal := make(map[agui.RunKey]uint32)
	for i, r := range runs {
		ordinal[r.Key] = uint32(i + 1)
	}
	var k link
	var tip chainValue
	var last uint64
	seen := 0
	end := func() {
		row := commits[last]
		if last == 0 {
			return
		}
		if last < th.chainStart {
			if row.chain != nil {
				t.Errorf("commit %d has a chain value, the chain begins at %d", last, th.chainStart)
			}
			return
		}
		seen++
		if tip = k.sum(th.chainKey, tip, last, &row); !bytes.Equal(tip[:], row.chain) {
			t.Fatalf("commit %d: chain % x, computed % x", last, row.chain, tip)
		}
	}
	for r, err := range l.Read(context.Background(), key, eventlog.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Position != last {
			end()
			k.reset()
			last = r.Position
		}
		h := recordHeader{run: ordinal[r.Run], typ: r.Type, origin: r.Origin}
		if r.Echo {
			h.flags |= flagEcho
		}
		if r.UnknownParent {
			h.flags |= flagUnknownParent
		}
		k.record(&h, payloadDigest(r.Event))
	}
	end()
	if seen == 0 {
		t.Error("nothing was compared")
	}
}

// A thread of format 1 gets its key with its next commit, and its chain begins
// there.
func TestChainOfAnOldThread(t *testing.T) {
	fs := memoryOf(t, fixtureFiles(t, 1))
	l := fixtureOpen(t, Options{FS: fs, Now: func() time.Time { return fixtureLater }})
	before := l.Watermark()
	for th, err := range l.Threads(context.Background(), "acme", "") {
		if err != nil {
			t.Fatal(err)
		}
		if th.Key.Thread == "held" {
			continue // recovery has written to it
		}
		fixtureAppend(t, l, "acme", th.Key.Thread, eventlog.Batch{}, `{"type":"CUSTOM","name":"a"}`)
		fixtureAppend(t, l, "acme", th.Key.Thread, eventlog.Batch{}, `{"type":"CUSTOM","name":"b"}`)
		value, _, err := l.get(nameKey(th.Key))
		if err != nil {
			t.Fatal(err)
		}
		ord, err := newDecoder().name(value)
		if err != nil {
			t.Fatal(err)
		}
		row, commits := chainRows(t, l, ord)
		if row.chainStart <= before {
			t.Errorf("thread %s: the chain begins at %d", th.Key.Thread, row.chainStart)
		}
		checkChain(t, l, th.Key, row, commits)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// A thread whose latest commit row cannot be read is still written to: verify is
// what tells of the damage.
func TestChainBehindADamagedCommit(t *testing.T) {
	fs := vfs.NewMem()
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	l, err := Open("d", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, l, k, 2)
	fill(t, l, eventlog.ThreadKey{Scope: "s", Thread: "u"}, 1)
	if err := l.db.Set(commitKey(2), []byte{commitVersion, 1}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = Open("d", Options{FS: fs}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fill(t, l, k, 1)
}

func BenchmarkChain(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("Records%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var k link
			var tip chainValue
			key := make([]byte, chainKeyBytes)
			h := recordHeader{run: 1, typ: agui.TypeTextMessageContent}
			row := commitRow{ord: 1, first: 1, count: n}
			for b.Loop() {
				k.reset()
				for range n {
					k.record(&h, tip)
				}
				tip = k.sum(key, tip, 1, &row)
			}
		})
	}
	b.Run("PayloadOf150Bytes", func(b *testing.B) {
		payload := make([]byte, 150)
		for b.Loop() {
			payloadDigest(payload)
		}
	})
}
