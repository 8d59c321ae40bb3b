package logtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

func run(id string) agui.RunKey { return agui.RunKey{ID: id, Attempt: 1} }

// testOneStartWins is L2.
func testOneStartWins(t *testing.T, p *place) {
	p.open()
	for round := range 10 {
		k := key(fmt.Sprint("t", round))
		var wg sync.WaitGroup
		writers, errs := make([]eventlog.Writer, 2), make([]error, 2)
		for i := range writers {
			wg.Go(func() {
				writers[i], errs[i] = p.log.BeginRun(p.ctx, k, eventlog.RunStart{Started: started(fmt.Sprint("r", i))})
			})
		}
		wg.Wait()
		winner := slices.Index(errs, nil)
		if winner < 0 {
			t.Fatalf("nobody won: %v", errs)
		}
		e := wantAs[*eventlog.RunActiveError](t, "the loser", errs[1-winner], eventlog.ErrRunActive)
		if e.Run != writers[winner].Lease().Run || e.Owner == "" {
			t.Errorf("%+v, the winner is %v", e, writers[winner].Lease())
		}
		if n := len(p.runs(k)); n != 1 {
			t.Errorf("%d runs", n)
		}
		if err := writers[winner].End(p.ctx, "STOP", ""); err != nil {
			t.Fatal(err)
		}
	}
}

func testRunExists(t *testing.T, p *place) {
	p.open()
	digest := [16]byte{1, 2, 3}
	w, err := p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: started("r"), InputDigest: digest})
	if err != nil {
		t.Fatal(err)
	}
	again := func(status agui.RunStatus) {
		t.Helper()
		_, err := p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: started("r"), Expect: eventlog.LastSeq(0)})
		e := wantAs[*eventlog.RunExistsError](t, "again", err, eventlog.ErrRunExists)
		wantErr(t, "again", err, eventlog.ErrConflict)
		if e.Run != run("r") || e.Status != status || e.InputDigest != digest {
			t.Errorf("%+v", e)
		}
	}
	again(agui.RunRunning)
	p.write(w, finished("r"))
	again(agui.RunSuccess)
	p.reopen()
	again(agui.RunSuccess)
}

func testWriterAppends(t *testing.T, p *place) {
	p.open()
	w := p.begin(key("t"), "r1")
	if l := w.Lease(); l.Thread != key("t") || l.Run != run("r1") || l.Epoch == 0 || l.Owner == "" || w.First() != 1 {
		t.Errorf("lease %+v, first %d", l, w.First())
	}
	if r := p.runs(key("t"))[0]; !r.Held || !r.Running() || r.Owner != w.Lease().Owner || r.Epoch != w.Lease().Epoch || r.Origin != eventlog.OriginStore || r.Started.IsZero() || !r.Ended.IsZero() {
		t.Errorf("run %+v", r)
	}
	if done := p.write(w, textStart("m"), text("m", "a")); done.First != 2 || done.Last != 3 {
		t.Errorf("%+v", done)
	}
	_, err := w.Append(p.ctx, text("m", "b"), []byte("{}"))
	wantErr(t, "an invalid event", err, eventlog.ErrInvalidEvent)
	p.write(w, text("m", "c"))
	p.write(w, finished("r1"))
	records := p.all(key("t"))
	wantShape(t, records, "RUN_STARTED@r1", "TEXT_MESSAGE_START@r1", "TEXT_MESSAGE_CONTENT@r1", "TEXT_MESSAGE_CONTENT@r1", "RUN_FINISHED@r1")
	if records[0].Origin != eventlog.OriginStore || records[1].Origin != eventlog.OriginAgent {
		t.Errorf("origins %v, %v", records[0].Origin, records[1].Origin)
	}
	if r := p.runs(key("t"))[0]; r.Held || r.Status != agui.RunSuccess || r.Events != 5 || r.EndSeq != 5 || r.Ended.IsZero() {
		t.Errorf("run %+v", r)
	}
	second := p.begin(key("t"), "r2")
	if second.Lease().Epoch <= w.Lease().Epoch {
		t.Errorf("epoch %d behind %d", second.Lease().Epoch, w.Lease().Epoch)
	}
	if r := p.runs(key("t"))[1]; r.Parent != run("r1") || r.ParentSeq != 5 {
		t.Errorf("run %+v", r)
	}
	p.write(second, finished("r2"))
}

func testWriterPipeline(t *testing.T, p *place) {
	p.open()
	w := p.begin(key("t"), "r")
	n := 5000
	if testing.Short() {
		n = 500
	}
	for i := range n {
		if err := w.Enqueue(p.ctx, custom("x", i)); err != nil {
			t.Fatal(err)
		}
	}
	wantErr(t, "an invalid event", w.Enqueue(p.ctx, []byte("[]")), eventlog.ErrInvalidEvent)
	if last, err := w.Sync(p.ctx); err != nil || last != uint64(n+1) {
		t.Fatalf("sync: %d, %v", last, err)
	}
	for i, r := range p.read(key("t"), eventlog.ReadOptions{From: 2}) {
		if string(r.Event) != string(custom("x", i)) {
			t.Fatalf("record %d is %s", r.Seq, r.Event)
		}
	}
	if err := w.Enqueue(p.ctx, custom("y", 1), finished("r")); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "behind the end", w.Enqueue(p.ctx, custom("z", 1)), eventlog.ErrFenced)
	if last, err := w.Sync(p.ctx); err != nil || last != uint64(n+3) {
		t.Fatalf("sync: %d, %v", last, err)
	}
	p.crash()
	if th := p.thread(key("t")); th.LastSeq != uint64(n+3) {
		t.Errorf("last seq %d", th.LastSeq)
	}
}

// testFencedAfterEnd is L5.
func testFencedAfterEnd(t *testing.T, p *place) {
	p.open()
	w := p.begin(key("t"), "r1")
	_, err := w.Append(p.ctx, finished("r1"), custom("late", 1))
	wantErr(t, "behind the end in one call", err, eventlog.ErrFenced)
	if n := len(p.all(key("t"))); n != 1 {
		t.Errorf("%d records: some of the call were written", n)
	}
	if err := w.End(p.ctx, "STOP", "cancelled"); err != nil {
		t.Fatal(err)
	}
	before := p.all(key("t"))
	_, err = w.Append(p.ctx, custom("late", 2))
	if e := wantAs[*eventlog.FencedError](t, "append", err, eventlog.ErrFenced); e.Run != run("r1") || e.Epoch != w.Lease().Epoch || e.Status != agui.RunFailed {
		t.Errorf("%+v", e)
	}
	wantErr(t, "enqueue", w.Enqueue(p.ctx, custom("late", 3)), eventlog.ErrFenced)
	second := p.begin(key("t"), "r2")
	if err := w.End(p.ctx, "STOP", "again"); err != nil {
		t.Errorf("a second end: %v", err)
	}
	if got := p.all(key("t")); len(got) != len(before)+1 {
		t.Errorf("%s", shape(got))
	}
	if r := p.runs(key("t"))[1]; !r.Running() || !r.Held {
		t.Errorf("the late stop hit %+v", r)
	}
	p.write(second, finished("r2"))
}

func testEndClosesWhatIsOpen(t *testing.T, p *place) {
	p.open()
	w := p.begin(key("t"), "r")
	p.write(w, []byte(`{"type":"STEP_STARTED","stepName":"s"}`), textStart("m"), text("m", "half a"),
		[]byte(`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`))
	if err := w.End(p.ctx, agui.CodeAbandoned, "stopped"); err != nil {
		t.Fatal(err)
	}
	records := p.all(key("t"))
	wantShape(t, records, "RUN_STARTED@r", "STEP_STARTED@r", "TEXT_MESSAGE_START@r", "TEXT_MESSAGE_CONTENT@r", "TOOL_CALL_START@r",
		"TEXT_MESSAGE_END@r", "TOOL_CALL_END@r", "STEP_FINISHED@r", "RUN_ERROR@r")
	for _, r := range records[5:] {
		if r.Origin != eventlog.OriginStore {
			t.Errorf("seq %d has origin %v", r.Seq, r.Origin)
		}
	}
	if r := p.runs(key("t"))[0]; r.Status != agui.RunAbandoned || r.Held {
		t.Errorf("run %+v", r)
	}
}

func testEcho(t *testing.T, p *place) {
	p.open()
	w := p.begin(key("t"), "r")
	p.write(w, started("r"))
	p.write(w, started("another id of the agent's"), custom("x", 1), finished("r"))
	wantShape(t, p.all(key("t")), "RUN_STARTED@r", "RUN_STARTED@r(echo)", "RUN_STARTED@r(echo)", "CUSTOM@r", "RUN_FINISHED@r")
	if n := len(p.runs(key("t"))); n != 1 {
		t.Errorf("%d runs", n)
	}
	p.append(key("i"), eventlog.Batch{Origin: eventlog.OriginImport, Events: [][]byte{started("r"), started("r"), finished("r"), started("r")}})
	wantShape(t, p.all(key("i")), "RUN_STARTED@r", "RUN_STARTED@r(echo)", "RUN_FINISHED@r", "RUN_STARTED@r#2")
	if th := p.thread(key("i")); th.Head != (agui.RunKey{ID: "r", Attempt: 2}) || th.Runs != 2 {
		t.Errorf("%+v", th)
	}
}

func testLineage(t *testing.T, p *place) {
	p.open()
	p.append(key("t"), batch(custom("before", 0)))
	for i := 1; i <= 3; i++ {
		w := p.begin(key("t"), fmt.Sprint("r", i))
		p.write(w, custom("x", i), finished(fmt.Sprint("r", i)))
	}
	parent := run("r1")
	w, err := p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: started("b"), Parent: &parent})
	if err != nil {
		t.Fatal(err)
	}
	p.write(w, finished("b"))
	// A late record of r1 lies behind the point at which b branched off.
	p.append(key("t"), eventlog.Batch{Events: [][]byte{custom("late", 1)}, Run: run("r1")})
	lineage := func(id string, o eventlog.ReadOptions) []uint64 {
		k := run(id)
		o.Lineage = &k
		return seqs(p.read(key("t"), o))
	}
	check := func() {
		t.Helper()
		for _, want := range []struct {
			run  string
			seqs []uint64
		}{
			{"r1", []uint64{1, 2, 3, 4, 13}},
			{"r2", []uint64{1, 2, 3, 4, 5, 6, 7}},
			{"r3", []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
			{"b", []uint64{1, 2, 3, 4, 11, 12}},
		} {
			if got := lineage(want.run, eventlog.ReadOptions{}); !slices.Equal(got, want.seqs) {
				t.Errorf("lineage of %s: %v, want %v", want.run, got, want.seqs)
			}
		}
		if got := lineage("b", eventlog.ReadOptions{From: 4, To: 11}); !slices.Equal(got, []uint64{4, 11}) {
			t.Errorf("part of a lineage: %v", got)
		}
		if got := seqs(p.read(key("t"), eventlog.ReadOptions{Lineage: &agui.RunKey{}})); !slices.Equal(got, []uint64{1}) {
			t.Errorf("lineage of no run: %v", got)
		}
		if th := p.thread(key("t")); th.Head != run("b") {
			t.Errorf("head %v", th.Head)
		}
	}
	check()
	for _, err := range p.log.Read(p.ctx, key("t"), eventlog.ReadOptions{Lineage: &agui.RunKey{ID: "none", Attempt: 1}}) {
		wantErr(t, "an unknown run", err, eventlog.ErrRunNotFound)
	}
	p.reopen()
	check()
}

func testExplicitParents(t *testing.T, p *place) {
	p.open()
	p.append(key("t"), batch(started("a"), finished("a"), started("b")))
	for _, bad := range []struct {
		parent agui.RunKey
		want   error
	}{{run("none"), eventlog.ErrRunNotFound}, {agui.RunKey{ID: "a", Attempt: 2}, eventlog.ErrRunNotFound}, {run("b"), eventlog.ErrRunActive}} {
		_, err := p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: started("c"), Parent: &bad.parent})
		wantErr(t, "begin", err, bad.want)
		_, err = p.log.Append(p.ctx, key("t"), eventlog.Batch{Events: [][]byte{started("c")}, Parent: &bad.parent})
		wantErr(t, "append", err, bad.want)
	}
	root, a := agui.RunKey{}, run("a")
	p.append(key("t"), eventlog.Batch{Events: [][]byte{finished("b"), started("c"), finished("c"), started("d"), finished("d")}, Parent: &a})
	p.append(key("t"), eventlog.Batch{Events: [][]byte{started("e"), finished("e")}, Parent: &root})
	w, err := p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: started("f"), Parent: &root})
	if err != nil {
		t.Fatal(err)
	}
	p.write(w, finished("f"))
	p.append(key("t"), batch(startedFrom("g", "a"), finished("g"), startedFrom("h", "nobody"), finished("h"), startedFrom("i", "root")))
	parents := make(map[string]string)
	for _, r := range p.runs(key("t")) {
		parents[r.Key.ID] = r.Parent.ID
	}
	for id, want := range map[string]string{"a": "", "b": "a", "c": "a", "d": "c", "e": "", "f": "", "g": "a", "h": "g", "i": ""} {
		if parents[id] != want {
			t.Errorf("parent of %s is %q, want %q", id, parents[id], want)
		}
	}
	for _, r := range p.all(key("t")) {
		if r.UnknownParent != (r.Type == agui.TypeRunStarted && r.Run == run("h")) {
			t.Errorf("seq %d: unknown parent %v", r.Seq, r.UnknownParent)
		}
	}
}

func testConcurrentBranch(t *testing.T, p *place) {
	p.open()
	p.write(p.begin(key("t"), "a"), finished("a"))
	live := p.begin(key("t"), "b")
	_, err := p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: started("c")})
	wantErr(t, "behind the live head", err, eventlog.ErrRunActive)
	_, err = p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: startedFrom("c", "a")})
	wantErr(t, "the event's parent does not place a run, the caller's does", err, eventlog.ErrRunActive)
	parent := run("a")
	w, err := p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: startedFrom("c", "a"), Parent: &parent})
	if err != nil {
		t.Fatal(err)
	}
	p.write(w, custom("c", 1))
	p.write(live, custom("b", 1))
	p.write(w, finished("c"))
	p.write(live, finished("b"))
	wantShape(t, p.read(key("t"), eventlog.ReadOptions{From: 3}), "RUN_STARTED@b", "RUN_STARTED@c", "CUSTOM@c", "CUSTOM@b", "RUN_FINISHED@c", "RUN_FINISHED@b")
}

func testRawAppendBesideAWriter(t *testing.T, p *place) {
	p.open()
	p.append(key("t"), batch(started("a"), finished("a")))
	w := p.begin(key("t"), "b")
	for _, bad := range []struct {
		what  string
		batch eventlog.Batch
	}{
		{"an event without a run goes to the live one", batch(custom("x", 1))},
		{"an event that names it", batch(finished("b"))},
		{"an explicit run", eventlog.Batch{Events: [][]byte{custom("x", 1)}, Run: run("b")}},
		{"a start behind it", batch(started("c"))},
		{"a start with a pointer to nothing", batch(startedFrom("c", "nobody"))},
		{"its own start", batch(started("b"))},
		{"the second event", eventlog.Batch{Events: [][]byte{startedFrom("c", "a"), finished("c"), finished("b")}}},
	} {
		before := p.log.Watermark()
		_, err := p.log.Append(p.ctx, key("t"), bad.batch)
		if e := wantAs[*eventlog.RunActiveError](t, bad.what, err, eventlog.ErrRunActive); e.Run != run("b") {
			t.Errorf("%s: %+v", bad.what, e)
		}
		if p.log.Watermark() != before {
			t.Errorf("%s: something was written", bad.what)
		}
	}
	p.append(key("t"), eventlog.Batch{Events: [][]byte{custom("x", 1)}, Run: run("a")})
	p.append(key("t"), batch(startedFrom("c", "a"), finished("c")))
	p.write(w, custom("y", 1), finished("b"))
	wantShape(t, p.read(key("t"), eventlog.ReadOptions{From: 3}), "RUN_STARTED@b", "CUSTOM@a", "RUN_STARTED@c", "RUN_FINISHED@c", "CUSTOM@b", "RUN_FINISHED@b")
}

// testRawRuns shows decision 2 and 3 for streams without a lease.
func testRawRuns(t *testing.T, p *place) {
	p.open()
	p.append(key("t"), batch(custom("before", 1), started("a"), textStart("m")))
	p.append(key("t"), batch(started("b"), custom("x", 1)))
	p.reopen() // what is open must be known again
	p.append(key("t"), batch(text("m", "of a"), finished("b"), custom("y", 1), finished("a"), custom("late", 1)))
	wantShape(t, p.all(key("t")), "CUSTOM", "RUN_STARTED@a", "TEXT_MESSAGE_START@a", "RUN_STARTED@b", "CUSTOM@b",
		"TEXT_MESSAGE_CONTENT@a", "RUN_FINISHED@b", "CUSTOM@a", "RUN_FINISHED@a", "CUSTOM@b")
	runs := p.runs(key("t"))
	if runs[1].Parent != run("a") || runs[1].ParentSeq != 0 {
		t.Errorf("overlapping runs: %+v", runs[1].Run)
	}
	if runs[0].Held || runs[0].Epoch != 0 {
		t.Errorf("a raw run is held: %+v", runs[0])
	}
}

func testImplicitLease(t *testing.T, p *place) {
	clock := newClock()
	p.config.Now = clock.now
	p.open()
	p.append(key("t"), batch(started("a"), textStart("m")))
	start := func() (eventlog.Writer, error) {
		return p.log.BeginRun(p.ctx, key("t"), eventlog.RunStart{Started: started("b")})
	}
	clock.add(9 * time.Minute)
	_, err := start()
	if e := wantAs[*eventlog.RunActiveError](t, "within 10 minutes", err, eventlog.ErrRunActive); e.Run != run("a") {
		t.Errorf("%+v", e)
	}
	p.append(key("t"), batch(text("m", "still here")))
	clock.add(9 * time.Minute)
	p.crash()
	_, err = start()
	wantErr(t, "within 10 minutes of the latest append", err, eventlog.ErrRunActive)
	clock.add(2 * time.Minute)
	w, err := start()
	if err != nil {
		t.Fatal(err)
	}
	p.write(w, finished("b"))
	wantShape(t, p.read(key("t"), eventlog.ReadOptions{From: 4}), "TEXT_MESSAGE_END@a", "RUN_ERROR@a", "RUN_STARTED@b", "RUN_FINISHED@b")
}

func testTakeOverOfAnImport(t *testing.T, p *place) {
	p.open()
	p.append(key("t"), eventlog.Batch{Origin: eventlog.OriginImport, Events: [][]byte{started("a"), textStart("m"), text("m", "cut o")}})
	p.crash()
	if r := p.runs(key("t"))[0]; !r.Running() || r.Held {
		t.Fatalf("opening touched an import: %+v", r)
	}
	position := p.log.Watermark()
	w := p.begin(key("t"), "b")
	if got := p.log.Watermark(); got != position+1 || w.First() != 6 {
		t.Errorf("taken over in %d commits, first %d", got-position, w.First())
	}
	p.write(w, finished("b"))
	wantShape(t, p.all(key("t")), "RUN_STARTED@a", "TEXT_MESSAGE_START@a", "TEXT_MESSAGE_CONTENT@a", "TEXT_MESSAGE_END@a", "RUN_ERROR@a", "RUN_STARTED@b", "RUN_FINISHED@b")
	runs := p.runs(key("t"))
	if runs[0].Status != agui.RunAbandoned || runs[1].Parent != run("a") || runs[1].ParentSeq != 5 {
		t.Errorf("%+v", runs)
	}
}

// testRecovery is L1.
func testRecovery(t *testing.T, p *place) {
	p.open()
	w := p.begin(key("t"), "r")
	p.write(w, textStart("m"), text("m", "half a"))
	p.begin(key("u"), "r")
	p.append(key("v"), batch(started("raw")))
	p.crash()
	check := func() {
		t.Helper()
		records := p.all(key("t"))
		wantShape(t, records, "RUN_STARTED@r", "TEXT_MESSAGE_START@r", "TEXT_MESSAGE_CONTENT@r", "TEXT_MESSAGE_END@r", "RUN_ERROR@r")
		if records[3].Position != records[4].Position || records[4].Origin != eventlog.OriginStore {
			t.Errorf("closed by %+v and %+v", records[3], records[4])
		}
		wantShape(t, p.all(key("u")), "RUN_STARTED@r", "RUN_ERROR@r")
		wantShape(t, p.all(key("v")), "RUN_STARTED@raw")
		if r := p.runs(key("t"))[0]; r.Status != agui.RunAbandoned || r.Held || r.Ended.IsZero() {
			t.Errorf("run %+v", r)
		}
	}
	check()
	p.crash() // recovery is done once
	check()
	next := p.begin(key("t"), "r2")
	if next.First() != 6 || next.Lease().Epoch <= w.Lease().Epoch {
		t.Errorf("next run: first %d, lease %+v", next.First(), next.Lease())
	}
	p.write(next, finished("r2"))
}

func testCrashKeepsTheAcknowledged(t *testing.T, p *place) {
	p.open()
	acked := make(map[eventlog.ThreadKey]uint64)
	for round := range 5 {
		for i := range 30 {
			k := key(fmt.Sprint("t", i%4))
			done, err := p.log.Append(p.ctx, k, batch(custom("x", round), custom("y", i)))
			if err != nil {
				t.Fatal(errors.Join(fmt.Errorf("round %d", round), err))
			}
			acked[k] = done.Last
		}
		p.crash()
		p.sound()
		for k, want := range acked {
			if got := p.thread(k).LastSeq; got != want {
				t.Fatalf("thread %s ends at %d, acknowledged is %d", k.Thread, got, want)
			}
		}
	}
}
