package pebblelog

import (
	"encoding/binary"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

// storedRuns is what the rows of a thread's runs say together.
type storedRuns struct {
	count int
	last  uint32 // run ordinal
	epoch uint64
	sound bool // all of them can be read
}

// runs compares the rows of runs with what the records say.
func (t *threadCheck) runs(r pebble.Reader, leases map[uint32]bool) (out storedRuns) {
	v, prefix := t.v, ordinalKey(prefixRun, t.ord)
	out.sound = true
	next := t.row.firstRun + 1
	remains := 0
	for from := prefix; from != nil; {
		v.items, v.bytes = 0, 0
		from = v.walk(r, from, after(prefix), func(key, value []byte) bool {
			if len(key) != 13 {
				v.strange(key)
				return true
			}
			run := binary.BigEndian.Uint32(key[9:])
			if run <= t.row.firstRun || t.row.state == stateErased {
				remains++
				return true
			}
			for ; next < run; next++ {
				t.lostRun(next, leases)
				delete(leases, next)
				if out.sound = out.sound && !t.partial; !t.partial {
					out.count++
				}
			}
			next = run + 1
			row, err := v.dec.runRow(value)
			out.count, out.last = out.count+1, run
			out.epoch = max(out.epoch, row.epoch)
			if err != nil {
				out.sound = out.sound && t.derived(run) != nil
				t.unreadRun(run, key, err, leases)
			} else {
				t.run(run, &row, leases)
			}
			delete(leases, run)
			return true
		})
		if v.ctx.Err() != nil || v.closing() {
			return out
		}
	}
	if !t.partial {
		for n := t.row.firstRun + uint32(t.tracker.Len()); next <= n; next++ {
			t.lostRun(next, leases)
			delete(leases, next)
			out.count, out.last = out.count+1, next
		}
	}
	if remains > 0 {
		t.fault(eventlog.FaultRemains, eventlog.Fault{Place: place(prefix)}, "%d rows of runs are still stored that were removed", remains)
	}
	for run := range leases {
		key := leaseKey(t.ord, run)
		v.fault(t.told(eventlog.FaultLease, eventlog.Fault{Place: place(key)}, "it is a lease of run %d, and the thread has no such run", run), fix{key, nil})
	}
	return out
}

// tail takes note of records that are missing at the end of the thread: rows of
// runs that speak of later ones. From what is left nothing follows then.
func (t *threadCheck) tail(r pebble.Reader) {
	v, prefix := t.v, ordinalKey(prefixRun, t.ord)
	last, seen := uint64(0), t.records.next-1
	for from := prefix; from != nil && v.ctx.Err() == nil && !v.closing(); {
		v.items, v.bytes = 0, 0
		from = v.walk(r, from, after(prefix), func(_, value []byte) bool {
			if row, err := v.dec.runRow(value); err == nil {
				last = max(last, row.run.FirstSeq, row.run.EndSeq, row.run.LastSeq)
			}
			return true
		})
	}
	if last > seen && t.row.state == stateLive {
		t.partial = true
		t.fault(eventlog.FaultMissing, eventlog.Fault{Seq: seen + 1, To: last}, "a run has had records up to seq %d", last)
	}
}

// derived is the row of a run as its records say; nil if they cannot be read. It
// has no lease: what only the row knows is not in it.
func (t *threadCheck) derived(run uint32) *runRow {
	i := int(run) - int(t.row.firstRun) - 1
	if t.partial || i < 0 || i >= t.tracker.Len() {
		return nil
	}
	in := &t.info[i]
	return &runRow{run: t.tracker.At(i), parent: in.parent, started: in.started, ended: in.ended, origin: in.origin}
}

func (t *threadCheck) fixOf(run uint32, row *runRow, leases map[uint32]bool) []fix {
	if row == nil {
		return nil
	}
	row.held = row.run.Running() && leases[run]
	return []fix{{runRowKey(t.ord, run), append([]byte(nil), t.v.enc.runRow(row)...)}}
}

func (t *threadCheck) atRun(run uint32) eventlog.Fault {
	f := eventlog.Fault{Place: place(runRowKey(t.ord, run))}
	if row := t.derived(run); row != nil {
		f.Run, f.Seq = row.run.Key, row.run.FirstSeq
	}
	return f
}

func (t *threadCheck) lostRun(run uint32, leases map[uint32]bool) {
	f := t.told(eventlog.FaultRun, t.atRun(run), "the row of run %d is missing: written anew it lacks its lease and the digest of its input", run)
	t.v.fault(f, t.fixOf(run, t.derived(run), leases)...)
}

func (t *threadCheck) unreadRun(run uint32, key []byte, err error, leases map[uint32]bool) {
	f := undecodable(err, t.atRun(run))
	f.Thread, f.Place = t.row.key, place(key)
	t.v.fault(f, t.fixOf(run, t.derived(run), leases)...)
}

// run compares one row of a run.
func (t *threadCheck) run(run uint32, row *runRow, leases map[uint32]bool) {
	v := t.v
	wrong := t.lease(run, row, leases)
	want := t.derived(run)
	if want == nil {
		if !t.partial {
			t.fault(eventlog.FaultRun, t.atRun(run), "there are no records of run %d", run)
		}
		return
	}
	row.run.Parent = want.run.Parent // kept as its ordinal, which is compared
	if want.run.Running() {
		row.run.LastSeq, row.run.Events = want.run.LastSeq, want.run.Events // not kept while it runs
	}
	wrong = append(wrong,
		differs("its key", row.run.Key, want.run.Key),
		differs("its parent", row.parent, want.parent),
		differs("its parent's seq", row.run.ParentSeq, want.run.ParentSeq),
		differs("its first seq", row.run.FirstSeq, want.run.FirstSeq),
		differs("its last seq", row.run.LastSeq, want.run.LastSeq),
		differs("its end", row.run.EndSeq, want.run.EndSeq),
		differs("its number of records", row.run.Events, want.run.Events),
		differs("its status", row.run.Status, want.run.Status),
		differs("its start", row.started, want.started),
		differs("the time of its end", row.ended, want.ended),
		differs("its origin", row.origin, want.origin),
	)
	wrong = given(wrong)
	if len(wrong) == 0 {
		return
	}
	want.epoch, want.owner, want.digest = row.epoch, row.owner, row.digest
	fixes := t.fixOf(run, want, leases)
	if row.held && want.run.Running() {
		want.held = true
		fixes = []fix{{runRowKey(t.ord, run), append([]byte(nil), v.enc.runRow(want)...)}}
	}
	f := t.atRun(run)
	f.Run = want.run.Key
	v.fault(t.told(eventlog.FaultRun, f, "%s", strings.Join(wrong, "; ")), fixes...)
}

// lease compares a run's row with the lease that it has or has not, and gives
// what is wrong with the row itself.
func (t *threadCheck) lease(run uint32, row *runRow, leases map[uint32]bool) (wrong []string) {
	v, key := t.v, leaseKey(t.ord, run)
	f := eventlog.Fault{Run: row.run.Key, Seq: row.run.FirstSeq, Place: place(key)}
	running := row.run.Running()
	if want := t.derived(run); want != nil {
		running = want.run.Running()
	}
	switch {
	case leases[run] && !running:
		v.fault(t.told(eventlog.FaultLease, f, "the run has ended and has a lease still"), fix{key, nil})
	case leases[run] && !row.held:
		wrong = append(wrong, "it is held by nobody and has a lease")
	case row.held && running && !leases[run]:
		v.fault(t.told(eventlog.FaultLease, f, "the run is held and has no lease"), fix{key, append([]byte(nil), v.enc.lease(leaseRow{})...)})
	}
	if row.held && !running {
		wrong = append(wrong, "it has ended and is held still")
	}
	if row.epoch > t.row.epoch {
		t.fault(eventlog.FaultThread, f, "the latest epoch is %d, and a run has epoch %d", t.row.epoch, row.epoch)
	}
	return wrong
}

// counts compares the thread's row with its runs.
func (t *threadCheck) counts(stored storedRuns) {
	if t.row.state == stateErased {
		return
	}
	runs, head := t.runsOf(stored), t.row.head
	var wrong []string
	if t.row.runs != runs {
		wrong = append(wrong, differs("the number of runs", t.row.runs, runs))
	}
	if head > stored.last || head != 0 && head <= t.row.firstRun {
		wrong = append(wrong, differs("the head", head, stored.last))
		head = stored.last
	}
	wrong = given(wrong)
	if len(wrong) == 0 {
		return
	}
	f := t.told(eventlog.FaultThread, eventlog.Fault{Place: place(threadRowKey(t.ord))}, "%s", strings.Join(wrong, "; "))
	if t.partial && !stored.sound {
		t.v.fault(f)
		return
	}
	row := t.row
	row.runs, row.head = runs, head
	t.v.fault(f, fix{threadRowKey(t.ord), append([]byte(nil), t.v.enc.thread(row)...)})
}

// runsOf is the number of runs that the thread's row must have.
func (t *threadCheck) runsOf(stored storedRuns) int { return stored.count }

// given are the texts that are not empty.
func given(texts []string) (out []string) {
	for _, s := range texts {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}
