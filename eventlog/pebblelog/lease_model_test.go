package pebblelog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// leaseModel is one thread as leases and the companion stream should leave it.
type leaseModel struct {
	clock *handTime
	fs    *vfs.MemFS
	log   *pebblelog.Log
	key   eventlog.ThreadKey

	exists    bool
	runs      []modelRun
	epoch     uint64
	companion []string
	keys      map[string]eventlog.Appended // of companion batches
	leases    []eventlog.Lease             // all that were ever given
	writers   []eventlog.Writer            // of this life of the log, with their places in leases
	places    []int
}

// modelRun is one run of the model.
type modelRun struct {
	id      string
	open    bool
	status  agui.RunStatus
	epoch   uint64
	owner   string
	ttl     time.Duration
	expires time.Time // as its holder was told
	maybe   time.Time // from when it must have expired; between the two it may have
	events  uint64    // without the ends that the store writes
}

const modelTTL = 40 * time.Second

func (m *leaseModel) options() pebblelog.Options {
	return pebblelog.Options{FS: m.fs, Now: m.clock.now, After: never}
}

func (m *leaseModel) open(t *rapid.T) {
	var err error
	if m.log, err = pebblelog.Open("d", m.options()); err != nil {
		t.Fatalf("open: %v", err)
	}
	m.writers, m.places = nil, nil
}

// live is the run that has not ended; nil: there is none.
func (m *leaseModel) live() *modelRun {
	if n := len(m.runs); n > 0 && m.runs[n-1].open {
		return &m.runs[n-1]
	}
	return nil
}

// touch is what any call on the thread finds first: a run whose lease expired.
func (m *leaseModel) touch() {
	if r := m.live(); r != nil && r.ttl != 0 && !m.clock.now().Before(r.maybe) {
		r.open, r.status = false, agui.RunAbandoned
	}
}

// sure reports whether it is certain if the live run has expired; if not, time
// must pass before anything can be said.
func (m *leaseModel) sure() bool {
	r := m.live()
	return r == nil || r.ttl == 0 || m.clock.now().Before(r.expires) || !m.clock.now().Before(r.maybe)
}

func (m *leaseModel) renewed(r *modelRun) {
	if r.ttl != 0 {
		r.expires = m.clock.now().Add(r.ttl)
		if r.maybe.Before(r.expires) {
			r.maybe = r.expires
		}
	}
}

// verdict is what a lease should be told: nil, or how it is fenced.
func (m *leaseModel) verdict(l eventlog.Lease) *eventlog.FencedError {
	i := slices.IndexFunc(m.runs, func(r modelRun) bool { return r.id == l.Run.ID })
	r := &m.runs[i]
	if r.open && r.epoch == l.Epoch {
		return nil
	}
	e := &eventlog.FencedError{Run: l.Run, Epoch: l.Epoch, Status: r.status}
	if r.epoch != l.Epoch {
		e.Current, e.Owner = r.epoch, r.owner
	}
	return e
}

func (m *leaseModel) wantVerdict(t *rapid.T, what string, err error, want *eventlog.FencedError) {
	if want == nil {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return
	}
	got := (*eventlog.FencedError)(nil)
	if !errors.As(err, &got) || !errors.Is(err, eventlog.ErrFenced) || *got != *want {
		t.Fatalf("%s: %v (%+v), want %+v", what, err, got, *want)
	}
}

func drawHolder(t *rapid.T) eventlog.Holder {
	h := eventlog.Holder{Owner: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "owner")}
	if rapid.Bool().Draw(t, "expiring") {
		h.TTL = modelTTL
	}
	return h
}

func (m *leaseModel) given(w eventlog.Writer, r *modelRun, h eventlog.Holder) {
	m.epoch++
	r.epoch, r.owner, r.ttl, r.maybe = m.epoch, h.Owner, h.TTL, time.Time{}
	m.renewed(r)
	m.leases = append(m.leases, w.Lease())
	m.writers = append(m.writers, w)
	m.places = append(m.places, len(m.leases)-1)
}

func (m *leaseModel) begin(t *rapid.T) {
	if m.touch(); !m.sure() {
		t.Skip("it may have expired")
	}
	h := drawHolder(t)
	over := rapid.Bool().Draw(t, "take over")
	id := fmt.Sprint("r", len(m.runs))
	w, err := m.log.BeginRun(context.Background(), m.key, eventlog.RunStart{
		Started: fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":%q}`, id), Holder: h, TakeOver: over,
	})
	if r := m.live(); r != nil {
		if !over {
			active := (*eventlog.RunActiveError)(nil)
			if !errors.As(err, &active) || active.Run.ID != r.id || active.Owner != r.owner {
				t.Fatalf("begin beside %+v: %v", r, err)
			}
			return
		}
		m.epoch++
		r.open, r.status, r.epoch, r.owner = false, agui.RunAbandoned, m.epoch, h.Owner
	}
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	m.exists = true
	m.runs = append(m.runs, modelRun{id: id, open: true, events: 1})
	m.given(w, &m.runs[len(m.runs)-1], h)
}

func (m *leaseModel) take(t *rapid.T) {
	if m.touch(); !m.sure() || len(m.runs) == 0 {
		t.Skip("nothing sure to take")
	}
	h := drawHolder(t)
	r := &m.runs[rapid.IntRange(0, len(m.runs)-1).Draw(t, "run")]
	w, err := m.log.TakeRun(context.Background(), m.key, agui.RunKey{ID: r.id, Attempt: 1}, h)
	if !r.open {
		m.wantVerdict(t, "take", err, &eventlog.FencedError{Run: agui.RunKey{ID: r.id, Attempt: 1}, Status: r.status})
		return
	}
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	m.given(w, r, h)
}

// lease uses any lease that was ever given, in one of the ways there are.
func (m *leaseModel) lease(t *rapid.T) {
	if m.touch(); !m.sure() || len(m.leases) == 0 {
		t.Skip("no lease that is sure")
	}
	ctx := context.Background()
	l := m.leases[rapid.IntRange(0, len(m.leases)-1).Draw(t, "lease")]
	want := m.verdict(l)
	event := []byte(`{"type":"CUSTOM","name":"x"}`)
	ends := rapid.IntRange(0, 4).Draw(t, "ends") == 0
	if ends {
		event = []byte(`{"type":"RUN_FINISHED"}`)
	}
	how := rapid.SampledFrom([]string{"append", "attach", "attach and append", "renew", "end"}).Draw(t, "how")
	w, err := eventlog.Writer(nil), error(nil)
	if how != "append" {
		w, err = m.log.Attach(ctx, l)
	}
	wrote := how == "append" || how == "attach and append"
	if err == nil {
		switch how {
		case "append":
			_, err = m.log.Append(ctx, m.key, eventlog.Batch{Events: [][]byte{event}, Lease: &l})
		case "attach and append":
			_, err = w.Append(ctx, event)
		case "renew":
			l, err = w.Renew(ctx)
		case "end":
			err = w.End(ctx, "STOP", "")
		}
	}
	m.wantVerdict(t, how, err, want)
	if want != nil {
		return
	}
	r := m.live()
	if wrote || how == "renew" {
		m.renewed(r)
	}
	if how == "renew" && r.ttl != 0 {
		if l.Expires.Before(r.expires) || l.Expires.After(r.maybe) {
			t.Fatalf("renewed until %v, not %v to %v", l.Expires, r.expires, r.maybe)
		}
		r.expires, r.maybe = l.Expires, l.Expires
	}
	if wrote {
		r.events++
	}
	if wrote && ends {
		r.open, r.status = false, agui.RunSuccess
	} else if how == "end" {
		r.open, r.status = false, agui.RunFailed
	}
}

// writer uses a writer of this life, which may have lost its lease long ago.
func (m *leaseModel) writer(t *rapid.T) {
	if m.touch(); !m.sure() || len(m.writers) == 0 {
		t.Skip("no writer that is sure")
	}
	i := rapid.IntRange(0, len(m.writers)-1).Draw(t, "writer")
	w, l := m.writers[i], m.leases[m.places[i]]
	want := m.verdict(l)
	if want != nil {
		// A writer that was refused says so for good, in the words of then.
		if _, err := w.Append(context.Background(), []byte(`{"type":"CUSTOM","name":"w"}`)); !errors.Is(err, eventlog.ErrFenced) {
			t.Fatalf("a writer without its lease: %v", err)
		}
		return
	}
	_, err := w.Append(context.Background(), []byte(`{"type":"CUSTOM","name":"w"}`))
	m.wantVerdict(t, "append", err, nil)
	r := m.live()
	r.events++
	m.renewed(r)
}

func (m *leaseModel) keep(t *rapid.T) {
	if m.touch(); !m.sure() {
		t.Skip("it may have expired")
	}
	body := fmt.Sprint(len(m.companion))
	b := eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "k", Body: []byte(body)}, {Kind: "k"}}, Key: body}
	if rapid.Bool().Draw(t, "conditional") {
		b.Expect = eventlog.LastSeq(uint64(rapid.IntRange(max(0, len(m.companion)-2), len(m.companion)).Draw(t, "expect")))
	}
	done, err := m.log.AppendCompanion(context.Background(), m.key, b)
	if want, ok := b.Expect.Seq(); ok && want != uint64(len(m.companion)) {
		conflict := (*eventlog.ConflictError)(nil)
		if !errors.As(err, &conflict) || conflict.Actual != uint64(len(m.companion)) {
			t.Fatalf("expected %d of %d: %v", want, len(m.companion), err)
		}
		return
	}
	if err != nil || done.First != uint64(len(m.companion)+1) {
		t.Fatalf("%+v, %v", done, err)
	}
	m.exists = true
	m.companion = append(m.companion, body, "")
	m.keys[body] = done
}

func (m *leaseModel) again(t *rapid.T) {
	if m.touch(); !m.sure() || len(m.keys) == 0 {
		t.Skip("nothing sent")
	}
	sent := make([]string, 0, len(m.keys))
	for body := range m.keys {
		sent = append(sent, body)
	}
	slices.Sort(sent)
	body := rapid.SampledFrom(sent).Draw(t, "key")
	want := m.keys[body]
	want.Duplicate = true
	got, err := m.log.AppendCompanion(context.Background(), m.key, eventlog.CompanionBatch{
		Entries: []eventlog.Entry{{Kind: "k", Body: []byte(body)}, {Kind: "k"}}, Key: body,
	})
	if err != nil || got != want {
		t.Fatalf("again: %+v, %v; want %+v", got, err, want)
	}
}

func (m *leaseModel) pass(t *rapid.T) {
	m.clock.set(m.clock.now().Add(time.Duration(rapid.IntRange(1, 50).Draw(t, "seconds")) * time.Second))
}

// restart closes or crashes the log. Runs of the process end; leases that expire
// do so at the time told, or up to half a time to live later.
func (m *leaseModel) restart(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "restarts") != 0 {
		t.Skip("not now")
	}
	left := m.fs.CrashClone(vfs.CrashCloneCfg{})
	if err := m.log.Close(); err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "crash") {
		m.fs = left
	}
	m.pass(t)
	r := m.live()
	if r != nil && r.ttl == 0 {
		r.open, r.status = false, agui.RunAbandoned
	} else if r != nil {
		r.maybe = r.expires.Add(r.ttl / 2)
		// What expires while nobody looks is closed at open.
		if !m.sure() {
			m.clock.set(r.maybe)
		}
	}
	m.open(t)
	m.touch()
}

// check compares what can be read.
func (m *leaseModel) check(t *rapid.T) {
	if m.touch(); !m.sure() {
		return
	}
	ctx := context.Background()
	if !m.exists {
		return
	}
	// A call that writes nothing, for the runs that have expired by now.
	if _, err := m.log.Append(ctx, m.key, eventlog.Batch{}); err != nil {
		t.Fatal(err)
	}
	runs, err := m.log.Runs(ctx, m.key)
	if err != nil || len(runs) != len(m.runs) {
		t.Fatalf("%d runs, want %d: %v", len(runs), len(m.runs), err)
	}
	for i, r := range m.runs {
		got := runs[i]
		events := r.events
		if !r.open && r.status != agui.RunSuccess {
			events++ // the RUN_ERROR of the store
		}
		if got.Key.ID != r.id || got.Running() != r.open || got.Held != r.open || got.Epoch != r.epoch || got.Owner != r.owner || got.Events != events || got.Status != r.status {
			t.Fatalf("run %d: %+v, want %+v", i, got, r)
		}
	}
	var companion []string
	for e, err := range m.log.Companion(ctx, m.key, 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		companion = append(companion, string(e.Body))
	}
	if !slices.Equal(companion, m.companion) {
		t.Fatalf("companion %q, want %q", companion, m.companion)
	}
}

// Random calls of many holders, time that passes and processes that die: the log
// answers what a simple model does.
func TestLeaseModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &leaseModel{
			clock: &handTime{at: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}, fs: vfs.NewCrashableMem(),
			key: eventlog.ThreadKey{Scope: "s", Thread: "t"}, keys: make(map[string]eventlog.Appended),
		}
		m.open(t)
		defer func() { m.log.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"begin": m.begin, "take": m.take, "lease": m.lease, "writer": m.writer, "keep": m.keep, "again": m.again,
			"pass": m.pass, "restart": m.restart, "": m.check,
		})
		for _, fault := range logtest.Check(context.Background(), m.log) {
			t.Error(fault)
		}
	})
}
