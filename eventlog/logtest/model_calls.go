package logtest

import (
	"errors"
	"fmt"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// modelBatch is a raw append.
type modelBatch struct {
	events []modelEvent
	origin eventlog.Origin
	run    agui.RunKey
	parent *agui.RunKey
	expect *uint64
	key    string
}

func (b *modelBatch) content() string {
	out := "events"
	for _, e := range b.events {
		out += "\n" + string(e.raw())
	}
	return out
}

// known answers a batch whose key was used.
func (m *model) known(t *modelThread, key, content string) (eventlog.Appended, bool, error) {
	if t == nil || key == "" {
		return eventlog.Appended{}, false, nil
	}
	was, ok := t.keys[key]
	if !ok || was.at.Add(modelAge).Before(m.clock()) {
		return eventlog.Appended{}, false, nil
	}
	if t.generation > 0 && !was.companion && was.done.Last < t.first {
		return eventlog.Appended{}, true, &eventlog.KeyErasedError{Key: key, First: was.done.First, Last: was.done.Last}
	}
	if was.content != content {
		return eventlog.Appended{}, true, &eventlog.KeyConflictError{Key: key, First: was.done.First, Last: was.done.Last}
	}
	was.done.Duplicate = true
	return was.done, true, nil
}

// conflict is the refusal of a call that expects another last seq. It names the
// first run that was started behind the seq that was expected.
func (t *modelThread) conflict(expect *uint64) error {
	if expect == nil || *expect == t.lastSeq() {
		return nil
	}
	e := &eventlog.ConflictError{Expected: *expect, Actual: t.lastSeq()}
	if t == nil {
		return e
	}
	for _, r := range t.runs {
		if r.FirstSeq > *expect {
			e.Run, e.Owner = r.Key, r.owner
			break
		}
	}
	return e
}

// endedParent is why a run cannot be placed behind another.
func (t *modelThread) endedParent(parent *agui.RunKey) error {
	if parent == nil || parent.IsZero() {
		return nil
	}
	var r *modelRun
	if t != nil {
		r = t.find(*parent)
	}
	if r == nil {
		return eventlog.ErrRunNotFound
	}
	if r.Running() {
		return &eventlog.RunActiveError{Run: r.Key}
	}
	return nil
}

func (m *model) append(k eventlog.ThreadKey, b modelBatch) (eventlog.Appended, error) {
	t, err := m.touch(k)
	if err != nil {
		return eventlog.Appended{}, err
	}
	if done, ok, err := m.known(t, b.key, b.content()); ok || err != nil {
		return done, err
	}
	if err := t.conflict(b.expect); err != nil {
		return eventlog.Appended{}, err
	}
	if !b.run.IsZero() && (t == nil || t.find(b.run) == nil) {
		return eventlog.Appended{}, eventlog.ErrRunNotFound
	}
	if err := t.endedParent(b.parent); err != nil {
		return eventlog.Appended{}, err
	}
	if len(b.events) == 0 && t != nil {
		return eventlog.Appended{Last: t.lastSeq(), Position: m.position()}, nil
	}
	if t != nil {
		if err := m.mayAppend(t.clone(), b); err != nil {
			return eventlog.Appended{}, err
		}
	}
	var done eventlog.Appended
	m.commit(k, eventlog.StreamEvents, func(t *modelThread) {
		if len(b.events) > 0 {
			done.First = t.lastSeq() + 1
		}
		m.write(t, b)
		done.Last, done.Position = t.lastSeq(), m.position()
		if b.key != "" {
			t.keys[b.key] = modelKey{b.content(), false, done, m.last}
		}
	})
	return done, nil
}

// claims gives the claim of each event: the parent is the first start's.
func (b *modelBatch) each(do func(e modelEvent, c agui.Claim) error) error {
	parent := b.parent
	for _, e := range b.events {
		c := agui.Claim{Run: b.run}
		if e.typ == agui.TypeRunStarted {
			c.Parent, parent = parent, nil
		}
		if err := do(e, c); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) write(t *modelThread, b modelBatch) {
	_ = b.each(func(e modelEvent, c agui.Claim) error {
		m.add(t, e, e.raw(), c, b.origin)
		return nil
	})
}

// mayAppend refuses what would be written into a held run, or start one behind it.
// The thread is a copy.
func (m *model) mayAppend(t *modelThread, b modelBatch) error {
	return b.each(func(e modelEvent, c agui.Claim) error {
		v := t.judge(e, c)
		if r := t.find(v.run); r != nil && r.held {
			return &eventlog.RunActiveError{Run: r.Key}
		}
		if p := t.find(v.parent); v.started && !v.names && p != nil && p.held {
			return &eventlog.RunActiveError{Run: p.Key}
		}
		m.add(t, e, nil, c, b.origin)
		return nil
	})
}

// begin starts a run under a lease, of that epoch.
func (m *model) begin(k eventlog.ThreadKey, e modelEvent, parent *agui.RunKey, expect *uint64, takeOver bool, h eventlog.Holder) (run agui.RunKey, first, epoch uint64, err error) {
	t, err := m.touch(k)
	if err != nil {
		return run, 0, 0, err
	}
	if t != nil {
		if r := t.latest(*e.run); r != nil {
			return run, 0, 0, &eventlog.RunExistsError{Run: r.Key, Status: r.Status}
		}
	}
	var abandoned []*modelRun
	if t != nil && parent == nil {
		abandoned = t.running(t.head)
		for _, r := range abandoned {
			if !takeOver && m.owned(r) {
				return run, 0, 0, &eventlog.RunActiveError{Run: r.Key}
			}
		}
	}
	if err := t.conflict(expect); err != nil {
		return run, 0, 0, err
	}
	if err := t.endedParent(parent); err != nil {
		if !takeOver || !errors.Is(err, eventlog.ErrRunActive) {
			return run, 0, 0, err
		}
		abandoned = t.running(*parent)
	}
	m.commit(k, eventlog.StreamEvents, func(t *modelThread) {
		for _, r := range abandoned {
			if r.held { // who starts the next run fences its writer
				t.epoch++
				r.epoch, r.owner = t.epoch, h.Owner
			}
			m.close(t, r, agui.CodeAbandoned)
		}
		behind := t.head
		if parent != nil {
			behind = *parent
		}
		m.add(t, e, e.raw(), agui.Claim{Parent: &behind}, eventlog.OriginStore)
		r := t.runs[len(t.runs)-1]
		m.hold(t, r, h)
		run, first, epoch = r.Key, t.lastSeq(), t.epoch
	})
	return run, first, epoch, nil
}

func (m *model) note(k eventlog.ThreadKey, bodies []string, expect *uint64, key string) (eventlog.Appended, error) {
	t, err := m.touch(k)
	if err != nil {
		return eventlog.Appended{}, err
	}
	content := fmt.Sprintf("companion %q", bodies)
	if done, ok, err := m.known(t, key, content); ok || err != nil {
		return done, err
	}
	last := uint64(0)
	if t != nil {
		last = uint64(len(t.companion))
	}
	if expect != nil && *expect != last {
		return eventlog.Appended{}, &eventlog.ConflictError{Expected: *expect, Actual: last}
	}
	done := eventlog.Appended{First: last + 1, Last: last + uint64(len(bodies))}
	m.commit(k, eventlog.StreamCompanion, func(t *modelThread) {
		done.Position = m.position()
		for _, b := range bodies {
			t.companion = append(t.companion, eventlog.Entry{Seq: uint64(len(t.companion) + 1), Position: m.position(), Time: m.last, Kind: "note", Body: []byte(b)})
		}
		if key != "" {
			t.keys[key] = modelKey{content, true, done, m.last}
		}
	})
	return done, nil
}

// about is what the log should say of a thread.
func (t *modelThread) about() eventlog.Thread {
	return eventlog.Thread{
		Key: t.key, Created: utc(t.created), Updated: utc(t.updated), LastSeq: t.lastSeq(), FirstSeq: t.first,
		Runs: len(t.runs), Head: t.head, CompanionSeq: uint64(len(t.companion)),
		Generation: t.generation, Removals: uint64(len(t.receipts)),
	}
}

func utc(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// reads is what a read should yield. An [eventlog.GapError] comes before records.
func (t *modelThread) reads(o eventlog.ReadOptions) ([]eventlog.Record, error) {
	if t.erased != nil {
		return nil, t.erased
	}
	through := make(map[agui.RunKey]uint64)
	if o.Lineage != nil && !o.Lineage.IsZero() {
		if t.find(*o.Lineage) == nil {
			return nil, eventlog.ErrRunNotFound
		}
		bound := uint64(agui.Unbounded)
		for _, r := range t.lineage(*o.Lineage) {
			through[r.Key] = bound
			if r.ParentSeq != 0 {
				bound = min(bound, r.ParentSeq)
			}
		}
	}
	var out []eventlog.Record
	for _, r := range t.records {
		switch bound, ok := through[r.Run]; {
		case r.Seq < t.first, r.Seq < o.From, o.To != 0 && r.Seq > o.To:
		case o.Lineage != nil && !r.Run.IsZero() && (!ok || r.Seq > bound):
		default:
			out = append(out, r)
		}
	}
	if o.From > 0 && o.From < t.first {
		return out, &eventlog.GapError{From: o.From, To: t.first - 1, Reason: eventlog.RemovalClear}
	}
	return out, nil
}
