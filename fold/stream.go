package fold

import (
	"bytes"
	"iter"

	"github.com/agstore/agstore/agui"
)

// Stream folds the lines of a file, one event each, as a log would if they were
// imported. Each line is seq 1, 2, … ; blank ones are none. upto is how many
// lines are looked at; 0 means all.
//
// Which run an event belongs to is decided as [agui.Tracker] does. The view is
// that of the last run's lineage (fold-rules R34) and its Seq the number of
// lines seen. A line that is no event is a diagnostic (R4). The profile
// [Reference] knows no lineages and takes every line.
func Stream(lines iter.Seq[[]byte], opts Options, upto uint64) *View {
	records, tracker := assign(lines, upto)
	f := New(opts)
	through := make(map[agui.RunKey]uint64)
	for _, s := range agui.Lineage(tracker.Runs(), tracker.Head()) {
		through[s.Run] = s.Through
	}
	for _, r := range records {
		if opts.Profile == Reference {
			// To the official client there is no such thing as an echo.
			r.Echo = false
			f.Apply(r)
		} else if r.Run.IsZero() || r.Seq <= through[r.Run] {
			f.Apply(r)
		}
	}
	v := f.View()
	v.Seq = uint64(len(records))
	return v
}

// assign gives each line its run.
func assign(lines iter.Seq[[]byte], upto uint64) ([]Record, *agui.Tracker) {
	tracker := agui.NewTracker(nil, agui.RunKey{})
	var records []Record
	for line := range lines {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		r := assigned(tracker, line, uint64(len(records))+1)
		if records = append(records, r); r.Seq == upto {
			break
		}
	}
	return records, tracker
}

// assigned is a line as a record of its run.
func assigned(tracker *agui.Tracker, line []byte, seq uint64) Record {
	r := Record{Seq: seq, Raw: line}
	var h agui.Header
	if agui.ReadHeader(line, &h) == nil {
		a := tracker.Assign(&h, seq, agui.Claim{})
		r.Run, r.Echo, r.UnknownParent = a.Run, a.Echo, a.UnknownParent
	}
	return r
}

// Prefixes yields what [Stream] makes of the first line, of the first two, and
// so on; blank lines are none. It folds each line once, and those before a run
// again where that run does not continue what has been folded. It keeps hold of
// the lines.
func Prefixes(lines iter.Seq[[]byte], opts Options) iter.Seq[*View] {
	return func(yield func(*View) bool) {
		p := prefix{opts: opts, fold: New(opts), tracker: agui.NewTracker(nil, agui.RunKey{})}
		for line := range lines {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			p.add(line)
			v := p.fold.View()
			v.Seq = uint64(len(p.records))
			if !yield(v) {
				return
			}
		}
	}
}

// prefix is the lines of a stream so far, folded.
type prefix struct {
	opts    Options
	fold    *Fold
	tracker *agui.Tracker
	records []Record
	head    agui.RunKey
	lineage []agui.Segment // of head
	through map[agui.RunKey]uint64
}

func (p *prefix) add(line []byte) {
	r := assigned(p.tracker, line, uint64(len(p.records))+1)
	p.records = append(p.records, r)
	if p.opts.Profile == Reference {
		r.Echo = false
		p.fold.Apply(r)
		return
	}
	records := p.records[len(p.records)-1:]
	if head := p.tracker.Head(); head != p.head {
		lineage := agui.Lineage(p.tracker.Runs(), head)
		if !continues(lineage, p.lineage, r.Seq-1) {
			p.fold, records = New(p.opts), p.records
		}
		p.head, p.lineage, p.through = head, lineage, make(map[agui.RunKey]uint64, len(lineage))
		for _, s := range lineage {
			p.through[s.Run] = s.Through
		}
	}
	for _, r := range records {
		if r.Run.IsZero() || r.Seq <= p.through[r.Run] {
			p.fold.Apply(r)
		}
	}
}

// continues reports whether a lineage is another with a new run behind it: the
// same for all records up to seq.
func continues(lineage, other []agui.Segment, seq uint64) bool {
	if len(lineage) != len(other)+1 {
		return false
	}
	for i, s := range other {
		if lineage[i].Run != s.Run || min(lineage[i].Through, seq) != min(s.Through, seq) {
			return false
		}
	}
	return true
}
