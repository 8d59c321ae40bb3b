package logtest

import (
	"errors"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// touch is the thread that a call is of; nil if there is none.
func (m *model) touch(k eventlog.ThreadKey) (*modelThread, error) {
	t := m.find(k)
	if t != nil && t.erased != nil {
		return t, t.erased
	}
	return t, nil
}

// expired are the runs of a thread whose leases are past their end.
func (m *model) expired(t *modelThread) (out []*modelRun) {
	for _, r := range t.runs {
		if r.Running() && r.held && r.ttl != 0 && !m.clock().Before(r.maybe) {
			out = append(out, r)
		}
	}
	return out
}

// abandon closes runs in one commit; of none, it does nothing.
func (m *model) abandon(t *modelThread, runs []*modelRun) {
	if len(runs) == 0 {
		return
	}
	m.commit(t.key, eventlog.StreamEvents, func(t *modelThread) {
		for _, r := range runs {
			m.close(t, r, agui.CodeAbandoned)
		}
	})
}

// sure is the first time, not before at, at which it is known of every lease
// whether it has expired.
func (m *model) sure(at time.Time) time.Time {
	for again := true; again; {
		again = false
		for _, t := range m.threads {
			for _, r := range t.runs {
				if r.held && r.ttl != 0 && !at.Before(r.expires) && at.Before(r.maybe) {
					at, again = r.maybe, true
				}
			}
		}
	}
	return at
}

// hold gives a lease of a run, whether it has one or not.
func (m *model) hold(t *modelThread, r *modelRun, h eventlog.Holder) {
	t.epoch++
	r.held, r.epoch, r.owner, r.ttl, r.maybe = true, t.epoch, h.Owner, h.TTL, time.Time{}
	m.renewed(r)
}

func (m *model) renewed(r *modelRun) {
	if r.ttl == 0 {
		return
	}
	r.expires = m.clock().Add(r.ttl)
	if r.maybe.Before(r.expires) {
		r.maybe = r.expires
	}
}

// owned reports whether somebody writes a run that runs.
func (m *model) owned(r *modelRun) bool {
	return r.held || !r.appended.IsZero() && m.clock().Before(r.appended.Add(modelLease))
}

// modelWriter is a lease that was given, perhaps long ago.
type modelWriter struct {
	key        eventlog.ThreadKey
	run        agui.RunKey
	epoch      uint64
	generation uint64
}

// fenced is why a lease is no good any more; its run, if it is.
func (m *model) fenced(w modelWriter) (*modelThread, *modelRun, error) {
	t := m.find(w.key)
	if t.erased != nil {
		return t, nil, t.erased
	}
	r := t.find(w.run)
	if r == nil {
		return t, nil, eventlog.ErrRunNotFound
	}
	if r.held && r.epoch == w.epoch {
		return t, r, nil
	}
	e := &eventlog.FencedError{Run: w.run, Epoch: w.epoch, Status: r.Status}
	if r.epoch > w.epoch {
		e.Current, e.Owner = r.epoch, r.owner
	}
	return t, r, e
}

// writer is fenced for a writer of this process. One whose run was cleared away
// has lost it.
func (m *model) writer(w modelWriter) (*modelThread, *modelRun, error) {
	if t := m.find(w.key); t.erased == nil && t.generation != w.generation {
		return t, nil, &eventlog.FencedError{Run: w.run, Epoch: w.epoch, Status: agui.RunAbandoned}
	}
	return m.fenced(w)
}

// tooLate is the refusal of what follows an end in one batch.
func tooLate(events []modelEvent) error {
	for i := range events {
		if events[i].typ.Terminal() && i+1 < len(events) {
			return eventlog.ErrFenced
		}
	}
	return nil
}

// writeLeased is what a writer writes.
func (m *model) writeLeased(w modelWriter, events []modelEvent) (eventlog.Appended, error) {
	if err := tooLate(events); err != nil {
		return eventlog.Appended{}, err
	}
	_, r, err := m.writer(w)
	if err != nil {
		return eventlog.Appended{}, err
	}
	return m.addLeased(w, r, events, "", ""), nil
}

func (m *model) addLeased(w modelWriter, r *modelRun, events []modelEvent, key, content string) (done eventlog.Appended) {
	m.renewed(r)
	m.commit(w.key, eventlog.StreamEvents, func(t *modelThread) {
		done.First = t.lastSeq() + 1
		for _, e := range events {
			m.add(t, e, e.raw(), agui.Claim{Run: w.run, Leased: true}, eventlog.OriginAgent)
		}
		done.Last, done.Position = t.lastSeq(), m.position()
		if key != "" {
			t.keys[key] = modelKey{content, false, done, m.last}
		}
	})
	return done
}

// appendLeased is an append that has a lease.
func (m *model) appendLeased(w modelWriter, b modelBatch) (eventlog.Appended, error) {
	if err := tooLate(b.events); err != nil {
		return eventlog.Appended{}, err
	}
	t, err := m.touch(w.key)
	if err != nil {
		return eventlog.Appended{}, err
	}
	if done, ok, err := m.known(t, b.key, b.content()); ok || err != nil {
		return done, err
	}
	_, r, err := m.fenced(w)
	if err != nil {
		return eventlog.Appended{}, err
	}
	if err := t.conflict(b.expect); err != nil {
		return eventlog.Appended{}, err
	}
	if len(b.events) == 0 {
		m.renewed(r)
		return eventlog.Appended{Last: t.lastSeq(), Position: m.position()}, nil
	}
	return m.addLeased(w, r, b.events, b.key, b.content()), nil
}

// attach is a writer for a lease.
func (m *model) attach(w modelWriter) (modelWriter, error) {
	t, err := m.touch(w.key)
	if err == nil {
		_, _, err = m.fenced(w)
		w.generation = t.generation
	}
	return w, err
}

// renew gives the time up to which a lease has been renewed at least, and at most.
func (m *model) renew(w modelWriter) (least, most time.Time, err error) {
	_, r, err := m.writer(w)
	if err != nil {
		return least, most, err
	}
	m.renewed(r)
	return r.expires, r.maybe, nil
}

func (m *model) end(w modelWriter, code string) error {
	_, r, err := m.writer(w)
	if err != nil {
		if fenced := (*eventlog.FencedError)(nil); errors.As(err, &fenced) && r != nil && r.epoch == w.epoch {
			return nil // the run has ended
		}
		return err
	}
	m.commit(w.key, eventlog.StreamEvents, func(t *modelThread) { m.close(t, t.find(w.run), code) })
	return nil
}

func (m *model) take(k eventlog.ThreadKey, run agui.RunKey, h eventlog.Holder) (uint64, error) {
	t, err := m.touch(k)
	if err != nil {
		return 0, err
	}
	if t == nil {
		return 0, eventlog.ErrThreadNotFound
	}
	r := t.find(run)
	if r == nil {
		return 0, eventlog.ErrRunNotFound
	}
	if !r.Running() {
		return 0, &eventlog.FencedError{Run: run, Status: r.Status}
	}
	m.commit(k, eventlog.StreamControl, func(t *modelThread) { m.hold(t, r, h) })
	return t.epoch, nil
}

// closing is what a restart does to the leases that expire: their ends may come
// up to half a time to live later.
func (m *model) closing() {
	for _, t := range m.threads {
		for _, r := range t.runs {
			if r.held && r.ttl != 0 {
				r.maybe = r.maybe.Add(r.ttl / 2)
			}
		}
	}
}

// reopened is what opening does: the runs whose leases have expired are closed,
// and those of writers of this process, in the order of the threads' creation.
func (m *model) reopened() {
	for _, t := range m.threads {
		m.abandon(t, m.expired(t))
		var held []*modelRun
		for _, r := range t.runs {
			if r.held && r.ttl == 0 {
				held = append(held, r)
			}
		}
		m.abandon(t, held)
	}
}
