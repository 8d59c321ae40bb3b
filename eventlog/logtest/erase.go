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

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// checkErased lists what is wrong with a thread that was erased: no call may
// give any of it, and its last receipt says so.
func checkErased(ctx context.Context, log eventlog.Log, k eventlog.ThreadKey) []error {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("erased thread %q: "+format, append([]any{k.Thread}, args...)...))
	}
	for r, err := range log.Read(ctx, k, eventlog.ReadOptions{}) {
		if !errors.Is(err, eventlog.ErrErased) {
			bad("read gives %+v, %v", r, err)
		}
	}
	if runs, err := log.Runs(ctx, k); !errors.Is(err, eventlog.ErrErased) {
		bad("its runs are %+v, %v", runs, err)
	}
	for t, err := range log.Threads(ctx, k.Scope, "") {
		if err != nil || t.Key == k {
			bad("listed: %+v, %v", t, err)
		}
	}
	var last eventlog.Receipt
	for r, err := range log.Receipts(ctx, k.Scope, k.Thread) {
		if err != nil {
			return append(faults, err)
		}
		last = r
	}
	if last.Removal != eventlog.RemovalErase || last.Thread != k {
		bad("its last receipt is %+v", last)
	}
	return faults
}

// erased fails unless every call for the thread says that it was erased.
func (p *place) erased(k eventlog.ThreadKey, reason string) {
	p.t.Helper()
	_, thread := p.log.Thread(p.ctx, k)
	_, runs := p.log.Runs(p.ctx, k)
	_, appended := p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{custom("x", 1)}})
	_, begun := p.log.BeginRun(p.ctx, k, eventlog.RunStart{Started: started("again")})
	_, cleared := p.log.Clear(p.ctx, k, eventlog.RemoveOptions{})
	_, redacted := p.log.Redact(p.ctx, k, eventlog.Redaction{Message: "m"}, eventlog.RemoveOptions{})
	var read error
	for _, err := range p.log.Read(p.ctx, k, eventlog.ReadOptions{}) {
		read = err
	}
	for what, err := range map[string]error{
		"describe": thread, "runs": runs, "append": appended, "begin": begun, "clear": cleared, "redact": redacted, "read": read,
	} {
		var why *eventlog.ErasedError
		if !errors.Is(err, eventlog.ErrErased) || !errors.As(err, &why) || why.Reason != reason || why.Time.IsZero() {
			p.t.Errorf("%s: %v", what, err)
		}
	}
}

func (p *place) receipts(scope, thread string) []eventlog.Receipt {
	p.t.Helper()
	var out []eventlog.Receipt
	for r, err := range p.log.Receipts(p.ctx, scope, thread) {
		if err != nil {
			p.t.Fatalf("receipts: %v", err)
		}
		out = append(out, r)
	}
	return out
}

// An erased thread is gone for every call and for ever, its writers are told, the
// receipt stays, and no other thread feels anything of it.
func testErase(t *testing.T, p *place) {
	p.open()
	k, other := key("th-1"), key("th-10")
	w := p.begin(k, "r")
	p.write(w, custom("x", 1))
	p.append(other, eventlog.Batch{Events: [][]byte{custom("x", 2)}})
	if _, err := p.log.Erase(p.ctx, k, eventlog.RemoveOptions{Expect: eventlog.LastSeq(1)}); !errors.Is(err, eventlog.ErrConflict) {
		t.Errorf("erase at another seq: %v", err)
	}
	plan, err := p.log.Erase(p.ctx, k, eventlog.RemoveOptions{DryRun: true})
	if err != nil || plan.Removed || plan.Number != 0 || plan.Place(eventlog.PlaceRecords).Count != 2 {
		t.Errorf("dry run: %+v, %v", plan, err)
	}
	if got := len(p.all(k)); got != 2 {
		t.Fatalf("the dry run has left %d records", got)
	}
	r, err := p.log.Erase(p.ctx, k, eventlog.RemoveOptions{Reason: "asked to", Actor: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Removed || r.Gone.IsZero() || r.Reason != "asked to" || r.Actor != "me" || r.First != 1 || r.Last != 2 ||
		r.Place(eventlog.PlaceRecords).Count != 2 || r.Place(eventlog.PlaceRuns).Count != 1 || r.Thread != k {
		t.Errorf("receipt %+v", r)
	}
	if _, err := w.Append(p.ctx, custom("x", 3)); !errors.Is(err, eventlog.ErrErased) {
		t.Errorf("its writer: %v", err)
	}
	if err := w.End(p.ctx, "C", "m"); !errors.Is(err, eventlog.ErrErased) {
		t.Errorf("its writer's end: %v", err)
	}
	for range 2 {
		p.erased(k, "asked to")
		again, err := p.log.Erase(p.ctx, k, eventlog.RemoveOptions{Reason: "once more"})
		if err != nil || fmt.Sprint(again) != fmt.Sprint(r) {
			t.Errorf("erased again: %+v, %v; was %+v", again, err, r)
		}
		if got := p.all(other); len(got) != 1 || got[0].Seq != 1 {
			t.Errorf("another thread: %+v", got)
		}
		p.reopen()
	}
	if _, err := p.log.Erase(p.ctx, key("none"), eventlog.RemoveOptions{}); !errors.Is(err, eventlog.ErrThreadNotFound) {
		t.Errorf("erase of no thread: %v", err)
	}
	long := eventlog.RemoveOptions{Reason: strings.Repeat("x", 2000)}
	if _, err := p.log.Erase(p.ctx, other, long); !errors.Is(err, eventlog.ErrTooLarge) {
		t.Errorf("a long reason: %v", err)
	}
}

// What others append while a thread is erased is in the receipt, with the commits
// that wrote it, or is refused: also what is committed together with the erasure.
func testEraseAmongAppends(t *testing.T, p *place) {
	p.open()
	for n := range 20 {
		k := key(fmt.Sprint("t", n))
		p.append(k, eventlog.Batch{Events: [][]byte{custom("x", 0)}})
		var all sync.WaitGroup
		last := make([]uint64, 8)
		for i := range last {
			all.Go(func() {
				done, err := p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{custom("x", i)}})
				if err != nil && !errors.Is(err, eventlog.ErrErased) {
					t.Errorf("append: %v", err)
				}
				last[i] = done.Last
			})
		}
		r, err := p.log.Erase(p.ctx, k, eventlog.RemoveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if slices.Max(last) > r.Last || r.Place(eventlog.PlaceRecords).Count != r.Last {
			t.Errorf("seq %d was acknowledged, erased were %d records up to seq %d", slices.Max(last), r.Place(eventlog.PlaceRecords).Count, r.Last)
		}
		positions := make(map[uint64]uint64) // by seq
		for c, err := range p.log.Commits(p.ctx, 0) {
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint64(c.Count) {
				if c.Thread == k {
					positions[c.First+i] = c.Position
				}
			}
		}
		if r.FirstPosition != positions[r.First] || r.LastPosition != positions[r.Last] {
			t.Errorf("seq %d and %d are of commits %d and %d, the receipt says %d and %d",
				r.First, r.Last, positions[r.First], positions[r.Last], r.FirstPosition, r.LastPosition)
		}
	}
}

// A cleared thread goes on: seqs where they were, ids of runs anew, keys of before
// refused, and whoever asks for what is gone is told of the gap.
func testClear(t *testing.T, p *place) {
	p.open()
	k := key("t")
	p.append(k, eventlog.Batch{Events: [][]byte{started("r"), custom("x", 1), finished("r")}, Key: "old"})
	p.append(k, eventlog.Batch{Events: [][]byte{started("r2"), finished("r2")}})
	r, err := p.log.Clear(p.ctx, k, eventlog.RemoveOptions{Reason: "why"})
	if err != nil || !r.Removed || r.First != 1 || r.Last != 5 || r.Place(eventlog.PlaceRuns).Count != 2 || r.Place(eventlog.PlaceKeys).Count != 1 {
		t.Fatalf("receipt %+v, %v", r, err)
	}
	for range 2 {
		if th := p.thread(k); !th.Updated.Equal(r.Time) {
			t.Errorf("it was updated %v, and cleared %v", th.Updated, r.Time)
		}
		if th := p.thread(k); th.Generation != 1 || th.FirstSeq != 6 || th.LastSeq != 5 || th.Runs != 0 || !th.Head.IsZero() || th.Removals != 1 {
			t.Errorf("thread %+v", th)
		}
		if got := p.all(k); len(got) != 0 {
			t.Errorf("%d records are left", len(got))
		}
		p.reopen()
	}
	done := p.append(k, eventlog.Batch{Events: [][]byte{started("r"), custom("x", 7), finished("r")}, Key: "new"})
	if done.First != 6 {
		t.Errorf("goes on with %+v", done)
	}
	if again := p.append(k, eventlog.Batch{Events: [][]byte{started("r"), custom("x", 7), finished("r")}, Key: "new"}); !again.Duplicate {
		t.Errorf("a key of the new generation: %+v", again)
	}
	for range 2 {
		_, err = p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{started("r"), custom("x", 1), finished("r")}, Key: "old"})
		var used *eventlog.KeyErasedError
		if !errors.Is(err, eventlog.ErrErased) || !errors.As(err, &used) || used.First != 1 || used.Last != 3 || used.Key != "old" {
			t.Errorf("a key of before: %v", err)
		}
		runs := p.runs(k)
		if len(runs) != 1 || runs[0].Key != (agui.RunKey{ID: "r", Attempt: 1}) || runs[0].FirstSeq != 6 || runs[0].Status != agui.RunSuccess {
			t.Errorf("runs %+v", runs)
		}
		if got := p.all(k); len(got) != 3 || got[0].Seq != 6 || got[0].Run.ID != "r" {
			t.Errorf("records %+v", got)
		}
		p.gap(k, eventlog.ReadOptions{From: 2}, 2, 5, 3)
		p.gap(k, eventlog.ReadOptions{From: 1, To: 4}, 1, 5, 0)
		p.gap(k, eventlog.ReadOptions{From: 5, To: 7}, 5, 5, 2)
		if got := p.read(k, eventlog.ReadOptions{From: 6}); len(got) != 3 {
			t.Errorf("from the first: %d records", len(got))
		}
		p.reopen()
	}
	if _, err := p.log.Clear(p.ctx, k, eventlog.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if th := p.thread(k); th.Generation != 2 || th.FirstSeq != 9 || th.LastSeq != 8 {
		t.Errorf("cleared twice: %+v", th)
	}
	if _, err := p.log.Erase(p.ctx, k, eventlog.RemoveOptions{Reason: "last"}); err != nil {
		t.Fatal(err)
	}
	p.erased(k, "last")
	if got := p.receipts(k.Scope, k.Thread); len(got) != 3 || got[2].Removal != eventlog.RemovalErase || got[1].Generation != 1 {
		t.Errorf("receipts %+v", got)
	}
}

// gap fails unless a read tells of a gap and then gives so many records.
func (p *place) gap(k eventlog.ThreadKey, o eventlog.ReadOptions, from, to uint64, records int) {
	p.t.Helper()
	var gaps []*eventlog.GapError
	seen := 0
	for r, err := range p.log.Read(p.ctx, k, o) {
		var gap *eventlog.GapError
		switch {
		case errors.As(err, &gap) && errors.Is(err, eventlog.ErrGap) && seen == 0:
			gaps = append(gaps, gap)
		case err != nil:
			p.t.Fatalf("read %+v: %v", o, err)
		default:
			if seen++; r.Seq <= to {
				p.t.Errorf("read %+v gives seq %d", o, r.Seq)
			}
		}
	}
	if len(gaps) != 1 || *gaps[0] != (eventlog.GapError{From: from, To: to, Reason: eventlog.RemovalClear}) || seen != records {
		p.t.Errorf("read %+v: gaps %v and %d records", o, gaps, seen)
	}
}

// A run that is being written keeps a thread from being cleared, unless it is
// taken over: then its writer is fenced and changes nothing.
func testClearOfALiveRun(t *testing.T, p *place) {
	p.open()
	k := key("t")
	w := p.begin(k, "r")
	p.write(w, custom("x", 1))
	var active *eventlog.RunActiveError
	if _, err := p.log.Clear(p.ctx, k, eventlog.RemoveOptions{}); !errors.Is(err, eventlog.ErrRunActive) || !errors.As(err, &active) || active.Run.ID != "r" {
		t.Fatalf("clear: %v", err)
	}
	p.write(w, custom("x", 2))
	if _, err := p.log.Clear(p.ctx, k, eventlog.RemoveOptions{TakeOver: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(p.ctx, custom("x", 3)); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("its writer: %v", err)
	}
	if err := w.End(p.ctx, "C", "m"); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("its writer's end: %v", err)
	}
	again := p.begin(k, "r")
	p.write(again, custom("x", 4), finished("r"))
	if got := p.all(k); len(got) != 3 || got[0].Seq != 4 {
		t.Errorf("records %+v", got)
	}
}

// Redacting a message takes what it says out of every record that carries it, and
// changes nothing else.
func testRedact(t *testing.T, p *place) {
	p.open()
	k := key("t")
	const secret = "hunter2"
	events := [][]byte{
		[]byte(`{"type":"RUN_STARTED","runId":"r","input":{"messages":[{"id":"u","role":"user","content":"my word is hunter2"}]}}`),
		[]byte(`{"type":"TEXT_MESSAGE_START","messageId":"a","role":"assistant"}`),
		[]byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"so hunter2"}`),
		[]byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"not this"}`),
		[]byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":" is hunter2"}`),
		[]byte(`{"type":"TEXT_MESSAGE_END","messageId":"a"}`),
		finished("r"),
	}
	p.append(k, eventlog.Batch{Events: events})
	before := p.all(k)
	for _, what := range []eventlog.Redaction{{Message: "u"}, {Seq: 5}} {
		plan, err := p.log.Redact(p.ctx, k, what, eventlog.RemoveOptions{DryRun: true})
		if err != nil || plan.Place(eventlog.PlaceRecords).Count == 0 || plan.Number != 0 {
			t.Errorf("dry run: %+v, %v", plan, err)
		}
		r, err := p.log.Redact(p.ctx, k, what, eventlog.RemoveOptions{Reason: "leaked"})
		if err != nil || !r.Removed || r.Gone.IsZero() {
			t.Fatalf("receipt %+v, %v", r, err)
		}
		again, err := p.log.Redact(p.ctx, k, what, eventlog.RemoveOptions{})
		if err != nil || fmt.Sprint(again) != fmt.Sprint(r) {
			t.Errorf("again: %+v, %v; was %+v", again, err, r)
		}
	}
	for range 2 {
		after := p.all(k)
		if len(after) != len(before) {
			t.Fatalf("%d records, were %d", len(after), len(before))
		}
		changed := map[uint64]bool{1: true, 3: true, 5: true}
		for i, r := range after {
			was := before[i]
			if r.Redacted != changed[r.Seq] || bytes.Contains(r.Event, []byte(secret)) {
				t.Errorf("record %d: %+v %s", r.Seq, r.Redacted, r.Event)
			}
			if !changed[r.Seq] && !bytes.Equal(r.Event, was.Event) || r.Seq != was.Seq || r.Type != was.Type || r.Run != was.Run || r.Position != was.Position || !r.Time.Equal(was.Time) {
				t.Errorf("record %+v, was %+v", r, was)
			}
		}
		if th := p.thread(k); th.Removals != 2 || th.Generation != 0 {
			t.Errorf("thread %+v", th)
		}
		p.reopen()
	}
	for _, what := range []eventlog.Redaction{{Message: "none"}, {Seq: 99}} {
		if _, err := p.log.Redact(p.ctx, k, what, eventlog.RemoveOptions{}); !errors.Is(err, eventlog.ErrNotFound) {
			t.Errorf("redact %+v: %v", what, err)
		}
	}
	if _, err := p.log.Redact(p.ctx, k, eventlog.Redaction{Seq: 7}, eventlog.RemoveOptions{}); !errors.Is(err, eventlog.ErrInvalid) {
		t.Errorf("redact of what is no message: %v", err)
	}
	w := p.begin(k, "live")
	p.write(w, []byte(`{"type":"TEXT_MESSAGE_START","messageId":"x"}`), []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"x","delta":"hunter2"}`))
	if _, err := p.log.Redact(p.ctx, k, eventlog.Redaction{Message: "x"}, eventlog.RemoveOptions{}); !errors.Is(err, eventlog.ErrRunActive) {
		t.Errorf("redact in a live run: %v", err)
	}
	if _, err := p.log.Redact(p.ctx, k, eventlog.Redaction{Message: "x"}, eventlog.RemoveOptions{TakeOver: true}); err != nil {
		t.Errorf("redact in a live run, on request: %v", err)
	}
	p.write(w, finished("live"))
}

// Scopes are walls for what removes, too.
func testRemovalScopes(t *testing.T, p *place) {
	p.open()
	a, b := eventlog.ThreadKey{Scope: "a", Thread: "inbox"}, eventlog.ThreadKey{Scope: "b", Thread: "inbox"}
	events := [][]byte{started("r"), []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}`), finished("r")}
	p.append(a, eventlog.Batch{Events: events})
	p.append(b, eventlog.Batch{Events: events})
	want := fmt.Sprint(p.all(b))
	if _, err := p.log.Redact(p.ctx, a, eventlog.Redaction{Message: "m"}, eventlog.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.log.Clear(p.ctx, a, eventlog.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.log.Erase(p.ctx, a, eventlog.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.all(b)); got != want {
		t.Errorf("the thread of the other scope: %s", got)
	}
	if got := p.receipts("b", ""); len(got) != 0 {
		t.Errorf("receipts of the other scope: %+v", got)
	}
	if got := p.receipts("a", ""); len(got) != 3 {
		t.Errorf("receipts: %+v", got)
	}
}
