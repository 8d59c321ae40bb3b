package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

func (p *place) listed(scope, after string, most int) []string {
	p.t.Helper()
	var out []string
	for th, err := range p.log.Threads(p.ctx, scope, after) {
		if err != nil {
			p.t.Fatalf("threads: %v", err)
		}
		if th.Key.Scope != scope {
			p.t.Errorf("a thread of scope %q in %q", th.Key.Scope, scope)
		}
		if out = append(out, th.Key.Thread); len(out) == most {
			break
		}
	}
	return out
}

// testOddThreadIDs is L15: an id is any text, and nothing in it means anything.
// Only what no JSON string can say is refused.
func testOddThreadIDs(t *testing.T, p *place) {
	p.open()
	ids := []string{
		"a", "a/b", "a.b", "a b", "../../etc/passwd", "*", ">", "%2F", "A", "\x00", "\x00\x00", "a\x00", "\xed\xa0\x80",
		"é", "e\u0301", "日本語", "😀", "#", "a#2", " ", "\n", strings.Repeat("x", 4096), "root", "_", "~", "'; DROP TABLE", "{}",
	}
	for i, id := range ids {
		p.append(key(id), batch(custom("x", i)))
	}
	for _, id := range []string{"", "\xff", "a\xc3"} {
		_, err := p.log.Append(p.ctx, key(id), batch(custom("x", 0)))
		wantErr(t, "thread id "+id, err, eventlog.ErrInvalid)
	}
	p.reopen()
	for i, id := range ids {
		records := p.all(key(id))
		if len(records) != 1 || string(records[0].Event) != string(custom("x", i)) {
			t.Errorf("thread %.20q: %d records", id, len(records))
		}
	}
	slices.Sort(ids)
	if got := p.listed("s", "", 0); !slices.Equal(got, ids) {
		t.Errorf("listed %.300q", got)
	}
}

func testScopes(t *testing.T, p *place) {
	p.open()
	at := func(scope, thread string) eventlog.ThreadKey {
		return eventlog.ThreadKey{Scope: scope, Thread: thread}
	}
	p.append(at("a", "bt"), batch(custom("a", 1), started("r"), finished("r")))
	p.append(at("ab", "t"), batch(custom("ab", 1)))
	p.append(at("b", "bt"), eventlog.Batch{Events: [][]byte{custom("b", 1)}, Key: "k"})
	if done := p.append(at("a", "bt"), eventlog.Batch{Events: [][]byte{custom("a", 2)}, Key: "k"}); done.Duplicate {
		t.Error("a key of another scope is known")
	}
	for scope, want := range map[string]string{"a": "bt", "ab": "t", "b": "bt"} {
		if got := p.listed(scope, "", 0); len(got) != 1 || got[0] != want {
			t.Errorf("scope %s has %q", scope, got)
		}
	}
	if got := p.listed("c", "", 0); got != nil {
		t.Errorf("a scope without threads has %q", got)
	}
	_, err := p.log.Thread(p.ctx, at("ab", "bt"))
	wantErr(t, "a thread of another scope", err, eventlog.ErrThreadNotFound)
	_, err = p.log.Append(p.ctx, at("b", "bt"), eventlog.Batch{Events: [][]byte{custom("b", 2)}, Run: agui.RunKey{ID: "r", Attempt: 1}})
	wantErr(t, "a run of another scope", err, eventlog.ErrRunNotFound)
}

func testListing(t *testing.T, p *place) {
	p.open()
	const n = 1300
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprintf("thread-%05d", i)
	}
	for i := range want {
		k := key(want[(i*7919)%n])
		if i%2 == 0 {
			p.append(k, eventlog.Batch{})
		} else {
			p.append(k, batch(started("r"), custom("x", 1)))
		}
	}
	if got := p.listed("s", "", 0); !slices.Equal(got, want) {
		t.Fatalf("%d threads, or another order", len(got))
	}
	var paged []string
	for {
		page := p.listed("s", last(paged), 97)
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
	}
	if !slices.Equal(paged, want) {
		t.Errorf("%d threads by pages", len(paged))
	}
	if got := p.listed("s", "thread-00005x", 1); len(got) != 1 || got[0] != "thread-00006" {
		t.Errorf("behind an id that is none: %q", got)
	}
	// What a list says of a thread is what the thread says.
	p.reopen()
	for th, err := range p.log.Threads(p.ctx, "s", "") {
		if err != nil {
			t.Fatal(err)
		}
		if one := p.thread(th.Key); one != th {
			t.Fatalf("listed %+v, is %+v", th, one)
		}
	}
}

func last(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[len(s)-1]
}

func testCommits(t *testing.T, p *place) {
	p.open()
	const n = 1100
	for i := range n {
		p.append(key(fmt.Sprint("t", i%3)), batch(custom("x", i), custom("x", i)))
	}
	read := func(from uint64) (out []eventlog.Commit) {
		t.Helper()
		for c, err := range p.log.Commits(p.ctx, from) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, c)
		}
		return out
	}
	check := func() {
		t.Helper()
		all := read(0)
		if len(all) != n || p.log.Watermark() != n {
			t.Fatalf("%d commits, watermark %d", len(all), p.log.Watermark())
		}
		for i, c := range all {
			want := eventlog.Commit{Position: uint64(i + 1), Thread: key(fmt.Sprint("t", i%3)), First: uint64(i/3*2 + 1), Count: 2, Time: c.Time}
			if c != want {
				t.Fatalf("commit %+v, want %+v", c, want)
			}
			if i > 0 && c.Time.Before(all[i-1].Time) {
				t.Fatalf("commit %d is earlier than the one before", c.Position)
			}
		}
		if tail := read(n - 2); len(tail) != 3 || tail[0].Position != n-2 {
			t.Errorf("tail %+v", tail)
		}
		if beyond := read(n + 1); beyond != nil {
			t.Errorf("beyond the end: %+v", beyond)
		}
	}
	check()
	p.reopen()
	check()
}

func testWait(t *testing.T, p *place) {
	p.open()
	type answer struct {
		mark uint64
		err  error
	}
	wait := func(position uint64) chan answer {
		out := make(chan answer, 1)
		go func() {
			mark, err := p.log.Wait(p.ctx, position)
			out <- answer{mark, err}
		}()
		return out
	}
	if mark, err := p.log.Wait(p.ctx, 0); err != nil || mark != 0 {
		t.Errorf("wait for 0: %d, %v", mark, err)
	}
	second, beyond := wait(2), wait(1000)
	p.append(key("t"), batch(custom("x", 1)))
	p.append(key("t"), batch(custom("x", 2)))
	if a := <-second; a.err != nil || a.mark < 2 {
		t.Errorf("wait for 2: %+v", a)
	}
	if n := len(p.all(key("t"))); n != 2 {
		t.Errorf("%d records at the watermark", n)
	}
	if err := p.log.Close(); err != nil {
		t.Fatal(err)
	}
	a := <-beyond
	wantErr(t, "wait when the log closes", a.err, eventlog.ErrClosed)
	p.open()
}

func testClose(t *testing.T, p *place) {
	log := p.open()
	p.append(key("t"), batch(custom("x", 1)))
	w := p.begin(key("t"), "r")
	records := log.Read(p.ctx, key("t"), eventlog.ReadOptions{})
	p.close()
	if err := log.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
	_, err := log.Append(p.ctx, key("t"), batch(custom("x", 2)))
	wantErr(t, "append", err, eventlog.ErrClosed)
	_, err = log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: started("q")})
	wantErr(t, "begin", err, eventlog.ErrClosed)
	_, err = w.Append(p.ctx, custom("x", 2))
	wantErr(t, "write", err, eventlog.ErrClosed)
	wantErr(t, "enqueue", w.Enqueue(p.ctx, custom("x", 2)), eventlog.ErrClosed)
	wantErr(t, "end", w.End(p.ctx, "STOP", ""), eventlog.ErrClosed)
	_, err = log.Thread(p.ctx, key("t"))
	wantErr(t, "thread", err, eventlog.ErrClosed)
	_, err = log.Runs(p.ctx, key("t"))
	wantErr(t, "runs", err, eventlog.ErrClosed)
	_, err = log.Wait(p.ctx, 99)
	wantErr(t, "wait", err, eventlog.ErrClosed)
	failed := func(what string, errs func(func(error) bool)) {
		t.Helper()
		n := 0
		for err := range errs {
			n++
			wantErr(t, what, err, eventlog.ErrClosed)
		}
		if n != 1 {
			t.Errorf("%s: %d steps", what, n)
		}
	}
	failed("read", func(yield func(error) bool) {
		for _, err := range records {
			if !yield(err) {
				return
			}
		}
	})
	failed("threads", func(yield func(error) bool) {
		for _, err := range log.Threads(p.ctx, "s", "") {
			if !yield(err) {
				return
			}
		}
	})
	failed("commits", func(yield func(error) bool) {
		for _, err := range log.Commits(p.ctx, 0) {
			if !yield(err) {
				return
			}
		}
	})
	p.open()
	// Close while others write: each append is either there or says closed.
	log = p.log
	type outcome struct {
		acked int
		err   error
	}
	out := make(chan outcome)
	under := make(chan struct{}, 64)
	for g := range 8 {
		go func() {
			var o outcome
			for {
				if _, o.err = log.Append(context.WithoutCancel(p.ctx), key(fmt.Sprint("g", g)), batch(custom("x", o.acked))); o.err != nil {
					out <- o
					return
				}
				o.acked++
				select {
				case under <- struct{}{}:
				default:
				}
			}
		}()
	}
	for range 20 {
		<-under
	}
	p.close()
	acked := 0
	for range 8 {
		o := <-out
		if !errors.Is(o.err, eventlog.ErrClosed) {
			t.Errorf("append ended with %v", o.err)
		}
		acked += o.acked
	}
	p.open()
	found := 0
	for _, id := range p.listed("s", "f", 0) {
		if id[0] == 'g' {
			found += len(p.all(key(id)))
		}
	}
	if found != acked {
		t.Errorf("%d records of %d acknowledged", found, acked)
	}
}

func testReopen(t *testing.T, p *place) {
	p.open()
	incarnation := p.log.Incarnation()
	w := p.begin(key("t"), "r1")
	p.write(w, textStart("m"), text("m", "hello"), finished("r1"))
	p.append(key("t"), batch(custom("late", 1)))
	before, runs, th := p.all(key("t")), p.runs(key("t")), p.thread(key("t"))
	p.reopen()
	if got := p.log.Incarnation(); got != incarnation || got == "" {
		t.Errorf("incarnation %q, was %q", got, incarnation)
	}
	if after := p.all(key("t")); shape(after) != shape(before) || !slices.Equal(seqs(after), seqs(before)) {
		t.Errorf("records %s, were %s", shape(after), shape(before))
	}
	if after := p.runs(key("t")); !slices.Equal(after, runs) {
		t.Errorf("runs %+v, were %+v", after, runs)
	}
	if after := p.thread(key("t")); after != th {
		t.Errorf("thread %+v, was %+v", after, th)
	}
	if done := p.append(key("t"), batch(custom("x", 1))); done.First != th.LastSeq+1 || done.Position != 4 {
		t.Errorf("goes on with %+v behind %d", done, th.LastSeq)
	}
}
