package logtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/history"
)

// Judge reads a log that was opened after its writers died and says what of a
// history, and of what every log promises, does not hold: the validators of
// package history, [Check], no run that is still held, and each run of a writer
// closed once.
func Judge(ctx context.Context, log eventlog.Log, h history.History) (*history.Store, []error) {
	s, err := h.ReadStore(ctx, log)
	if err != nil {
		return nil, []error{err}
	}
	faults := append(history.Judge(h, s), Check(ctx, log)...)
	for k, t := range s.Threads {
		if t != nil {
			faults = append(faults, closed(k, t)...)
		}
	}
	return s, faults
}

// closed looks for runs of dead writers that are open, or closed twice.
func closed(k eventlog.ThreadKey, t *history.Thread) []error {
	var faults []error
	ends := make(map[agui.RunKey]int)
	for i := range t.Records {
		if r := &t.Records[i]; r.Type.Terminal() && r.Origin == eventlog.OriginStore {
			ends[r.Run]++
		}
	}
	for i := range t.Runs {
		r := &t.Runs[i]
		if r.Held || r.Epoch > 0 && r.Running() {
			faults = append(faults, fmt.Errorf("thread %q: run %q of a dead writer was left open", k.Thread, r.Key))
		}
		if ends[r.Key] > 1 {
			faults = append(faults, fmt.Errorf("thread %q: run %q was closed %d times", k.Thread, r.Key, ends[r.Key]))
		}
	}
	return faults
}

// GoOn shows that the threads of a store that was opened again can be gone on
// with: a key that was answered before is answered so again, one that was not
// settles what became of its append; the next append has the next seq, and the
// next run starts. Everything is taken down with r under the name client.
func GoOn(ctx context.Context, log eventlog.Log, h history.History, s *history.Store, r *history.Recorder, client string) []error {
	var faults []error
	removed := make(map[eventlog.ThreadKey]bool)
	for _, e := range h {
		if e.Op == history.OpClear || e.Op == history.OpErase {
			removed[e.ThreadKey()] = true
		}
	}
	for _, e := range h {
		if e.Key == "" || e.Outcome == history.OutcomeRefused || e.Outcome == history.OutcomeFenced {
			continue
		}
		if err := again(ctx, log, e, r, client, removed[e.ThreadKey()]); err != nil {
			faults = append(faults, err)
		}
	}
	threads := make(map[eventlog.ThreadKey]bool)
	for _, e := range h {
		threads[e.ThreadKey()] = true
	}
	for k := range threads {
		if t := s.Threads[k]; t != nil && t.Erased {
			continue
		}
		if err := next(ctx, log, k, r, client); err != nil {
			faults = append(faults, fmt.Errorf("thread %q cannot be gone on with: %w", k.Thread, err))
		}
	}
	return faults
}

func again(ctx context.Context, log eventlog.Log, e history.Entry, r *history.Recorder, client string, removed bool) error {
	call := r.Begin(history.Entry{Client: client, Op: e.Op, Scope: e.Scope, Thread: e.Thread, Key: e.Key, Events: e.Events})
	done, err := log.Append(ctx, e.ThreadKey(), eventlog.Batch{Events: raw(e.Events), Key: e.Key})
	call.Appended(done, err)
	if errors.Is(err, eventlog.ErrErased) && removed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%v: repeated with its key: %w", &e, err)
	}
	want := eventlog.Appended{First: e.First, Last: e.Last, Position: e.Position, Duplicate: true}
	if e.Outcome == history.OutcomeOK && done != want {
		return fmt.Errorf("%v: repeated with its key it is %+v, and was %+v", &e, done, want)
	}
	return nil
}

func next(ctx context.Context, log eventlog.Log, k eventlog.ThreadKey, r *history.Recorder, client string) error {
	last := uint64(0)
	if th, err := log.Thread(ctx, k); err == nil {
		last = th.LastSeq
	} else if !errors.Is(err, eventlog.ErrThreadNotFound) {
		return err
	}
	event := fmt.Sprintf(`{"type":"CUSTOM","name":%q,"value":"next"}`, client)
	call := r.Begin(history.Entry{Client: client, Op: history.OpAppend, Scope: k.Scope, Thread: k.Thread, Events: []string{event}})
	done, err := log.Append(ctx, k, eventlog.Batch{Events: raw([]string{event}), Origin: eventlog.OriginImport})
	call.Appended(done, err)
	if err != nil {
		return err
	}
	if done.First != last+1 {
		return fmt.Errorf("the next append has seq %d behind %d", done.First, last)
	}
	id := client + "-next"
	begin := string(started(id))
	call = r.Begin(history.Entry{Client: client, Op: history.OpBegin, Scope: k.Scope, Thread: k.Thread, Run: id, Attempt: 1, Events: []string{begin}})
	w, err := log.BeginRun(ctx, k, eventlog.RunStart{Started: []byte(begin)})
	if err != nil {
		call.Failed(err)
		return fmt.Errorf("the next run: %w", err)
	}
	call.Done(func(e *history.Entry) {
		e.Outcome, e.First, e.Last, e.Epoch = history.OutcomeOK, w.First(), w.First(), w.Lease().Epoch
	})
	held := &heldRun{writer: w, thread: k}
	worker := &Worker{Log: log, Recorder: r, Client: client}
	worker.submit(ctx, held, string(finished(id)))
	return nil
}
