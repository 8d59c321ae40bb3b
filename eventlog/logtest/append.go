package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

func testDense(t *testing.T, p *place) {
	p.open()
	want := uint64(0)
	for i := range 20 {
		n := i%3 + 1
		var events [][]byte
		for j := range n {
			events = append(events, custom("x", j))
		}
		done := p.append(key("t"), batch(events...))
		if done.First != want+1 || done.Last != want+uint64(n) || done.Duplicate {
			t.Fatalf("append %d: %+v behind %d", i, done, want)
		}
		want = done.Last
	}
	for i, r := range p.all(key("t")) {
		if r.Seq != uint64(i+1) {
			t.Fatalf("record %d has seq %d", i, r.Seq)
		}
	}
	if done := p.append(key("other"), batch(custom("x", 0))); done.First != 1 {
		t.Errorf("another thread begins at %d", done.First)
	}
}

func testAtomic(t *testing.T, p *place) {
	p.open()
	p.append(key("t"), batch(custom("x", 0)))
	before := p.log.Watermark()
	_, err := p.log.Append(p.ctx, key("t"), batch(custom("x", 1), []byte(`{"no":"type"}`), custom("x", 2)))
	var typed *eventlog.Error
	wantErr(t, "one bad event", err, eventlog.ErrInvalidEvent)
	if !errors.As(err, &typed) || typed.Line != 2 {
		t.Errorf("the error names event %d, want 2", typed.Line)
	}
	if got := len(p.all(key("t"))); got != 1 || p.log.Watermark() != before {
		t.Errorf("%d records and watermark %d after a refusal", got, p.log.Watermark())
	}
}

func testVerbatim(t *testing.T, p *place) {
	p.open()
	events := []string{
		`{"type":"CUSTOM","name":"n","value":9007199254740993,"z":1.0,"a":-0,"e":1E+400}`,
		`{"unknown":{"deep":[1,2,{"b":1,"a":2}]},"type":"NOT_A_TYPE_YET","type2":"x"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ud83d"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ude00 \u00e9 é \/ <&>  "}`,
		`{ "type" : "CUSTOM" , "name" : "spaces" ,` + "\n\t" + `"value" : [ ] }`,
		`{"type":"RAW","event":null,"type":"CUSTOM","type":"RAW"}`,
		`{"type":"","x":1}`,
		`{"type":"CUSTOM","name":"` + strings.Repeat("é", 70_000) + `"}`,
	}
	for _, e := range events {
		p.append(key("t"), batch([]byte(" \r\n\t"+e+"\n ")))
	}
	check := func() {
		t.Helper()
		records := p.all(key("t"))
		if len(records) != len(events) {
			t.Fatalf("%d records of %d events", len(records), len(events))
		}
		for i, r := range records {
			if string(r.Event) != events[i] {
				t.Errorf("event %d:\n got %.200s\nwant %.200s", i, r.Event, events[i])
			}
		}
		if records[1].Type != "NOT_A_TYPE_YET" || records[6].Type != "" || records[5].Type != agui.TypeRaw {
			t.Errorf("types %q, %q, %q", records[1].Type, records[6].Type, records[5].Type)
		}
	}
	check()
	p.reopen()
	check()
}

func testRefused(t *testing.T, p *place) {
	p.open()
	for _, bad := range []string{"", " ", "null", "1", `"x"`, `[{"type":"CUSTOM"}]`, `{"type":1}`, `{}`, `{"type":"CUSTOM"`, `{"type":"CUSTOM"}{}`, "{\"type\":\"\xff\"}"} {
		_, err := p.log.Append(p.ctx, key("t"), batch([]byte(bad)))
		wantErr(t, fmt.Sprintf("%q", bad), err, eventlog.ErrInvalidEvent)
	}
	_, err := p.log.Append(p.ctx, key("t"), eventlog.Batch{Events: [][]byte{custom("x", 1)}, Origin: eventlog.OriginStore})
	wantErr(t, "origin store", err, eventlog.ErrInvalid)
	_, err = p.log.Append(p.ctx, key(""), batch(custom("x", 1)))
	wantErr(t, "no thread id", err, eventlog.ErrInvalid)
	_, err = p.log.Append(p.ctx, eventlog.ThreadKey{Thread: "t"}, batch(custom("x", 1)))
	wantErr(t, "no scope", err, eventlog.ErrInvalid)
	_, err = p.log.Append(p.ctx, key("t"), eventlog.Batch{Events: [][]byte{custom("x", 1)}, Run: agui.RunKey{ID: "r", Attempt: 1}})
	wantErr(t, "an unknown run", err, eventlog.ErrRunNotFound)
	wantErr(t, "an unknown run", err, eventlog.ErrNotFound)
	_, err = p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: custom("x", 1)})
	wantErr(t, "a start that is none", err, eventlog.ErrInvalid)
	_, err = p.log.Thread(p.ctx, key("t"))
	wantErr(t, "what was refused makes no thread", err, eventlog.ErrThreadNotFound)
	_, err = p.log.Runs(p.ctx, key("t"))
	wantErr(t, "runs of no thread", err, eventlog.ErrThreadNotFound)
	for _, err := range p.log.Read(p.ctx, key("t"), eventlog.ReadOptions{}) {
		wantErr(t, "read of no thread", err, eventlog.ErrThreadNotFound)
	}
}

func testLimits(t *testing.T, p *place) {
	p.config.Limits = eventlog.Limits{IDBytes: 10, KeyBytes: 4, EventBytes: 100, BatchEvents: 3, BatchBytes: 250, OpenRuns: 2}
	p.open()
	event := func(n int) []byte {
		e := []byte(`{"type":"CUSTOM","name":""}`)
		return bytes.Replace(e, []byte(`""`), []byte(`"`+strings.Repeat("x", n-len(e))+`"`), 1)
	}
	refused := func(what string, k eventlog.ThreadKey, b eventlog.Batch) {
		t.Helper()
		_, err := p.log.Append(p.ctx, k, b)
		if e := wantAs[*eventlog.TooLargeError](t, what, err, eventlog.ErrTooLarge); e.Size <= e.Limit {
			t.Errorf("%s: %v", what, e)
		}
	}
	p.append(key("0123456789"), batch([]byte("  "+string(event(100))+"  ")))
	refused("event", key("t"), batch(event(101)))
	p.append(key("t"), batch(event(80), event(80), event(90)))
	refused("batch bytes", key("t"), batch(event(80), event(80), event(91)))
	refused("batch events", key("t"), batch(event(30), event(30), event(30), event(30)))
	refused("thread id", key("0123456789a"), batch(event(30)))
	refused("scope", eventlog.ThreadKey{Scope: "0123456789a", Thread: "t"}, batch(event(30)))
	refused("key", key("t"), eventlog.Batch{Events: [][]byte{event(30)}, Key: "abcde"})
	p.append(key("t"), batch(started("a"), started("b")))
	refused("open runs", key("t"), batch(started("c")))
	p.append(key("t"), batch(finished("a"), started("c")))
	refused("open runs", key("t"), batch(finished("b"), started("d"), started("e")))
	if n := p.thread(key("t")).LastSeq; n != 7 {
		t.Errorf("last seq %d, want 7", n)
	}
}

func testExpect(t *testing.T, p *place) {
	p.open()
	one := func(n uint64) eventlog.Batch {
		return eventlog.Batch{Events: [][]byte{custom("x", 1)}, Expect: eventlog.LastSeq(n)}
	}
	_, err := p.log.Append(p.ctx, key("t"), one(1))
	wantErr(t, "no thread yet", err, eventlog.ErrConflict)
	p.append(key("t"), one(0))
	_, err = p.log.Append(p.ctx, key("t"), one(0))
	if e := wantAs[*eventlog.ConflictError](t, "too low", err, eventlog.ErrConflict); e.Expected != 0 || e.Actual != 1 {
		t.Errorf("conflict %+v", e)
	}
	_, err = p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: started("r"), Expect: eventlog.LastSeq(7)})
	if e := wantAs[*eventlog.ConflictError](t, "begin", err, eventlog.ErrConflict); e.Expected != 7 || e.Actual != 1 {
		t.Errorf("conflict %+v", e)
	}
	// Of many at once, one is stored (of runs: testOneAnswer).
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = p.log.Append(p.ctx, key("t"), one(1)) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if e := wantAs[*eventlog.ConflictError](t, "the loser", err, eventlog.ErrConflict); e.Actual != 2 {
			t.Errorf("conflict %+v", e)
		}
	}
	if won != 1 || len(p.all(key("t"))) != 2 {
		t.Errorf("%d winners, %d records", won, len(p.all(key("t"))))
	}
}

func testIdempotency(t *testing.T, p *place) {
	p.open()
	b := eventlog.Batch{Events: [][]byte{custom("x", 1), custom("x", 2)}, Key: "k1"}
	first := p.append(key("t"), b)
	p.append(key("t"), batch(custom("y", 0)))
	check := func() {
		t.Helper()
		again := p.append(key("t"), b)
		want := first
		want.Duplicate = true
		if again != want {
			t.Errorf("again: %+v, want %+v", again, want)
		}
		other := b
		other.Events = [][]byte{custom("x", 1), custom("x", 3)}
		_, err := p.log.Append(p.ctx, key("t"), other)
		if e := wantAs[*eventlog.KeyConflictError](t, "other events", err, eventlog.ErrConflict); e.Key != "k1" || e.First != first.First || e.Last != first.Last {
			t.Errorf("%+v", e)
		}
		if n := len(p.all(key("t"))); n != 3 {
			t.Errorf("%d records, want 3", n)
		}
	}
	check()
	p.reopen()
	check()
	p.crash()
	check()
	// The retry of a conditional append is answered too, although the thread
	// has moved on.
	conditional := b
	conditional.Expect = eventlog.LastSeq(0)
	if done := p.append(key("t"), conditional); !done.Duplicate {
		t.Errorf("conditional retry: %+v", done)
	}
	if done := p.append(key("u"), b); done.Duplicate || done.First != 1 {
		t.Errorf("the same key on another thread: %+v", done)
	}
	// At the same time, and in every case once.
	var wg sync.WaitGroup
	got := make([]eventlog.Appended, 16)
	for i := range got {
		wg.Go(func() {
			got[i], _ = p.log.Append(p.ctx, key("v"), eventlog.Batch{Events: [][]byte{custom("z", 1)}, Key: "k"})
		})
	}
	wg.Wait()
	firsts := 0
	for _, done := range got {
		if done.First != 1 {
			t.Errorf("%+v", done)
		}
		if !done.Duplicate {
			firsts++
		}
	}
	if firsts != 1 {
		t.Errorf("%d of the appends wrote", firsts)
	}
	if n := len(p.all(key("v"))); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
	p.append(key("w"), batch(custom("q", 1)))
	p.append(key("w"), batch(custom("q", 1)))
	if n := len(p.all(key("w"))); n != 2 {
		t.Errorf("without a key: %d records, want 2", n)
	}
}

func testIdempotencyAge(t *testing.T, p *place) {
	clock := newClock()
	p.config.Now = clock.now
	p.open()
	b := eventlog.Batch{Events: [][]byte{custom("x", 1)}, Key: "k1"}
	p.append(key("t"), b)
	clock.add(7*24*time.Hour - time.Minute)
	if done := p.append(key("t"), b); !done.Duplicate {
		t.Errorf("within 7 days: %+v", done)
	}
	clock.add(2 * time.Minute)
	if done := p.append(key("t"), b); done.Duplicate || done.First != 2 {
		t.Errorf("after 7 days: %+v", done)
	}
	if done := p.append(key("t"), b); !done.Duplicate || done.First != 2 {
		t.Errorf("used anew: %+v", done)
	}
	clock.add(2 * time.Minute)
	p.append(key("u"), batch(custom("x", 1)))
	if done := p.append(key("t"), b); !done.Duplicate || done.First != 2 {
		t.Errorf("used anew, later: %+v", done)
	}
}

func testEmptyBatch(t *testing.T, p *place) {
	p.open()
	done := p.append(key("t"), eventlog.Batch{})
	if done.First != 0 || done.Last != 0 || done.Position != 1 {
		t.Errorf("creating: %+v", done)
	}
	if th := p.thread(key("t")); th.LastSeq != 0 || th.Runs != 0 || th.Created.IsZero() {
		t.Errorf("%+v", th)
	}
	if n := len(p.all(key("t"))); n != 0 {
		t.Errorf("%d records", n)
	}
	p.append(key("t"), batch(custom("x", 1)))
	if done := p.append(key("t"), eventlog.Batch{}); done.First != 0 || done.Last != 1 {
		t.Errorf("existing: %+v", done)
	}
	if mark := p.log.Watermark(); mark != 2 {
		t.Errorf("watermark %d, want 2", mark)
	}
	p.append(key("u"), eventlog.Batch{})
	p.crash()
	if th := p.thread(key("u")); th.LastSeq != 0 {
		t.Errorf("%+v", th)
	}
}

func testCancelled(t *testing.T, p *place) {
	p.open()
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	_, err := p.log.Append(ctx, key("t"), batch(custom("x", 1)))
	wantErr(t, "append", err, context.Canceled)
	_, err = p.log.BeginRun(ctx, key("t"), eventlog.RunStart{Started: started("r")})
	wantErr(t, "begin", err, context.Canceled)
	_, err = p.log.Wait(ctx, 1)
	wantErr(t, "wait", err, context.Canceled)
	p.append(key("t"), batch(custom("x", 1)))
	for _, err := range p.log.Read(ctx, key("t"), eventlog.ReadOptions{}) {
		wantErr(t, "read", err, context.Canceled)
	}
	if n := len(p.all(key("t"))); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

func testReadRanges(t *testing.T, p *place) {
	p.open()
	const n = 2000
	for from := 0; from < n; from += 100 {
		var events [][]byte
		for i := range 100 {
			events = append(events, custom("x", from+i+1))
		}
		p.append(key("t"), batch(events...))
	}
	for _, r := range []struct{ from, to, first, last uint64 }{
		{0, 0, 1, n}, {1, n, 1, n}, {500, 1500, 500, 1500}, {n, 0, n, n}, {n + 1, 0, 0, 0}, {7, 7, 7, 7}, {9, 8, 0, 0}, {1990, n + 50, 1990, n},
	} {
		got := p.read(key("t"), eventlog.ReadOptions{From: r.from, To: r.to})
		var want []uint64
		for s := r.first; s <= r.last && s > 0; s++ {
			want = append(want, s)
		}
		if !slices.Equal(seqs(got), want) {
			t.Errorf("from %d to %d: %d records, want %d to %d", r.from, r.to, len(got), r.first, r.last)
		}
	}
	// A reader that stops early leaves nothing behind, and the end is that of
	// the call.
	records := p.log.Read(p.ctx, key("t"), eventlog.ReadOptions{From: n - 1})
	p.append(key("t"), batch(custom("later", 0)))
	seen := 0
	for range records {
		seen++
	}
	if seen != 2 {
		t.Errorf("%d records, want those of the call", seen)
	}
	for range p.log.Read(p.ctx, key("t"), eventlog.ReadOptions{}) {
		break
	}
}

// testRecordsAreCopies is L30.
func testRecordsAreCopies(t *testing.T, p *place) {
	p.open()
	event := custom("mine", 1)
	want := string(event)
	p.append(key("t"), batch(event))
	w := p.begin(key("u"), "r")
	given := custom("mine", 2)
	if err := w.Enqueue(p.ctx, given); err != nil {
		t.Fatal(err)
	}
	clear(event)
	clear(given)
	if _, err := w.Sync(p.ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if err := w.Enqueue(p.ctx, custom("x", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(p.ctx, "STOP", ""); err != nil {
		t.Fatal(err)
	}
	if got := string(p.all(key("t"))[0].Event); got != want {
		t.Errorf("got %s", got)
	}
	once := p.all(key("u"))
	for i, r := range p.all(key("u")) {
		if !bytes.Equal(r.Event, once[i].Event) {
			t.Fatalf("record %d changed", r.Seq)
		}
	}
	if string(once[1].Event) != string(custom("mine", 2)) {
		t.Errorf("got %s", once[1].Event)
	}
}

// testManyWriters is L6.
func testManyWriters(t *testing.T, p *place) {
	p.open()
	const writers, threads = 64, 4
	each := 1000
	if testing.Short() {
		each = 50
	}
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for g := range writers {
		wg.Go(func() {
			k := key(fmt.Sprint("t", g%threads))
			for i := range each {
				if _, err := p.log.Append(p.ctx, k, batch(custom(fmt.Sprint("g", g), i))); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	for n := range threads {
		records := p.all(key(fmt.Sprint("t", n)))
		if len(records) != writers/threads*each {
			t.Errorf("thread %d has %d records", n, len(records))
		}
		next := make(map[string]int)
		for i, r := range records {
			var name string
			var value int
			if _, err := fmt.Sscanf(string(r.Event), `{"type":"CUSTOM","name":"g%s`, &name); err != nil {
				t.Fatal(err)
			}
			name, rest, _ := strings.Cut(name, `"`)
			if _, err := fmt.Sscanf(rest, `,"value":%d`, &value); err != nil {
				t.Fatal(err)
			}
			if r.Seq != uint64(i+1) || value != next[name] {
				t.Fatalf("seq %d of goroutine %s: value %d, want %d", r.Seq, name, value, next[name])
			}
			next[name]++
		}
	}
}
