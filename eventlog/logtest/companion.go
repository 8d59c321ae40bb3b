package logtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agstore/agstore/eventlog"
)

func entry(kind, body string) eventlog.Entry { return eventlog.Entry{Kind: kind, Body: []byte(body)} }

func (p *place) companion(k eventlog.ThreadKey, from, to uint64) []eventlog.Entry {
	p.t.Helper()
	var out []eventlog.Entry
	for e, err := range p.log.Companion(p.ctx, k, from, to) {
		if err != nil {
			p.t.Fatalf("companion: %v", err)
		}
		out = append(out, e)
	}
	return out
}

func (p *place) keep(k eventlog.ThreadKey, entries ...eventlog.Entry) eventlog.Appended {
	p.t.Helper()
	done, err := p.log.AppendCompanion(p.ctx, k, eventlog.CompanionBatch{Entries: entries})
	if err != nil {
		p.t.Fatalf("append to the companion stream: %v", err)
	}
	return done
}

// words is the entries in one line.
func words(entries []eventlog.Entry) string {
	var out []string
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%d:%s=%s", e.Seq, e.Kind, e.Body))
	}
	return strings.Join(out, " ")
}

// testCompanion is decision 16: a stream of its own seqs, in the order of all
// commits, that no reader of records sees.
func testCompanion(t *testing.T, p *place) {
	clock := newClock()
	p.config.Now, p.config.After = clock.now, clock.after
	p.open()
	k := key("t")
	body := []byte(`"first"`)
	done := p.keep(k, eventlog.Entry{Seq: 99, Kind: "title", Body: body})
	body[1] = 'X' // what was given is the caller's again
	if done.First != 1 || done.Last != 1 || done.Position != 1 || done.Duplicate {
		t.Errorf("%+v", done)
	}
	if th := p.thread(k); th.LastSeq != 0 || th.CompanionSeq != 1 || th.Runs != 0 || !th.Created.Equal(clock.now()) {
		t.Errorf("created by its companion stream: %+v", th)
	}
	p.append(k, batch(custom("x", 1), custom("x", 2)))
	updated := p.thread(k).Updated
	start := clock.now()
	clock.add(time.Second)
	if done := p.keep(k, entry("queue", ""), entry("queue", "\x00\xff not JSON")); done.First != 2 || done.Last != 3 || done.Position != 3 {
		t.Errorf("%+v", done)
	}
	check := func() {
		t.Helper()
		entries := p.companion(k, 0, 0)
		if got, want := words(entries), "1:title=\"first\" 2:queue= 3:queue=\x00\xff not JSON"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if entries[0].Position != 1 || entries[1].Position != 3 || entries[2].Position != 3 || !entries[0].Time.Equal(start) || !entries[2].Time.Equal(start.Add(time.Second)) {
			t.Errorf("%+v", entries)
		}
		for _, part := range []struct {
			from, to uint64
			want     string
		}{{2, 2, "2:queue="}, {3, 9, "3:queue=\x00\xff not JSON"}, {4, 0, ""}, {0, 1, `1:title="first"`}, {3, 2, ""}} {
			if got := words(p.companion(k, part.from, part.to)); got != part.want {
				t.Errorf("from %d to %d: %q", part.from, part.to, got)
			}
		}
		if th := p.thread(k); th.LastSeq != 2 || th.CompanionSeq != 3 || !th.Updated.Equal(updated) {
			t.Errorf("%+v", th)
		}
		for th, err := range p.log.Threads(p.ctx, k.Scope, "") {
			if err != nil || th.CompanionSeq != 3 || th.LastSeq != 2 {
				t.Errorf("listed: %+v, %v", th, err)
			}
		}
		wantShape(t, p.all(k), "CUSTOM", "CUSTOM")
		var streams []string
		for c, err := range p.log.Commits(p.ctx, 0) {
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, fmt.Sprintf("%v %d+%d", c.Stream, c.First, c.Count))
		}
		if got := strings.Join(streams, ", "); got != "companion 1+1, events 1+2, companion 2+2" {
			t.Errorf("commits: %s", got)
		}
	}
	check()
	p.reopen()
	check()
	p.crash()
	check()
	if done := p.keep(k, entry("title", "last")); done.First != 4 {
		t.Errorf("after a crash: %+v", done)
	}
}

func testCompanionRefused(t *testing.T, p *place) {
	p.config.Limits = eventlog.Limits{EventBytes: 100, BatchEvents: 3, BatchBytes: 150, KeyBytes: 10}
	p.open()
	long := strings.Repeat("x", 101)
	one := entry("k", "v")
	for _, c := range []struct {
		what  string
		key   eventlog.ThreadKey
		batch eventlog.CompanionBatch
		want  error
		line  int
	}{
		{"no entries", key("t"), eventlog.CompanionBatch{}, eventlog.ErrInvalid, 0},
		{"no kind", key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{one, entry("", "v")}}, eventlog.ErrInvalid, 2},
		{"a kind that is no text", key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{entry("\xff", "v")}}, eventlog.ErrInvalid, 1},
		{"a long kind", key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{entry(strings.Repeat("k", eventlog.KindBytes+1), "v")}}, eventlog.ErrTooLarge, 1},
		{"a large entry", key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{one, one, entry("k", long)}}, eventlog.ErrTooLarge, 3},
		{"too many", key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{one, one, one, one}}, eventlog.ErrTooLarge, 0},
		{"too much", key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{entry("k", long[:90]), entry("k", long[:90])}}, eventlog.ErrTooLarge, 0},
		{"a long key", key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{one}, Key: "01234567890"}, eventlog.ErrTooLarge, 0},
		{"no thread id", key(""), eventlog.CompanionBatch{Entries: []eventlog.Entry{one}}, eventlog.ErrInvalid, 0},
		{"another seq", key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{one}, Expect: eventlog.LastSeq(1)}, eventlog.ErrConflict, 0},
	} {
		_, err := p.log.AppendCompanion(p.ctx, c.key, c.batch)
		if e := wantAs[*eventlog.Error](t, c.what, err, c.want); e.Line != c.line {
			t.Errorf("%s: line %d, %v", c.what, e.Line, err)
		}
	}
	if mark := p.log.Watermark(); mark != 0 {
		t.Errorf("something was written: %d", mark)
	}
	for _, err := range p.log.Companion(p.ctx, key("t"), 0, 0) {
		wantErr(t, "no thread", err, eventlog.ErrThreadNotFound)
	}
	gone, cancel := context.WithCancel(p.ctx)
	cancel()
	_, err := p.log.AppendCompanion(gone, key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{one}})
	wantErr(t, "cancelled", err, context.Canceled)
	p.append(key("t"), batch(custom("x", 1)))
	if got := p.companion(key("t"), 0, 0); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for _, expect := range []uint64{0, 1, 2} {
		if _, err := p.log.AppendCompanion(p.ctx, key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{one}, Expect: eventlog.LastSeq(expect)}); err != nil {
			t.Error(err)
		}
	}
	_, err = p.log.AppendCompanion(p.ctx, key("t"), eventlog.CompanionBatch{Entries: []eventlog.Entry{one}, Expect: eventlog.LastSeq(2)})
	if e := wantAs[*eventlog.ConflictError](t, "a seq of before", err, eventlog.ErrConflict); e.Expected != 2 || e.Actual != 3 {
		t.Errorf("%+v", e)
	}
}

// testCompanionKeys is L4 for the companion stream.
func testCompanionKeys(t *testing.T, p *place) {
	p.open()
	k := key("t")
	send := func(batchKey string, entries ...eventlog.Entry) (eventlog.Appended, error) {
		return p.log.AppendCompanion(p.ctx, k, eventlog.CompanionBatch{Entries: entries, Key: batchKey})
	}
	first, err := send("k1", entry("title", "a"), entry("title", "b"))
	if err != nil {
		t.Fatal(err)
	}
	again := func() {
		t.Helper()
		want := first
		want.Duplicate = true
		if got, err := send("k1", entry("title", "a"), entry("title", "b")); err != nil || got != want {
			t.Errorf("again: %+v, %v", got, err)
		}
		for what, other := range map[string][]eventlog.Entry{
			"another body":    {entry("title", "a"), entry("title", "c")},
			"another kind":    {entry("title", "a"), entry("name", "b")},
			"cut in two ways": {entry("title", "ab"), entry("title", "")},
			"one less":        {entry("title", "a")},
		} {
			_, err := send("k1", other...)
			if e := wantAs[*eventlog.KeyConflictError](t, what, err, eventlog.ErrConflict); e.Key != "k1" || e.First != 1 || e.Last != 2 {
				t.Errorf("%s: %+v", what, e)
			}
		}
		_, err := p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{custom("x", 1)}, Key: "k1"})
		wantErr(t, "the key for events", err, eventlog.ErrConflict)
	}
	again()
	p.crash()
	again()
	if got := words(p.companion(k, 0, 0)); got != "1:title=a 2:title=b" {
		t.Error(got)
	}
}

// testCompanionRace is L6 for the companion stream, beside appends of records.
func testCompanionRace(t *testing.T, p *place) {
	p.open()
	n := 200
	if testing.Short() {
		n = 30
	}
	k := key("t")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range n {
				var err error
				if g%2 == 0 {
					_, err = p.log.AppendCompanion(p.ctx, k, eventlog.CompanionBatch{Entries: []eventlog.Entry{entry(fmt.Sprint(g), fmt.Sprint(i))}})
				} else {
					_, err = p.log.Append(p.ctx, k, batch(custom("x", i)))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	next := make(map[string]int)
	entries := p.companion(k, 0, 0)
	for i, e := range entries {
		if e.Seq != uint64(i+1) || string(e.Body) != fmt.Sprint(next[e.Kind]) {
			t.Fatalf("entry %d: %+v", i, e)
		}
		next[e.Kind]++
	}
	if th := p.thread(k); len(entries) != 4*n || th.CompanionSeq != uint64(4*n) || th.LastSeq != uint64(4*n) {
		t.Errorf("%d entries, %+v", len(entries), th)
	}
}

func testCompanionScopes(t *testing.T, p *place) {
	p.open()
	p.keep(eventlog.ThreadKey{Scope: "a", Thread: "t"}, entry("k", "of a"))
	other := eventlog.ThreadKey{Scope: "b", Thread: "t"}
	for _, err := range p.log.Companion(p.ctx, other, 0, 0) {
		wantErr(t, "the other scope", err, eventlog.ErrThreadNotFound)
	}
	p.keep(other, entry("k", "of b"))
	if got := words(p.companion(other, 0, 0)); got != "1:k=of b" {
		t.Error(got)
	}
}

// checkCompanion lists what is wrong with the companion stream of a thread.
func checkCompanion(ctx context.Context, log eventlog.Log, k eventlog.ThreadKey, commits []eventlog.Commit) []error {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("companion stream of %q: "+format, append([]any{k.Thread}, args...)...))
	}
	var entries []eventlog.Entry
	for e, err := range log.Companion(ctx, k, 0, 0) {
		if errors.Is(err, eventlog.ErrErased) && len(entries) == 0 {
			if _, err := log.Thread(ctx, k); !errors.Is(err, eventlog.ErrErased) {
				bad("erased, and the thread is described: %v", err)
			}
			return faults
		}
		if err != nil {
			return append(faults, err)
		}
		if e.Seq != uint64(len(entries)+1) {
			bad("entry %d where %d should be", e.Seq, len(entries)+1)
		}
		entries = append(entries, e)
	}
	at := 0
	for _, c := range commits {
		if c.First != uint64(at+1) || c.Count == 0 || at+c.Count > len(entries) {
			bad("commit %d is of %d from %d behind %d, there are %d", c.Position, c.Count, c.First, at, len(entries))
			return faults
		}
		for _, e := range entries[at : at+c.Count] {
			if e.Position != c.Position || !e.Time.Equal(c.Time) {
				bad("entry %d is of position %d and %v, its commit of %d and %v", e.Seq, e.Position, e.Time, c.Position, c.Time)
			}
		}
		at += c.Count
	}
	if at != len(entries) {
		bad("%d entries, the commits have %d", len(entries), at)
	}
	if th, err := log.Thread(ctx, k); err != nil || th.CompanionSeq != uint64(at) {
		bad("described as %d, %v", th.CompanionSeq, err)
	}
	return faults
}

// testCompanionCopies is L30 of the companion stream: what was given may be
// changed, and what is handed out is the caller's, whatever is read after it.
func testCompanionCopies(t *testing.T, p *place) {
	p.open()
	k := key("t")
	var want []string
	for n := range 20 {
		var entries []eventlog.Entry
		for i := range 100 {
			body := fmt.Sprintf("%d-%d-%0*d", n, i, i, 0)
			want = append(want, body)
			entries = append(entries, eventlog.Entry{Kind: "k", Body: []byte(body)})
		}
		if _, err := p.log.AppendCompanion(p.ctx, k, eventlog.CompanionBatch{Entries: entries}); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			clear(e.Body)
		}
	}
	p.reopen()
	once := p.companion(k, 0, 0)
	for _, e := range p.companion(k, 0, 0) {
		clear(e.Body)
	}
	if len(once) != len(want) {
		t.Fatalf("%d entries of %d", len(once), len(want))
	}
	for i, e := range once {
		if string(e.Body) != want[i] {
			t.Fatalf("entry %d is %q, want %q", e.Seq, e.Body, want[i])
		}
	}
	if again := p.companion(k, 0, 0); words(again) != words(once) {
		t.Error("who was handed entries has changed the log")
	}
}
