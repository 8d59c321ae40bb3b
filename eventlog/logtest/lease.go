package logtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

const ttl = 30 * time.Second

// timed opens the log with a clock that only the test moves.
func (p *place) timed() *clock {
	p.t.Helper()
	c := newClock()
	p.config.Now, p.config.After = c.now, c.after
	p.open()
	return c
}

// untimed is timed with timers that never fire.
func (p *place) untimed() *clock {
	p.t.Helper()
	c := newClock()
	p.config.Now = c.now
	p.config.After = func(time.Duration) (<-chan time.Time, func() bool) {
		return nil, func() bool { return true }
	}
	p.open()
	return c
}

// lend begins a run for a holder in another process.
func (p *place) lend(k eventlog.ThreadKey, run string) eventlog.Writer {
	p.t.Helper()
	w, err := p.log.BeginRun(p.ctx, k, eventlog.RunStart{Started: started(run), Holder: eventlog.Holder{Owner: "worker", TTL: ttl}})
	if err != nil {
		p.t.Fatalf("begin run %s: %v", run, err)
	}
	return w
}

func (p *place) take(k eventlog.ThreadKey, r agui.RunKey, owner string) eventlog.Writer {
	p.t.Helper()
	w, err := p.log.TakeRun(p.ctx, k, r, eventlog.Holder{Owner: owner})
	if err != nil {
		p.t.Fatalf("take run %s: %v", r, err)
	}
	return w
}

// lastRun is the run that started last.
func (p *place) lastRun(k eventlog.ThreadKey) eventlog.Run {
	p.t.Helper()
	runs := p.runs(k)
	return runs[len(runs)-1]
}

// awaitEnd waits until the thread's last run has ended.
func (p *place) awaitEnd(k eventlog.ThreadKey) eventlog.Run {
	p.t.Helper()
	for {
		mark := p.log.Watermark()
		if r := p.lastRun(k); !r.Running() {
			return r
		}
		if _, err := p.log.Wait(p.ctx, mark+1); err != nil {
			p.t.Fatalf("the run does not end: %v", err)
		}
	}
}

// wantActive checks that the thread's run is somebody's.
func (p *place) wantActive(k eventlog.ThreadKey, what string) {
	p.t.Helper()
	_, err := p.log.BeginRun(p.ctx, k, eventlog.RunStart{Started: started("too early")})
	if e := wantAs[*eventlog.RunActiveError](p.t, what, err, eventlog.ErrRunActive); e.Owner != "worker" {
		p.t.Errorf("%s: %+v", what, e)
	}
}

// testLeaseEndsByItself: whoever follows the thread sees the end of a run whose
// writer is gone, although nobody does anything.
func testLeaseEndsByItself(t *testing.T, p *place) {
	clock := p.timed()
	k := key("t")
	w := p.lend(k, "r")
	if l := w.Lease(); l.Owner != "worker" || l.TTL != ttl || !l.Expires.Equal(clock.now().Add(ttl)) || l.Epoch == 0 {
		t.Errorf("lease %+v", l)
	}
	p.write(w, textStart("m"), text("m", "half a"))
	clock.add(ttl - time.Microsecond)
	p.wantActive(k, "a moment before")
	clock.add(time.Microsecond)
	r := p.awaitEnd(k)
	if r.Status != agui.RunAbandoned || r.Held || !r.Ended.Equal(clock.now()) {
		t.Errorf("run %+v", r)
	}
	records := p.all(k)
	wantShape(t, records, "RUN_STARTED@r", "TEXT_MESSAGE_START@r", "TEXT_MESSAGE_CONTENT@r", "TEXT_MESSAGE_END@r", "RUN_ERROR@r")
	if end := records[4]; end.Position != records[3].Position || end.Origin != eventlog.OriginStore || !strings.Contains(string(end.Event), agui.CodeAbandoned) {
		t.Errorf("closed with %s", end.Event)
	}
	mark := p.log.Watermark()
	_, err := w.Append(p.ctx, custom("late", 1))
	if e := wantAs[*eventlog.FencedError](t, "append", err, eventlog.ErrFenced); e.Run != run("r") || e.Epoch != w.Lease().Epoch || e.Current != 0 || e.Status != agui.RunAbandoned {
		t.Errorf("%+v", e)
	}
	_, err = w.Renew(p.ctx)
	wantErr(t, "renew", err, eventlog.ErrFenced)
	if err := w.End(p.ctx, "STOP", ""); err != nil {
		t.Errorf("end: %v", err)
	}
	if p.log.Watermark() != mark {
		t.Error("something was written")
	}
	p.write(p.begin(k, "next"), finished("next"))
}

// testLeaseIsRenewed: by heartbeats, which take no position, and by appends.
func testLeaseIsRenewed(t *testing.T, p *place) {
	clock := p.timed()
	k := key("t")
	w := p.lend(k, "r")
	for i := range 12 {
		clock.add(20 * time.Second)
		switch i % 3 {
		case 0:
			mark := p.log.Watermark()
			l, err := w.Renew(p.ctx)
			if err != nil || !l.Expires.Equal(clock.now().Add(ttl)) || l.Run != run("r") || l.Epoch != w.Lease().Epoch {
				t.Fatalf("renewed: %+v, %v", l, err)
			}
			if p.log.Watermark() != mark {
				t.Error("a heartbeat took a position")
			}
		case 1:
			p.write(w, custom("x", i))
		case 2:
			l := w.Lease()
			p.append(k, eventlog.Batch{Events: [][]byte{custom("y", i)}, Lease: &l})
		}
	}
	if r := p.lastRun(k); !r.Running() || !r.Held || r.Events != 9 {
		t.Errorf("run %+v", r)
	}
	clock.add(ttl - time.Microsecond)
	p.wantActive(k, "a ttl after the latest append")
	clock.add(time.Microsecond)
	if r := p.awaitEnd(k); r.Status != agui.RunAbandoned {
		t.Errorf("run %+v", r)
	}
	// A lease of this process does not expire.
	own := p.begin(key("own"), "r")
	clock.add(100 * 24 * time.Hour)
	if l, err := own.Renew(p.ctx); err != nil || l.TTL != 0 || !l.Expires.IsZero() {
		t.Errorf("%+v, %v", l, err)
	}
	p.write(own, finished("r"))
}

// testLeaseOutlivesTheProcess is the second half of invariant 8: what was
// promised to a holder elsewhere is kept by whoever has the log then.
func testLeaseOutlivesTheProcess(t *testing.T, p *place) {
	clock := p.timed()
	k := key("t")
	lent := p.lend(k, "r")
	p.write(p.begin(key("own"), "r"), textStart("m"))
	expires := lent.Lease().Expires
	for i := range 10 {
		p.crash()
		if r := p.lastRun(k); !r.Running() || !r.Held || r.Owner != "worker" || r.Epoch != lent.Lease().Epoch {
			t.Fatalf("after restart %d: %+v", i, r)
		}
		if r := p.lastRun(key("own")); r.Status != agui.RunAbandoned {
			t.Fatalf("the run of the process that died: %+v", r)
		}
		clock.add(expires.Sub(clock.now()) - time.Microsecond)
		p.wantActive(k, "a moment before it expires")
		w, err := p.log.Attach(p.ctx, lent.Lease())
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			p.write(w, custom("x", i))
			expires = w.Lease().Expires
		} else if l, err := w.Renew(p.ctx); err != nil {
			t.Fatal(err)
		} else {
			expires = l.Expires
		}
		if !expires.Equal(clock.now().Add(ttl)) {
			t.Fatalf("round %d: expires %v at %v", i, expires, clock.now())
		}
		clock.add(time.Duration(i) * 2 * time.Second) // some renewals come early, and need not be on disk
		if l, err := w.Renew(p.ctx); err != nil {
			t.Fatal(err)
		} else {
			expires = l.Expires
		}
	}
	p.crash()
	clock.add(expires.Sub(clock.now()) - time.Microsecond)
	p.wantActive(k, "a moment before it expires")
	clock.add(ttl/2 + time.Microsecond)
	if r := p.awaitEnd(k); r.Status != agui.RunAbandoned || r.Events != 7 {
		t.Errorf("run %+v", r)
	}
}

// testLeaseBesideTheProcess: of two runs of one thread, the one of the process
// that died is closed, the one of a holder elsewhere goes on.
func testLeaseBesideTheProcess(t *testing.T, p *place) {
	p.timed()
	k, root := key("t"), agui.RunKey{}
	var lent eventlog.Writer
	for i, holder := range []eventlog.Holder{{}, {Owner: "worker", TTL: ttl}, {}} {
		w, err := p.log.BeginRun(p.ctx, k, eventlog.RunStart{Started: started(fmt.Sprint("r", i)), Parent: &root, Holder: holder})
		if err != nil {
			t.Fatal(err)
		}
		p.write(w, textStart(fmt.Sprint("m", i)))
		if holder.TTL != 0 {
			lent = w
		}
	}
	position := p.log.Watermark()
	for range 2 {
		p.crash()
		for i, r := range p.runs(k) {
			if open := i == 1; r.Running() != open || r.Held != open {
				t.Errorf("run %d: %+v", i, r)
			}
		}
		if got := p.log.Watermark(); got != position+1 {
			t.Errorf("closed by %d commits", got-position)
		}
	}
	w, err := p.log.Attach(p.ctx, lent.Lease())
	if err != nil {
		t.Fatal(err)
	}
	p.write(w, finished("r1"))
}

// testLeaseExpiresWhileClosed: whoever opens the log finds the run closed, once.
func testLeaseExpiresWhileClosed(t *testing.T, p *place) {
	clock := p.timed()
	for i := range 3 {
		p.write(p.lend(key(fmt.Sprint(i)), "r"), textStart("m"))
	}
	p.close()
	clock.add(2 * ttl)
	for range 2 {
		p.open()
		for i := range 3 {
			wantShape(t, p.all(key(fmt.Sprint(i))), "RUN_STARTED@r", "TEXT_MESSAGE_START@r", "TEXT_MESSAGE_END@r", "RUN_ERROR@r")
			if r := p.lastRun(key(fmt.Sprint(i))); r.Status != agui.RunAbandoned || r.Held {
				t.Errorf("run %+v", r)
			}
		}
		p.crash()
		p.close()
	}
	p.open()
}

// testExpiredBeforeATimer: what is done to a thread finds an expired run closed,
// whether a timer was there before or not.
func testExpiredBeforeATimer(t *testing.T, p *place) {
	clock := p.untimed()
	for _, c := range []struct {
		what string
		do   func(k eventlog.ThreadKey, w eventlog.Writer) error
		want error
	}{
		{"a start", func(k eventlog.ThreadKey, _ eventlog.Writer) error {
			next, err := p.log.BeginRun(p.ctx, k, eventlog.RunStart{Started: started("next")})
			if err == nil {
				err = next.End(p.ctx, "STOP", "")
			}
			return err
		}, nil},
		{"a raw append", func(k eventlog.ThreadKey, _ eventlog.Writer) error {
			_, err := p.log.Append(p.ctx, k, batch(started("raw"), finished("raw")))
			return err
		}, nil},
		{"a companion entry", func(k eventlog.ThreadKey, _ eventlog.Writer) error {
			_, err := p.log.AppendCompanion(p.ctx, k, eventlog.CompanionBatch{Entries: []eventlog.Entry{entry("k", "v")}})
			return err
		}, nil},
		{"its writer", func(_ eventlog.ThreadKey, w eventlog.Writer) error {
			_, err := w.Append(p.ctx, custom("late", 1))
			return err
		}, eventlog.ErrFenced},
		{"its heartbeat", func(_ eventlog.ThreadKey, w eventlog.Writer) error {
			_, err := w.Renew(p.ctx)
			return err
		}, eventlog.ErrFenced},
		{"its end", func(_ eventlog.ThreadKey, w eventlog.Writer) error { return w.End(p.ctx, "STOP", "") }, nil},
		{"its lease", func(k eventlog.ThreadKey, w eventlog.Writer) error {
			_, err := p.log.Attach(p.ctx, w.Lease())
			return err
		}, eventlog.ErrFenced},
		{"one who takes it", func(k eventlog.ThreadKey, _ eventlog.Writer) error {
			_, err := p.log.TakeRun(p.ctx, k, run("r"), eventlog.Holder{})
			return err
		}, eventlog.ErrFenced},
	} {
		k := key(c.what)
		w := p.lend(k, "r")
		p.write(w, textStart("m"))
		clock.add(ttl)
		err := c.do(k, w)
		if c.want == nil && err != nil {
			t.Errorf("%s: %v", c.what, err)
		} else if c.want != nil {
			wantErr(t, c.what, err, c.want)
		}
		if r := p.runs(k)[0]; r.Status != agui.RunAbandoned || r.Held {
			t.Errorf("%s: %+v", c.what, r)
		}
		wantShape(t, p.all(k)[:4], "RUN_STARTED@r", "TEXT_MESSAGE_START@r", "TEXT_MESSAGE_END@r", "RUN_ERROR@r")
	}
}

func testHolders(t *testing.T, p *place) {
	p.config.Limits.IDBytes = 20
	p.open()
	live := p.begin(key("t"), "r")
	for what, c := range map[string]struct {
		holder eventlog.Holder
		want   error
	}{
		"a negative ttl":           {eventlog.Holder{TTL: -1}, eventlog.ErrInvalid},
		"a ttl too short":          {eventlog.Holder{TTL: eventlog.MinTTL - 1}, eventlog.ErrInvalid},
		"a ttl too long":           {eventlog.Holder{TTL: eventlog.MaxTTL + 1}, eventlog.ErrInvalid},
		"an owner that is no text": {eventlog.Holder{Owner: "\xff"}, eventlog.ErrInvalid},
		"a long owner":             {eventlog.Holder{Owner: strings.Repeat("x", 21)}, eventlog.ErrTooLarge},
	} {
		_, err := p.log.BeginRun(p.ctx, key("u"), eventlog.RunStart{Started: started("r"), Holder: c.holder})
		wantErr(t, "begin: "+what, err, c.want)
		_, err = p.log.TakeRun(p.ctx, key("t"), run("r"), c.holder)
		wantErr(t, "take: "+what, err, c.want)
	}
	if mark := p.log.Watermark(); mark != 1 {
		t.Errorf("something was written: %d", mark)
	}
	p.write(live, finished("r"))
	for _, d := range []time.Duration{eventlog.MinTTL, eventlog.MaxTTL} {
		w, err := p.log.BeginRun(p.ctx, key("u"), eventlog.RunStart{Started: started(d.String()), Holder: eventlog.Holder{TTL: d}, TakeOver: true})
		if err != nil || w.Lease().TTL != d || w.Lease().Owner == "" {
			t.Fatalf("%v: %v", d, err)
		}
		if d == eventlog.MaxTTL {
			p.write(w, finished(d.String()))
		}
	}
}

// testCancelledWorker is L5: a worker that does not know it is over.
func testCancelledWorker(t *testing.T, p *place) {
	p.timed()
	k := key("t")
	worker := p.lend(k, "r1")
	p.write(worker, textStart("m"), text("m", "hal"))
	stop := func(id string) error {
		w, err := p.log.TakeRun(p.ctx, k, run(id), eventlog.Holder{Owner: "who cancels"})
		if err != nil {
			return err
		}
		return w.End(p.ctx, "AGSTORE_STOPPED", "cancelled")
	}
	if err := stop("r1"); err != nil {
		t.Fatal(err)
	}
	records, mark := p.all(k), p.log.Watermark()
	wantShape(t, records, "RUN_STARTED@r1", "TEXT_MESSAGE_START@r1", "TEXT_MESSAGE_CONTENT@r1", "TEXT_MESSAGE_END@r1", "RUN_ERROR@r1")
	lease := worker.Lease()
	_, err := p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{custom("late", 1)}, Lease: &lease})
	for range 2 {
		if e := wantAs[*eventlog.FencedError](t, "append", err, eventlog.ErrFenced); e.Run != run("r1") || e.Epoch != lease.Epoch ||
			e.Current <= e.Epoch || e.Owner != "who cancels" || e.Status != agui.RunFailed {
			t.Errorf("%+v", e)
		}
		_, err = worker.Append(p.ctx, custom("late", 2))
	}
	wantErr(t, "end", worker.End(p.ctx, "STOP", "late"), eventlog.ErrFenced)
	if p.log.Watermark() != mark {
		t.Errorf("something was written: %s", shape(p.all(k)))
	}
	next := p.begin(k, "r2")
	wantErr(t, "a stop that comes late", stop("r1"), eventlog.ErrFenced)
	if r := p.lastRun(k); !r.Running() || !r.Held {
		t.Errorf("the late stop hit %+v", r)
	}
	p.write(next, finished("r2"))
}

// testRecoveryClosesEachKind: whatever a run has open is closed, inside out, in
// one commit, whoever closes it.
func testRecoveryClosesEachKind(t *testing.T, p *place) {
	clock := p.timed()
	open := [][]byte{
		[]byte(`{"type":"SUBAGENT_STARTED","subagentRunId":"sub"}`),
		[]byte(`{"type":"STEP_STARTED","stepName":"of sub","subagentRunId":"sub"}`),
		[]byte(`{"type":"STEP_STARTED","stepName":"s"}`),
		[]byte(`{"type":"REASONING_START","messageId":"think"}`),
		[]byte(`{"type":"REASONING_MESSAGE_START","messageId":"thought","role":"reasoning"}`),
		textStart("m"), text("m", "half a"),
		[]byte(`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`),
		[]byte(`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{"}`),
	}
	for _, c := range []struct {
		what  string
		close func(k eventlog.ThreadKey, w eventlog.Writer) error
	}{
		{"end", func(_ eventlog.ThreadKey, w eventlog.Writer) error { return w.End(p.ctx, agui.CodeAbandoned, "") }},
		{"crash", func(eventlog.ThreadKey, eventlog.Writer) error { p.crash(); return nil }},
		{"expiry", func(k eventlog.ThreadKey, w eventlog.Writer) error {
			if _, err := p.log.TakeRun(p.ctx, k, w.Lease().Run, eventlog.Holder{TTL: ttl}); err != nil {
				return err
			}
			clock.add(ttl)
			p.awaitEnd(k)
			return nil
		}},
		{"takeover", func(k eventlog.ThreadKey, _ eventlog.Writer) error {
			next, err := p.log.BeginRun(p.ctx, k, eventlog.RunStart{Started: started("next"), TakeOver: true})
			if err == nil {
				err = next.End(p.ctx, "STOP", "")
			}
			return err
		}},
	} {
		k := key(c.what)
		w := p.begin(k, "r")
		for _, e := range open {
			p.write(w, e)
		}
		if err := c.close(k, w); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		ends := p.all(k)[1+len(open):][:8]
		wantShape(t, ends, "TEXT_MESSAGE_END@r", "REASONING_MESSAGE_END@r", "REASONING_END@r", "TOOL_CALL_END@r",
			"STEP_FINISHED@r", "STEP_FINISHED@r", "SUBAGENT_ERROR@r", "RUN_ERROR@r")
		for _, r := range ends {
			if r.Position != ends[0].Position || r.Origin != eventlog.OriginStore {
				t.Errorf("%s: closed by %+v", c.what, r)
			}
		}
		if r := p.runs(k)[0]; r.Status != agui.RunAbandoned || r.Held || r.EndSeq != ends[7].Seq {
			t.Errorf("%s: %+v", c.what, r)
		}
	}
}
