package history

import (
	"cmp"
	"slices"

	"github.com/agstore/agstore/eventlog"
)

// Ordered wants dense seqs, commits that follow each other, the answers of one
// moment before those of calls that began later, and what a writer enqueued in
// its order.
func Ordered(h History, s *Store) []error {
	f := &faults{promise: ErrOrdered}
	for k, t := range s.Threads {
		if t != nil {
			f.dense(k, t)
		}
	}
	for k, entries := range h.byThread() {
		f.realTime(k, entries)
		f.pipelined(k, entries, s.Threads[k].places())
	}
	return f.list
}

func (f *faults) dense(k eventlog.ThreadKey, t *Thread) {
	next, position := t.first(), uint64(0)
	for i := range t.Records {
		r := &t.Records[i]
		if r.Seq != next {
			f.add(k, r.Seq, nil, "it lies where seq %d should be", next)
		}
		if r.Position < position {
			f.add(k, r.Seq, nil, "its commit %d is before commit %d", r.Position, position)
		}
		next, position = r.Seq+1, r.Position
	}
	if t.Last != 0 && t.Last != next-1 {
		f.add(k, t.Last, nil, "the thread says that it ends here; its last record is %d", next-1)
	}
}

func (f *faults) realTime(k eventlog.ThreadKey, entries []*Entry) {
	answers := acknowledged(entries)
	begins := slices.Clone(answers)
	slices.SortStableFunc(begins, func(a, b *Entry) int { return cmp.Compare(a.Begun, b.Begun) })
	var latest *Entry // of the answers given so far, the one with the highest seq
	n := 0
	for _, e := range begins {
		for n < len(answers) && answers[n].Ended < e.Begun {
			if latest == nil || answers[n].Last > latest.Last {
				latest = answers[n]
			}
			n++
		}
		if latest == nil || e.Duplicate {
			continue
		}
		if e.First <= latest.Last {
			f.add(k, e.First, e, "it began when seq %d had been acknowledged (%v)", latest.Last, latest)
		}
		if e.Position != 0 && e.Position < latest.Position {
			f.add(k, e.First, e, "its position %d is before %d, acknowledged when it began", e.Position, latest.Position)
		}
	}
}

func (f *faults) pipelined(k eventlog.ThreadKey, entries []*Entry, places map[string][]uint64) {
	last := make(map[string]uint64)
	for _, e := range entries {
		if e.Op != OpEnqueue && e.Op != OpWrite || e.Key != "" {
			continue // what has a key may be sent again, and lies where it lay
		}
		who := e.Client + "\x00" + e.RunKey().String()
		for _, event := range e.Events {
			at := places[trim(event)]
			if len(at) != 1 {
				continue
			}
			if at[0] <= last[who] {
				f.add(k, at[0], e, "it lies before seq %d, which the same writer wrote earlier", last[who])
			}
			last[who] = at[0]
		}
	}
}

// Atomic wants each batch in one piece of one commit, or not at all.
func Atomic(h History, s *Store) []error {
	f := &faults{promise: ErrAtomic}
	for k, entries := range h.byThread() {
		t := s.Threads[k]
		places := t.places()
		for _, w := range writes(entries) {
			f.whole(k, t, w, places)
		}
	}
	return f.list
}

func (f *faults) whole(k eventlog.ThreadKey, t *Thread, w *write, places map[string][]uint64) {
	e := w.attempts[0]
	if w.most() == 0 {
		if at := places[w.events[0]]; len(at) > 0 && !writtenElsewhere(w) {
			f.add(k, at[0], e, "it was refused (%s) and is there", e.Error)
		}
		return
	}
	at := places[w.events[0]]
	for i, event := range w.events {
		here := places[event]
		if len(here) != len(at) {
			f.add(k, 0, e, "of its %d events, the first is there %d times, event %d %d times", len(w.events), len(at), i+1, len(here))
			return
		}
		for j, seq := range here {
			if seq != at[j]+uint64(i) {
				f.add(k, seq, e, "event %d of a batch that begins at seq %d", i+1, at[j])
				return
			}
			first, r := t.record(at[j]), t.record(seq)
			if first == nil || r == nil || first.Position != r.Position {
				f.add(k, seq, e, "the batch that begins at seq %d is of more than one commit", at[j])
				return
			}
		}
	}
}

// writtenElsewhere reports whether a refused write has the events of a run that
// had started already: the start is there, by another's word.
func writtenElsewhere(w *write) bool { return w.attempts[0].Op == OpBegin }

// Unique wants nothing twice, and nothing of nobody.
func Unique(h History, s *Store) []error {
	f := &faults{promise: ErrUnique}
	for k, entries := range h.byThread() {
		t := s.Threads[k]
		places := t.places()
		all := writes(entries)
		most := make(map[string]int)
		for _, w := range all {
			for _, event := range w.events {
				most[event] += w.most()
			}
			f.sameAnswers(k, w)
		}
		for event, at := range places {
			if n, written := most[event]; written && n > 0 && len(at) > n {
				f.add(k, at[len(at)-1], nil, "%s is there %d times, and was written %d times", short(event), len(at), n)
			}
		}
		f.nobodys(k, t, most)
		f.overlaps(k, entries)
	}
	return f.list
}

// sameAnswers wants of all attempts at one batch with a key the same answer,
// and one of them to have written.
func (f *faults) sameAnswers(k eventlog.ThreadKey, w *write) {
	if !w.once {
		return
	}
	var first *Entry
	wrote := 0
	for _, e := range w.attempts {
		if e.Outcome != OutcomeOK || e.First == 0 {
			continue
		}
		if !e.Duplicate {
			wrote++
		}
		if first == nil {
			first = e
		} else if first.First != e.First || first.Last != e.Last {
			f.add(k, e.First, e, "seq %d to %d is told for the key %q, and %d to %d before (%v)", e.First, e.Last, e.Key, first.First, first.Last, first)
		}
	}
	if wrote > 1 {
		f.add(k, first.First, first, "%d attempts say that it was they who wrote", wrote)
	}
}

// nobodys looks for records that are of no entry. What the store writes itself,
// it writes with its own origin.
func (f *faults) nobodys(k eventlog.ThreadKey, t *Thread, written map[string]int) {
	if t == nil {
		return
	}
	for i := range t.Records {
		r := &t.Records[i]
		if _, known := written[string(r.Event)]; !known && r.Origin != eventlog.OriginStore {
			f.add(k, r.Seq, nil, "nobody wrote %s", short(string(r.Event)))
		}
	}
}

// overlaps looks for seqs that two appends were given.
func (f *faults) overlaps(k eventlog.ThreadKey, entries []*Entry) {
	told := slices.DeleteFunc(acknowledged(entries), func(e *Entry) bool { return e.Duplicate || e.Key != "" })
	slices.SortStableFunc(told, func(a, b *Entry) int { return cmp.Compare(a.First, b.First) })
	for i := 1; i < len(told); i++ {
		if told[i].First <= told[i-1].Last {
			f.add(k, told[i].First, told[i], "the seq was given to another append too (%v)", told[i-1])
		}
	}
}

// Durable wants what was acknowledged, and what readers were shown.
func Durable(h History, s *Store) []error {
	f := &faults{promise: ErrDurable}
	for k, entries := range h.byThread() {
		t, removed := s.Threads[k], removals(entries)
		for _, e := range entries {
			if e.Outcome != OutcomeOK {
				continue
			}
			for i, event := range e.Events {
				if e.First > 0 {
					f.there(k, t, removed, e, e.First+uint64(i), trim(event), e.Position)
				}
			}
			for _, r := range e.Seen {
				f.there(k, t, removed, e, r.Seq, r.Event, 0)
			}
			f.done(k, t, e)
		}
		places := t.places()
		for _, w := range writes(entries) {
			f.counted(k, t, removed, w, places)
		}
	}
	return f.list
}

func (f *faults) there(k eventlog.ThreadKey, t *Thread, removed bool, e *Entry, seq uint64, want string, position uint64) {
	if removed && t.gone(seq) {
		return
	}
	r := t.record(seq)
	switch {
	case r == nil:
		f.add(k, seq, e, "it is gone; it was %s", short(want))
	case string(r.Event) != want:
		f.add(k, seq, e, "it is %s; it was %s", short(string(r.Event)), short(want))
	case position != 0 && r.Position != position:
		f.add(k, seq, e, "it is of commit %d; it was of %d", r.Position, position)
	}
}

// counted looks for acknowledged events whose seqs were not told.
func (f *faults) counted(k eventlog.ThreadKey, t *Thread, removed bool, w *write, places map[string][]uint64) {
	if removed || w.least() == 0 {
		return
	}
	for _, event := range w.events {
		if n := len(places[event]); n < w.least() {
			f.add(k, 0, w.attempts[0], "%s was acknowledged %d times and is there %d times", short(event), w.least(), n)
			return
		}
	}
}

// done looks for what an acknowledged end, clear or erasure should have done.
func (f *faults) done(k eventlog.ThreadKey, t *Thread, e *Entry) {
	switch e.Op {
	case OpEnd:
		if t == nil || t.Erased {
			return
		}
		for i := range t.Runs {
			if r := &t.Runs[i]; r.Key == e.RunKey() && r.Running() {
				f.add(k, 0, e, "run %q runs, and its end was acknowledged", r.Key)
			}
		}
	case OpClear:
		if t != nil && !t.Erased && t.first() <= e.Last {
			f.add(k, t.first(), e, "the thread begins here; it was cleared up to seq %d", e.Last)
		}
	case OpErase:
		if t != nil && !t.Erased {
			f.add(k, 0, e, "the thread is there, and was erased")
		}
	}
}

// Resumable wants each read dense from where it began, up to all that had been
// acknowledged, and the same as every other.
func Resumable(h History, s *Store) []error {
	f := &faults{promise: ErrResumable}
	for k, entries := range h.byThread() {
		t, removed := s.Threads[k], removals(entries)
		answers := acknowledged(entries)
		for _, e := range entries {
			if e.Op == OpRead && e.Outcome == OutcomeOK {
				f.resumed(k, t, removed, e, answers)
			}
		}
	}
	return f.list
}

func (f *faults) resumed(k eventlog.ThreadKey, t *Thread, removed bool, e *Entry, answers []*Entry) {
	next := max(1, e.From)
	for i, r := range e.Seen {
		if i == 0 && removed && r.Seq > next {
			next = r.Seq // a gap that a clear has left
		}
		if r.Seq != next {
			f.add(k, r.Seq, e, "it came where seq %d was due", next)
			return
		}
		if there := t.record(r.Seq); there != nil && string(there.Event) != r.Event {
			f.add(k, r.Seq, e, "it was shown as %s", short(r.Event))
		}
		next++
	}
	if e.To != 0 || removed {
		return
	}
	for _, a := range answers {
		if a.Ended < e.Begun && a.Last >= next {
			f.add(k, next, e, "the read ended before it, and seq %d had been acknowledged (%v)", a.Last, a)
			return
		}
	}
}
