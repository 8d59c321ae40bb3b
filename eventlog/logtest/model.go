package logtest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// model is a log as a few lists in memory, written from what package eventlog
// promises and DESIGN's decisions 2 to 4 say, and as simple as can be: nothing is
// indexed, nothing is kept that can be looked up. It knows the events of
// modelEvent, no others, and is told of one thing at a time.
type model struct {
	now     func() time.Time
	last    time.Time // of the latest commit
	commits []eventlog.Commit
	threads []*modelThread // in order of their creation
}

type modelThread struct {
	key       eventlog.ThreadKey
	created   time.Time
	updated   time.Time
	records   []eventlog.Record
	events    []modelEvent // what the records are of
	companion []eventlog.Entry
	runs      []*modelRun
	head      agui.RunKey
	epoch     uint64
	keys      map[string]modelKey

	first      uint64 // seq of the first record that is not cleared
	generation uint64
	erased     *eventlog.ErasedError
	receipts   []eventlog.Receipt
}

type modelRun struct {
	agui.Run
	held     bool
	epoch    uint64
	owner    string
	origin   eventlog.Origin
	appended time.Time // the latest raw append to it

	ttl     time.Duration // of its lease; 0: it does not expire
	expires time.Time     // until when it has not expired
	maybe   time.Time     // from when on it has
}

type modelKey struct {
	content   string
	companion bool
	done      eventlog.Appended
	at        time.Time
}

// modelEvent is an event of the vocabulary.
type modelEvent struct {
	typ     agui.Type
	run     *string // runId
	parent  *string // parentRunId
	message string  // messageId
	n       int     // makes it different
}

func (e modelEvent) raw() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"type":%q,"n":%d`, e.typ, e.n)
	if e.run != nil {
		fmt.Fprintf(&b, `,"runId":%q`, *e.run)
	}
	if e.parent != nil {
		fmt.Fprintf(&b, `,"parentRunId":%q`, *e.parent)
	}
	if e.message != "" {
		fmt.Fprintf(&b, `,"messageId":%q`, e.message)
	}
	if e.typ == agui.TypeTextMessageContent {
		b.WriteString(`,"delta":"x"`)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// modelAge is how long idempotency keys are kept, modelLease how long a run counts
// as its producer's after a raw append.
const (
	modelAge   = 7 * 24 * time.Hour
	modelLease = 10 * time.Minute
)

func (m *model) position() uint64 { return uint64(len(m.commits)) }

func (m *model) find(k eventlog.ThreadKey) *modelThread {
	for _, t := range m.threads {
		if t.key == k {
			return t
		}
	}
	return nil
}

// clock is the time of a commit: it never goes back.
func (m *model) clock() time.Time {
	if now := m.now(); now.After(m.last) {
		return now
	}
	return m.last
}

// commit makes one, creating the thread if need be; write adds what it holds.
func (m *model) commit(k eventlog.ThreadKey, stream eventlog.Stream, write func(t *modelThread)) *modelThread {
	m.last = m.clock()
	t := m.find(k)
	if t == nil {
		t = &modelThread{key: k, created: m.last, updated: m.last, first: 1, keys: make(map[string]modelKey)}
		m.threads = append(m.threads, t)
	}
	c := eventlog.Commit{Position: m.position() + 1, Thread: k, Stream: stream, Time: m.last}
	records, entries := len(t.records), len(t.companion)
	m.commits = append(m.commits, c)
	write(t)
	c.Count = len(t.records) - records + len(t.companion) - entries
	if c.Count > 0 && stream == eventlog.StreamEvents {
		c.First = uint64(records + 1)
		t.updated = m.last
	} else if c.Count > 0 {
		c.First = uint64(entries + 1)
	}
	m.commits[len(m.commits)-1] = c
	return t
}

func (t *modelThread) lastSeq() uint64 {
	if t == nil {
		return 0
	}
	return uint64(len(t.records))
}

// find gives a run by its key; latest the latest attempt of an id.
func (t *modelThread) find(k agui.RunKey) *modelRun {
	for _, r := range t.runs {
		if r.Key == k {
			return r
		}
	}
	return nil
}

func (t *modelThread) latest(id string) *modelRun {
	var out *modelRun
	for _, r := range t.runs {
		if r.Key.ID == id {
			out = r
		}
	}
	return out
}

// lineage is the runs from one to its root.
func (t *modelThread) lineage(k agui.RunKey) []*modelRun {
	var out []*modelRun
	for r := t.find(k); r != nil; r = t.find(r.Parent) {
		out = append(out, r)
	}
	return out
}

// running is those of a lineage that run, the oldest first.
func (t *modelThread) running(k agui.RunKey) []*modelRun {
	var out []*modelRun
	for _, r := range t.lineage(k) {
		if r.Running() {
			out = append([]*modelRun{r}, out...)
		}
	}
	return out
}

// verdict is what decision 2 and 3 say of an event.
type verdict struct {
	run                    agui.RunKey
	started, echo, unknown bool
	names                  bool // it says itself which run it continues
	parent                 agui.RunKey
}

func (t *modelThread) judge(e modelEvent, c agui.Claim) verdict {
	if e.typ != agui.TypeRunStarted {
		if !c.Run.IsZero() {
			return verdict{run: c.Run}
		}
		return verdict{run: t.runOf(e)}
	}
	if c.Leased {
		return verdict{run: c.Run, echo: true}
	}
	v := verdict{started: true, run: agui.RunKey{ID: *e.run, Attempt: 1}}
	if r := t.latest(*e.run); r != nil {
		if r.Running() {
			return verdict{run: r.Key, echo: true}
		}
		v.run.Attempt = r.Key.Attempt + 1
	}
	switch {
	case c.Parent != nil:
		v.parent, v.names = *c.Parent, true
		v.unknown = e.parent != nil && *e.parent != c.Parent.ID && (!c.Parent.IsZero() || *e.parent != agui.RootParent)
	case e.parent == nil:
		v.parent = t.head
	default:
		r := t.latest(*e.parent)
		switch {
		case r == nil && *e.parent == agui.RootParent:
			v.names = true
		case r == nil, r.Running(), *e.parent == *e.run:
			v.parent, v.unknown = t.head, true
		default:
			v.parent, v.names = r.Key, true
		}
	}
	return v
}

// runOf is the run of an event that no claim places.
func (t *modelThread) runOf(e modelEvent) agui.RunKey {
	if e.run != nil {
		if r := t.latest(*e.run); r != nil {
			return r.Key
		}
	}
	var newest, owner *modelRun
	for _, r := range t.runs {
		if !r.Running() {
			continue
		}
		newest = r
		if e.message != "" && e.typ != agui.TypeTextMessageStart && t.hasMessage(r, e.message) {
			owner = r
		}
	}
	switch {
	case owner != nil:
		return owner.Key
	case newest != nil:
		return newest.Key
	case len(t.runs) > 0:
		return t.runs[len(t.runs)-1].Key
	}
	return agui.RunKey{}
}

func (t *modelThread) hasMessage(r *modelRun, id string) bool {
	for i, e := range t.events {
		if t.records[i].Seq >= t.first && t.records[i].Run == r.Key && e.message == id && (e.typ == agui.TypeTextMessageStart || e.typ == agui.TypeTextMessageEnd) {
			return true
		}
	}
	return false
}

// add writes a record.
func (m *model) add(t *modelThread, e modelEvent, event []byte, c agui.Claim, origin eventlog.Origin) {
	v := t.judge(e, c)
	seq := t.lastSeq() + 1
	r := t.find(v.run)
	if v.started {
		r = &modelRun{Run: agui.Run{Key: v.run, Parent: v.parent, FirstSeq: seq}, origin: origin}
		if !v.parent.IsZero() && (v.names || len(t.running(v.parent)) == 0) {
			r.ParentSeq = seq - 1
		}
		t.runs = append(t.runs, r)
		t.head = v.run
	}
	if r != nil {
		r.Events++
		r.LastSeq = seq
		if origin == eventlog.OriginAppend {
			r.appended = m.last
		}
		if r.Running() && e.typ.Terminal() {
			r.EndSeq, r.Status, r.held = seq, modelStatus(e, origin), false
		}
	}
	t.records = append(t.records, eventlog.Record{
		Seq: seq, Position: m.position(), Time: m.last, Run: v.run, Type: e.typ, Origin: origin,
		Echo: v.echo, UnknownParent: v.unknown, Event: event,
	})
	t.events = append(t.events, e)
}

// modelStatus is what an end makes of its run: the vocabulary's RUN_FINISHED has
// no outcome, and its RUN_ERROR no code; the store's has the code in message.
func modelStatus(e modelEvent, origin eventlog.Origin) agui.RunStatus {
	switch {
	case e.typ == agui.TypeRunFinished:
		return agui.RunSuccess
	case origin == eventlog.OriginStore && e.message == agui.CodeAbandoned:
		return agui.RunAbandoned
	}
	return agui.RunFailed
}

// close ends a run in its writer's place. What the events are besides their types
// is for the tests of package agui.
func (m *model) close(t *modelThread, r *modelRun, code string) {
	var open []string
	for i, e := range t.events {
		if t.records[i].Seq < t.first || t.records[i].Run != r.Key || e.message == "" {
			continue
		}
		switch e.typ {
		case agui.TypeTextMessageStart:
			open = append(without(open, e.message), e.message)
		case agui.TypeTextMessageEnd:
			open = without(open, e.message)
		}
	}
	c := agui.Claim{Run: r.Key}
	for _, id := range open {
		m.add(t, modelEvent{typ: agui.TypeTextMessageEnd, message: id}, nil, c, eventlog.OriginStore)
	}
	m.add(t, modelEvent{typ: agui.TypeRunError, message: code}, nil, c, eventlog.OriginStore)
}

func without(list []string, one string) []string {
	var out []string
	for _, s := range list {
		if s != one {
			out = append(out, s)
		}
	}
	return out
}

// clone is for trying what a batch would do.
func (t *modelThread) clone() *modelThread {
	c := *t
	c.records, c.events, c.runs = append([]eventlog.Record(nil), t.records...), append([]modelEvent(nil), t.events...), nil
	for _, r := range t.runs {
		one := *r
		c.runs = append(c.runs, &one)
	}
	return &c
}
