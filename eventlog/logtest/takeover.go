package logtest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// testTakeRun is invariant 7.
func testTakeRun(t *testing.T, p *place) {
	p.open()
	k := key("t")
	one := p.begin(k, "r")
	p.write(one, textStart("m"))
	two := p.take(k, run("r"), "two")
	if l := two.Lease(); l.Epoch <= one.Lease().Epoch || l.Owner != "two" || l.Run != run("r") || l.Thread != k || two.First() != 1 {
		t.Errorf("lease %+v, first %d", l, two.First())
	}
	mark := p.log.Watermark()
	fenced := func(what string, err error) {
		t.Helper()
		e := wantAs[*eventlog.FencedError](t, what, err, eventlog.ErrFenced)
		if e.Run != run("r") || e.Epoch != one.Lease().Epoch || e.Current != two.Lease().Epoch || e.Owner != "two" || e.Status != agui.RunRunning {
			t.Errorf("%s: %+v", what, e)
		}
	}
	_, err := one.Renew(p.ctx)
	fenced("renew", err)
	fenced("end", one.End(p.ctx, "STOP", ""))
	_, err = one.Append(p.ctx, text("m", "late"))
	fenced("append", err)
	_, err = p.log.Attach(p.ctx, one.Lease())
	fenced("attach", err)
	if p.log.Watermark() != mark {
		t.Error("something was written")
	}
	if r := p.runs(k)[0]; !r.Held || r.Owner != "two" || r.Epoch != two.Lease().Epoch || r.Origin != eventlog.OriginStore {
		t.Errorf("run %+v", r)
	}
	p.write(two, text("m", "goes on"), finished("r"))
	wantShape(t, p.all(k), "RUN_STARTED@r", "TEXT_MESSAGE_START@r", "TEXT_MESSAGE_CONTENT@r", "RUN_FINISHED@r")
	var streams []eventlog.Stream
	for c, err := range p.log.Commits(p.ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, c.Stream)
	}
	if got := fmt.Sprint(streams); got != "[events events control events]" {
		t.Errorf("commits: %s", got)
	}
	p.crash()
	if next := p.begin(k, "next"); next.Lease().Epoch <= two.Lease().Epoch {
		t.Errorf("epoch %d behind %d", next.Lease().Epoch, two.Lease().Epoch)
	} else {
		p.write(next, finished("next"))
	}
	// A run that nobody holds can be taken too: an import that was cut off.
	p.append(key("i"), eventlog.Batch{Origin: eventlog.OriginImport, Events: [][]byte{started("i"), textStart("m"), text("m", "cut o")}})
	rest := p.take(key("i"), run("i"), "rest")
	p.write(rest, text("m", "ff"), finished("i"))
	if r := p.lastRun(key("i")); r.Status != agui.RunSuccess || r.Events != 5 || r.Origin != eventlog.OriginImport {
		t.Errorf("run %+v", r)
	}
}

func testTakeRunRefused(t *testing.T, p *place) {
	p.open()
	p.write(p.begin(key("t"), "r"), finished("r"))
	take := func(k eventlog.ThreadKey, r agui.RunKey) error {
		_, err := p.log.TakeRun(p.ctx, k, r, eventlog.Holder{})
		return err
	}
	mark := p.log.Watermark()
	wantErr(t, "no thread", take(key("none"), run("r")), eventlog.ErrThreadNotFound)
	wantErr(t, "the thread of another scope", take(eventlog.ThreadKey{Scope: "other", Thread: "t"}, run("r")), eventlog.ErrThreadNotFound)
	wantErr(t, "no run", take(key("t"), run("none")), eventlog.ErrRunNotFound)
	wantErr(t, "another attempt", take(key("t"), agui.RunKey{ID: "r", Attempt: 2}), eventlog.ErrRunNotFound)
	wantErr(t, "the empty key", take(key("t"), agui.RunKey{}), eventlog.ErrRunNotFound)
	wantErr(t, "no thread id", take(key(""), run("r")), eventlog.ErrInvalid)
	if e := wantAs[*eventlog.FencedError](t, "an ended run", take(key("t"), run("r")), eventlog.ErrFenced); e.Run != run("r") || e.Status != agui.RunSuccess || e.Epoch != 0 {
		t.Errorf("%+v", e)
	}
	if p.log.Watermark() != mark {
		t.Error("something was written")
	}
}

// testTakeRunFencesThePipeline: of what a writer has under way when its run is
// taken, a beginning may be there, and nothing behind the takeover.
func testTakeRunFencesThePipeline(t *testing.T, p *place) {
	p.open()
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	for round := range rounds {
		k := key(fmt.Sprint(round))
		one := p.begin(k, "r")
		begun, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				if i == 50*round {
					close(begun)
				}
				if one.Enqueue(p.ctx, custom("one", i)) != nil {
					return
				}
			}
		}()
		<-begun
		two := p.take(k, run("r"), "two")
		p.write(two, custom("two", 0))
		<-stopped
		last, err := one.Sync(p.ctx)
		wantErr(t, "sync", err, eventlog.ErrFenced)
		p.write(two, custom("two", 1), finished("r"))
		next, fenced := 0, false
		for _, r := range p.all(k)[1:] {
			switch {
			case string(r.Event) == string(custom("two", 0)):
				fenced = true
			case string(r.Event) == string(custom("one", next)) && !fenced && r.Seq <= last:
				next++
			case !fenced || r.Seq <= last:
				t.Fatalf("round %d: record %d is %s behind %d of one, whose last is %d", round, r.Seq, r.Event, next, last)
			}
		}
		if uint64(next+1) != last {
			t.Errorf("round %d: %d records of one, its last is %d", round, next, last)
		}
	}
}

// testTakeRunRace: many take one run from each other. Epochs never go back, what
// was acknowledged is there once, what was refused is not.
func testTakeRunRace(t *testing.T, p *place) {
	p.open()
	k := key("t")
	first := p.begin(k, "r")
	rounds := 30
	if testing.Short() {
		rounds = 8
	}
	type claim struct{ epoch, n int }
	var mu sync.Mutex
	acked, refused := make(map[claim]bool), make(map[claim]bool)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range rounds {
				w, err := p.log.TakeRun(p.ctx, k, run("r"), eventlog.Holder{Owner: fmt.Sprint("g", g)})
				if err != nil {
					t.Error(err)
					return
				}
				epoch := int(w.Lease().Epoch)
				for n := range 10 {
					lease := w.Lease()
					if n%2 == 0 {
						_, err = w.Append(p.ctx, custom(fmt.Sprint(epoch), n))
					} else {
						_, err = p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{custom(fmt.Sprint(epoch), n)}, Lease: &lease})
					}
					if err != nil && !errors.Is(err, eventlog.ErrFenced) {
						t.Error(err)
						return
					}
					mu.Lock()
					if err == nil {
						acked[claim{epoch, n}] = true
					} else {
						refused[claim{epoch, n}] = true
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	_, err := first.Append(p.ctx, custom("first", 0))
	wantErr(t, "the first writer", err, eventlog.ErrFenced)
	end := p.take(k, run("r"), "end")
	if want := first.Lease().Epoch + uint64(8*rounds) + 1; end.Lease().Epoch != want {
		t.Errorf("epoch %d, %d leases were given", end.Lease().Epoch, want)
	}
	p.write(end, finished("r"))
	records := p.all(k)
	latest := 0
	for _, r := range records[1 : len(records)-1] {
		var c claim
		if _, err := fmt.Sscanf(string(r.Event), `{"type":"CUSTOM","name":"%d","value":%d}`, &c.epoch, &c.n); err != nil {
			t.Fatalf("%s: %v", r.Event, err)
		}
		if c.epoch < latest {
			t.Errorf("seq %d: epoch %d behind %d", r.Seq, c.epoch, latest)
		}
		latest = c.epoch
		if !acked[c] || refused[c] {
			t.Errorf("seq %d of epoch %d: acknowledged %v, refused %v", r.Seq, c.epoch, acked[c], refused[c])
		}
		delete(acked, c)
	}
	if len(acked) > 0 {
		t.Errorf("%d acknowledged appends are not there", len(acked))
	}
}

// testTakeOver: the live run is closed and the next one started by one commit.
func testTakeOver(t *testing.T, p *place) {
	p.open()
	k := key("t")
	begin := func(id string, s eventlog.RunStart) (eventlog.Writer, error) {
		s.Started = started(id)
		return p.log.BeginRun(p.ctx, k, s)
	}
	one := p.begin(k, "a")
	p.write(one, textStart("m"))
	_, err := begin("b", eventlog.RunStart{})
	wantErr(t, "without it", err, eventlog.ErrRunActive)
	_, err = begin("a", eventlog.RunStart{TakeOver: true})
	wantErr(t, "its own id", err, eventlog.ErrRunExists)
	_, err = begin("b", eventlog.RunStart{TakeOver: true, Expect: eventlog.LastSeq(1)})
	wantErr(t, "another seq", err, eventlog.ErrConflict)
	if r := p.lastRun(k); !r.Held || r.Key != run("a") {
		t.Fatalf("a refused start closed %+v", r)
	}
	mark := p.log.Watermark()
	two, err := begin("b", eventlog.RunStart{TakeOver: true, Expect: eventlog.LastSeq(2), Holder: eventlog.Holder{Owner: "two", TTL: ttl}})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.log.Watermark(); got != mark+1 || two.First() != 5 {
		t.Errorf("taken over in %d commits, first %d", got-mark, two.First())
	}
	wantShape(t, p.all(k), "RUN_STARTED@a", "TEXT_MESSAGE_START@a", "TEXT_MESSAGE_END@a", "RUN_ERROR@a", "RUN_STARTED@b")
	if r := p.runs(k)[1]; r.Parent != run("a") || r.ParentSeq != 4 {
		t.Errorf("run %+v", r.Run)
	}
	lease := one.Lease()
	_, err = one.Append(p.ctx, text("m", "late"))
	for range 2 {
		if e := wantAs[*eventlog.FencedError](t, "the writer of before", err, eventlog.ErrFenced); e.Run != run("a") || e.Epoch != lease.Epoch ||
			e.Current <= e.Epoch || e.Owner != "two" || e.Status != agui.RunAbandoned {
			t.Errorf("%+v", e)
		}
		p.crash() // it learns so from the next process too
		_, err = p.log.Attach(p.ctx, lease)
	}
	if two, err = p.log.Attach(p.ctx, two.Lease()); err != nil {
		t.Fatal(err)
	}
	p.write(two, finished("b"))
	// Nothing to take over, a raw producer, a named parent that runs.
	three, err := begin("c", eventlog.RunStart{TakeOver: true})
	if err != nil {
		t.Fatal(err)
	}
	p.write(three, finished("c"))
	p.append(k, batch(started("raw")))
	four, err := begin("d", eventlog.RunStart{TakeOver: true})
	if err != nil {
		t.Fatal(err)
	}
	parent, unknown := run("d"), run("unknown")
	_, err = begin("e", eventlog.RunStart{TakeOver: true, Parent: &unknown})
	wantErr(t, "an unknown parent", err, eventlog.ErrRunNotFound)
	five, err := begin("e", eventlog.RunStart{TakeOver: true, Parent: &parent})
	if err != nil {
		t.Fatal(err)
	}
	_, err = four.Append(p.ctx, custom("late", 1))
	wantErr(t, "the parent's writer", err, eventlog.ErrFenced)
	p.write(five, finished("e"))
	wantShape(t, p.read(k, eventlog.ReadOptions{From: 9}), "RUN_STARTED@raw", "RUN_ERROR@raw", "RUN_STARTED@d", "RUN_ERROR@d", "RUN_STARTED@e", "RUN_FINISHED@e")
}

func testAttach(t *testing.T, p *place) {
	p.open()
	k := key("t")
	w := p.begin(k, "r")
	lease := w.Lease()
	mark := p.log.Watermark()
	a, err := p.log.Attach(p.ctx, eventlog.Lease{Thread: k, Run: run("r"), Epoch: lease.Epoch})
	if err != nil {
		t.Fatal(err)
	}
	if a.Lease() != lease || a.First() != 1 || p.log.Watermark() != mark {
		t.Errorf("attached: %+v, first %d, want %+v", a.Lease(), a.First(), lease)
	}
	b, err := p.log.Attach(p.ctx, lease)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range []eventlog.Writer{w, a, b, a, w} {
		p.write(one, custom("x", i))
	}
	if last, err := b.Sync(p.ctx); err != nil || last != 4 {
		t.Errorf("its own last: %d, %v", last, err)
	}
	attach := func(l eventlog.Lease) error {
		_, err := p.log.Attach(p.ctx, l)
		return err
	}
	wantErr(t, "no thread", attach(eventlog.Lease{Thread: key("none"), Run: run("r"), Epoch: 1}), eventlog.ErrThreadNotFound)
	wantErr(t, "no run", attach(eventlog.Lease{Thread: k, Run: run("none"), Epoch: 1}), eventlog.ErrRunNotFound)
	wantErr(t, "another epoch", attach(eventlog.Lease{Thread: k, Run: run("r"), Epoch: lease.Epoch + 1}), eventlog.ErrFenced)
	p.append(key("raw"), batch(started("r")))
	wantErr(t, "a run without a lease", attach(eventlog.Lease{Thread: key("raw"), Run: run("r")}), eventlog.ErrFenced)
	p.write(a, finished("r"))
	if e := wantAs[*eventlog.FencedError](t, "after the end", attach(lease), eventlog.ErrFenced); e.Status != agui.RunSuccess || e.Current != 0 {
		t.Errorf("%+v", e)
	}
	for i, one := range []eventlog.Writer{w, a, b} {
		_, err := one.Append(p.ctx, custom("late", i))
		wantErr(t, "behind the end", err, eventlog.ErrFenced)
		if err := one.End(p.ctx, "STOP", ""); err != nil {
			t.Errorf("end %d: %v", i, err)
		}
	}
	if th := p.thread(k); th.LastSeq != 7 {
		t.Errorf("%+v", th)
	}
}

// testAppendUnderALease: what a producer does whose calls come one by one, and
// may come twice.
func testAppendUnderALease(t *testing.T, p *place) {
	p.open()
	k := key("t")
	lease := p.begin(k, "r").Lease()
	send := func(batchKey string, events ...[]byte) (eventlog.Appended, error) {
		return p.log.Append(p.ctx, k, eventlog.Batch{Events: events, Key: batchKey, Lease: &lease})
	}
	must := func(batchKey string, events ...[]byte) eventlog.Appended {
		t.Helper()
		done, err := send(batchKey, events...)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	if done := must("1", started("r"), textStart("m")); done.First != 2 || done.Last != 3 || done.Duplicate {
		t.Errorf("%+v", done)
	}
	if done := must("1", started("r"), textStart("m")); done.First != 2 || done.Last != 3 || !done.Duplicate {
		t.Errorf("again: %+v", done)
	}
	_, err := send("1", custom("x", 1))
	wantErr(t, "the key with others", err, eventlog.ErrConflict)
	mark := p.log.Watermark()
	if done := must(""); done.First != 0 || done.Last != 3 || p.log.Watermark() != mark {
		t.Errorf("nothing: %+v", done)
	}
	parent, other := run("r"), lease
	other.Thread = key("other")
	for what, b := range map[string]eventlog.Batch{
		"an origin":      {Origin: eventlog.OriginImport, Lease: &lease},
		"a run":          {Run: run("r"), Lease: &lease},
		"a parent":       {Parent: &parent, Lease: &lease},
		"another thread": {Lease: &other},
	} {
		b.Events = [][]byte{custom("x", 1)}
		_, err := p.log.Append(p.ctx, k, b)
		wantErr(t, what, err, eventlog.ErrInvalid)
	}
	_, err = p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{custom("x", 1)}, Expect: eventlog.LastSeq(2), Lease: &lease})
	wantErr(t, "another seq", err, eventlog.ErrConflict)
	_, err = send("", custom("x", 1), []byte("{}"))
	wantErr(t, "no event", err, eventlog.ErrInvalidEvent)
	_, err = send("", finished("r"), custom("x", 1))
	wantErr(t, "behind the end in one call", err, eventlog.ErrFenced)
	old := lease
	old.Epoch--
	_, err = p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{custom("x", 1)}, Lease: &old})
	wantErr(t, "an epoch of before", err, eventlog.ErrFenced)
	nowhere := eventlog.Lease{Run: run("r"), Epoch: 1}
	_, err = p.log.Append(p.ctx, key("none"), eventlog.Batch{Events: [][]byte{custom("x", 1)}, Lease: &nowhere})
	wantErr(t, "no thread", err, eventlog.ErrThreadNotFound)
	if p.log.Watermark() != mark {
		t.Error("something was written")
	}
	must("end", text("m", "all"), finished("r"))
	if done := must("end", text("m", "all"), finished("r")); !done.Duplicate || done.Last != 5 {
		t.Errorf("the end again: %+v", done)
	}
	_, err = send("", custom("late", 1))
	wantErr(t, "behind the end", err, eventlog.ErrFenced)
	records := p.all(k)
	wantShape(t, records, "RUN_STARTED@r", "RUN_STARTED@r(echo)", "TEXT_MESSAGE_START@r", "TEXT_MESSAGE_CONTENT@r", "RUN_FINISHED@r")
	if records[2].Origin != eventlog.OriginAgent {
		t.Errorf("%+v", records[2])
	}
}
