package pebblelog_test

import (
	"bytes"
	"fmt"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/history"
	"github.com/agstore/agstore/fold"
)

// foldFaults compares what each thread of a store shows with what it should show
// by the history: the events that were acknowledged, at their seqs, and between
// them what a crash may have left, with runs given to them anew from the first
// record on (invariant 4).
func foldFaults(h history.History, s *history.Store) []error {
	var faults []error
	acked := make(map[eventlog.ThreadKey]map[uint64]string)
	for _, e := range h {
		if e.Outcome != history.OutcomeOK || e.First == 0 || e.Stream != "" {
			continue
		}
		k := e.ThreadKey()
		if acked[k] == nil {
			acked[k] = make(map[uint64]string)
		}
		for i, event := range e.Events {
			acked[k][e.First+uint64(i)] = event
		}
	}
	for k, t := range s.Threads {
		if t == nil {
			continue
		}
		stored, err := viewOf(t.Records)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		model, err := modelOf(t, acked[k])
		if err != nil {
			faults = append(faults, fmt.Errorf("thread %q: %w", k.Thread, err))
			continue
		}
		want, err := viewOf(model)
		if err != nil {
			faults = append(faults, err)
		} else if !bytes.Equal(stored, want) {
			faults = append(faults, fmt.Errorf("thread %q shows\n%s\nand should\n%s", k.Thread, stored, want))
		}
	}
	return faults
}

// modelOf is the records of a thread by the history, with their runs found anew.
func modelOf(t *history.Thread, acked map[uint64]string) ([]eventlog.Record, error) {
	tracker := agui.NewTracker(nil, agui.RunKey{})
	parents := make(map[uint64]agui.RunKey) // by the first seq of the run
	for i := range t.Runs {
		parents[t.Runs[i].FirstSeq] = t.Runs[i].Parent
	}
	var out []eventlog.Record
	for i := range t.Records {
		r := t.Records[i]
		if event, ok := acked[r.Seq]; ok {
			r.Event = []byte(event)
		}
		var head agui.Header
		if err := agui.ReadHeader(r.Event, &head); err != nil {
			return nil, err
		}
		var claim agui.Claim
		switch parent, begins := parents[r.Seq]; {
		case begins && r.Origin == eventlog.OriginStore:
			claim.Parent = &parent // as its writer's call said
		case r.Origin == eventlog.OriginAgent:
			claim.Run, claim.Leased = r.Run, true
		case r.Origin == eventlog.OriginStore:
			claim.Run = r.Run
		}
		got := tracker.Assign(&head, r.Seq, claim)
		if got.Run != r.Run || got.Echo != r.Echo || got.UnknownParent != r.UnknownParent {
			return nil, fmt.Errorf("seq %d is of run %q (echo %v); by the history it is %+v", r.Seq, r.Run, r.Echo, got)
		}
		out = append(out, r)
	}
	return out, nil
}

// viewOf folds records, once at one go and once with a snapshot in the middle,
// and wants both to be the same.
func viewOf(records []eventlog.Record) ([]byte, error) {
	whole, parted := fold.New(fold.Options{}), fold.New(fold.Options{})
	for i, r := range records {
		one := fold.Record{Seq: r.Seq, Run: r.Run, Echo: r.Echo, UnknownParent: r.UnknownParent, Raw: r.Event}
		whole.Apply(one)
		parted.Apply(one)
		if i == len(records)/2 {
			var err error
			if parted, err = fold.Restore(parted.Snapshot(nil), fold.Options{}); err != nil {
				return nil, err
			}
		}
	}
	view := whole.View().AppendJSON(nil)
	if other := parted.View().AppendJSON(nil); !bytes.Equal(view, other) {
		return nil, fmt.Errorf("folded with a snapshot in the middle:\n%s\nat one go:\n%s", other, view)
	}
	return view, nil
}
