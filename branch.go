package agstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/replay"
)

// BranchInput is what a branch holds.
type BranchInput struct {
	RunID string // of the branch; empty: as Events say, or a new random one
	// Messages are the turn it begins with: AG-UI messages. Those that the
	// lineage holds are left out.
	Messages []json.RawMessage
	// Events are what it holds, as given. If they begin with a RUN_STARTED, that
	// is the branch's start, and the turn belongs into its input. Runs that they
	// leave open are ended. None: the branch is only its start and its end.
	Events [][]byte
}

// Branched says where a branch went.
type Branched struct {
	Run         agui.RunKey
	Parent      agui.RunKey // the zero key: none
	First, Last uint64      // seqs
}

// Branch writes a run behind an earlier one, or with the zero key before the
// first, as one batch: wholly or not at all. The thread goes on from there, the
// other path stays as it is. Errors: ErrRunExists for a run id that was used,
// ErrRunNotFound, ErrRunActive for a parent that still runs, ErrInvalidEvent
// with the number of the event, and those of writing.
func (s *Scope) Branch(ctx context.Context, thread string, from agui.RunKey, in BranchInput) (Branched, error) {
	var done Branched
	var err error
	for range startAttempts {
		done, err = s.branch(ctx, thread, from, in)
		if conflict := (*eventlog.ConflictError)(nil); !errors.As(err, &conflict) {
			break
		}
	}
	return done, err
}

func (s *Scope) branch(ctx context.Context, thread string, from agui.RunKey, in BranchInput) (Branched, error) {
	fail := func(line int, err error) (Branched, error) {
		return Branched{}, &eventlog.Error{Op: "branch", Key: s.key(thread), Line: line, Err: err}
	}
	if err := (RunInput{Messages: in.Messages}).check(); err != nil {
		return fail(0, err)
	}
	info, err := s.Thread(ctx, thread)
	if err != nil {
		return Branched{}, err
	}
	runs, err := s.Runs(ctx, thread)
	if err != nil {
		return Branched{}, err
	}
	heads := make([]agui.Header, len(in.Events))
	for i, e := range in.Events {
		if err := agui.ReadHeader(e, &heads[i]); err != nil {
			return fail(i+1, err)
		}
	}
	events, own := in.Events, len(heads) > 0 && heads[0].Type == agui.TypeRunStarted
	switch {
	case own && len(in.Messages) > 0:
		return fail(1, &eventlog.InvalidError{Reason: "the events begin with a RUN_STARTED: the messages belong into its input"})
	case own && in.RunID != "" && in.RunID != string(heads[0].RunID):
		return fail(1, &eventlog.InvalidError{Reason: fmt.Sprintf("the events begin with a RUN_STARTED of another run than %q", in.RunID)})
	case own:
		in.RunID = string(heads[0].RunID)
	default:
		if in.RunID == "" {
			in.RunID = newRunID()
		}
		before := &fold.View{}
		if !from.IsZero() {
			if before, err = s.ViewAt(ctx, thread, replay.AtRun(from)); err != nil {
				return Branched{}, err
			}
		}
		start := runStarted(thread, parentID(from, len(runs)), unknown(before, in.Messages), RunInput{RunID: in.RunID})
		events = slices.Insert(slices.Clone(events), 0, start)
	}
	for _, r := range runs {
		if r.Key.ID == in.RunID {
			return fail(0, &eventlog.RunExistsError{Run: r.Key, Status: r.Status, InputDigest: r.InputDigest})
		}
	}
	events = append(slices.Clip(events), ends(thread, events)...)
	batch := eventlog.Batch{Events: events, Origin: eventlog.OriginImport, Parent: &from, Expect: eventlog.LastSeq(info.LastSeq)}
	done, err := s.AppendBatch(ctx, thread, batch)
	if e := (*eventlog.Error)(nil); errors.As(err, &e) && e.Line > 0 && !own {
		e.Line-- // the start was put in front
	}
	return Branched{Run: agui.RunKey{ID: in.RunID, Attempt: 1}, Parent: from, First: done.First, Last: done.Last}, err
}

// parentID is the parentRunId that places a run behind another, empty if nothing
// needs to be said.
func parentID(parent agui.RunKey, runs int) string {
	if parent.IsZero() && runs > 0 {
		return agui.RootParent
	}
	return parent.ID
}

// ends are the RUN_FINISHEDs of the runs that events leave open.
func ends(thread string, events [][]byte) [][]byte {
	tracker := agui.NewTracker(nil, agui.RunKey{})
	for i, e := range events {
		var h agui.Header
		if agui.ReadHeader(e, &h) == nil {
			tracker.Assign(&h, uint64(i+1), agui.Claim{})
		}
	}
	var out [][]byte
	for _, r := range tracker.OpenRuns() {
		out = append(out, fmt.Appendf(nil, `{"type":"RUN_FINISHED","threadId":%s,"runId":%s}`, agui.Quote(thread), agui.Quote(r.Key.ID)))
	}
	return out
}
