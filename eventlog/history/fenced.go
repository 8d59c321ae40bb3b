package history

import (
	"cmp"
	"slices"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Fenced wants one writer per run, one live run at the head, and nothing of a
// writer whose lease was gone.
func Fenced(h History, s *Store) []error {
	f := &faults{promise: ErrFenced}
	for k, entries := range h.byThread() {
		t := s.Threads[k]
		places := t.places()
		for _, w := range writes(entries) {
			refused := slices.IndexFunc(w.attempts, func(e *Entry) bool { return e.Outcome == OutcomeFenced })
			if at := places[w.events[0]]; w.most() == 0 && refused >= 0 && len(at) > 0 {
				f.add(k, at[0], w.attempts[refused], "its lease was gone, and the event is there")
			}
		}
		f.epochs(k, entries)
		f.behindTheEnd(k, entries)
		f.oneLive(k, t, entries)
		f.agentBehindTheEnd(k, t)
	}
	return f.list
}

// epochs wants them to grow with each lease, and no writer behind a newer one.
func (f *faults) epochs(k eventlog.ThreadKey, entries []*Entry) {
	acks := slices.DeleteFunc(acknowledged(entries), func(e *Entry) bool { return e.Epoch == 0 })
	slices.SortStableFunc(acks, func(a, b *Entry) int { return cmp.Compare(a.First, b.First) })
	holders := make(map[uint64]*Entry)
	highest := make(map[agui.RunKey]*Entry)
	last := uint64(0)
	for _, e := range acks {
		if e.Op == OpBegin {
			if e.Epoch <= last {
				f.add(k, e.First, e, "epoch %d was given behind %d", e.Epoch, last)
			}
			last = max(last, e.Epoch)
		}
		if other := holders[e.Epoch]; other != nil && (other.Client != e.Client || other.RunKey() != e.RunKey()) {
			f.add(k, e.First, e, "epoch %d has two holders (%v)", e.Epoch, other)
		}
		holders[e.Epoch] = e
		id := e.RunKey()
		if newer := highest[id]; newer != nil && newer.Epoch > e.Epoch {
			f.add(k, e.First, e, "written under epoch %d when epoch %d had been given (%v)", e.Epoch, newer.Epoch, newer)
		}
		if newer := highest[id]; newer == nil || newer.Epoch < e.Epoch {
			highest[id] = e
		}
	}
}

// behindTheEnd looks for writes that began when the end had been acknowledged.
func (f *faults) behindTheEnd(k eventlog.ThreadKey, entries []*Entry) {
	ended := make(map[agui.RunKey]*Entry)
	for _, e := range entries {
		if e.Op == OpEnd && e.Outcome == OutcomeOK {
			if id := e.RunKey(); ended[id] == nil || e.Ended < ended[id].Ended {
				ended[id] = e
			}
		}
	}
	for _, e := range entries {
		end := ended[e.RunKey()]
		if (e.Op == OpWrite || e.Op == OpEnqueue) && e.Outcome == OutcomeOK && end != nil && e.Begun > end.Ended && end.Epoch == e.Epoch {
			f.add(k, e.First, e, "run %q had been ended (%v)", e.RunKey(), end)
		}
	}
}

// oneLive wants the head's run to have ended when the next one began on it.
func (f *faults) oneLive(k eventlog.ThreadKey, t *Thread, entries []*Entry) {
	if t == nil {
		return
	}
	for _, e := range entries {
		if e.Op != OpBegin || e.Outcome != OutcomeOK || e.Beside {
			continue
		}
		i := slices.IndexFunc(t.Runs, func(r eventlog.Run) bool { return r.Key == e.RunKey() })
		if i <= 0 {
			continue
		}
		before := &t.Runs[i-1]
		if before.FirstSeq >= t.first() && (before.Running() || before.EndSeq > e.First) {
			f.add(k, e.First, e, "run %q began on run %q, which had not ended", e.RunKey(), before.Key)
		}
	}
}

// agentBehindTheEnd looks for a writer's records behind the end of its run.
func (f *faults) agentBehindTheEnd(k eventlog.ThreadKey, t *Thread) {
	if t == nil {
		return
	}
	end := make(map[agui.RunKey]uint64)
	for i := range t.Runs {
		if r := &t.Runs[i]; !r.Running() {
			end[r.Key] = r.EndSeq
		}
	}
	for i := range t.Records {
		r := &t.Records[i]
		if at := end[r.Run]; r.Origin == eventlog.OriginAgent && at != 0 && r.Seq > at {
			f.add(k, r.Seq, nil, "a writer of run %q wrote it; the run ended at seq %d", r.Run, at)
		}
	}
}
