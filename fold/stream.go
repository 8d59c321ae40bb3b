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
		r := Record{Seq: uint64(len(records)) + 1, Raw: line}
		var h agui.Header
		if agui.ReadHeader(line, &h) == nil {
			a := tracker.Assign(&h, r.Seq, agui.Claim{})
			r.Run, r.Echo, r.UnknownParent = a.Run, a.Echo, a.UnknownParent
		}
		if records = append(records, r); r.Seq == upto {
			break
		}
	}
	return records, tracker
}
