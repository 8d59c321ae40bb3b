package replay_test

import (
	"context"
	"iter"
	"slices"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

// source is a thread in memory: lines as an import would store them.
type source struct {
	tracker *agui.Tracker
	records []eventlog.Record
}

func sourceOf(lines []string) *source {
	s := &source{tracker: agui.NewTracker(nil, agui.RunKey{})}
	for i, line := range lines {
		r := eventlog.Record{Seq: uint64(i + 1), Event: []byte(line), Origin: eventlog.OriginImport}
		var h agui.Header
		if agui.ReadHeader(r.Event, &h) == nil {
			a := s.tracker.Assign(&h, r.Seq, agui.Claim{})
			r.Run, r.Type, r.Echo, r.UnknownParent = a.Run, h.Type, a.Echo, a.UnknownParent
		}
		s.records = append(s.records, r)
	}
	return s
}

func (s *source) Thread(context.Context, eventlog.ThreadKey) (eventlog.Thread, error) {
	return eventlog.Thread{LastSeq: uint64(len(s.records)), Head: s.tracker.Head(), FirstSeq: 1, Runs: len(s.tracker.Runs())}, nil
}

func (s *source) Runs(context.Context, eventlog.ThreadKey) ([]eventlog.Run, error) {
	var out []eventlog.Run
	for _, r := range s.tracker.Runs() {
		out = append(out, eventlog.Run{Run: r})
	}
	return out, nil
}

func (s *source) Read(_ context.Context, _ eventlog.ThreadKey, opts eventlog.ReadOptions) iter.Seq2[eventlog.Record, error] {
	var path []agui.Segment
	if opts.Lineage != nil {
		path = agui.Lineage(s.tracker.Runs(), *opts.Lineage)
	}
	return func(yield func(eventlog.Record, error) bool) {
		for _, r := range s.records {
			held := opts.Lineage == nil || r.Run.IsZero() ||
				slices.ContainsFunc(path, func(seg agui.Segment) bool { return seg.Run == r.Run && r.Seq <= seg.Through })
			if r.Seq < opts.From || opts.To > 0 && r.Seq > opts.To || !held {
				continue
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// prefixes are the views after each line.
func prefixes(lines []string) []*fold.View {
	raw := make([][]byte, len(lines))
	for i, l := range lines {
		raw[i] = []byte(l)
	}
	return slices.Collect(fold.Prefixes(slices.Values(raw), fold.Options{}))
}

// asClient is what the official client makes of a stream.
func asClient(lines []string) *fold.View {
	f := fold.New(fold.Options{Profile: fold.Reference})
	for i, l := range lines {
		f.Apply(fold.Record{Seq: uint64(i + 1), Raw: []byte(l)})
	}
	return f.View()
}
