package logtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/history"
)

// Scope is the scope of the threads that a [Worker] writes to.
const Scope = "s"

// Worker is one client of a log that does random things to it and takes them
// down, for the validators of package history. Several of them share threads.
type Worker struct {
	Log      eventlog.Log
	Recorder *history.Recorder
	Client   string // its name, which no other worker of the history has
	Rand     *rand.Rand
	Threads  int // how many threads it shares with others; 0 is 3
	// TTL is how long half of its leases last without being renewed; 0: none of
	// them expires. What judges the log must come when that time has passed.
	TTL time.Duration

	n     int           // of its events
	open  []*heldRun    // runs that it left open on purpose
	ended []agui.RunKey // of its own thread
}

// heldRun is a run that a worker writes, with the calls that wait for its Sync.
type heldRun struct {
	writer eventlog.Writer
	thread eventlog.ThreadKey
	piped  []*history.Call
}

// Work does so many things, or fewer if the context ends. What fails is taken
// down as it failed. It leaves some runs open, as a worker that dies would.
func (w *Worker) Work(ctx context.Context, things int) {
	if w.Threads == 0 {
		w.Threads = 3
	}
	for range things {
		if ctx.Err() != nil {
			return
		}
		switch n := w.Rand.IntN(20); {
		case n < 6:
			w.append(ctx)
		case n < 7:
			w.note(ctx)
		case n < 8:
			w.remove(ctx)
		case n < 10:
			w.read(ctx)
		case n < 11:
			w.imported(ctx)
		case n < 13:
			w.contended(ctx)
		case n < 17:
			w.run(ctx)
		default:
			w.goOn(ctx)
		}
	}
}

// event is an event like no other.
func (w *Worker) event() string {
	w.n++
	return fmt.Sprintf(`{"type":"CUSTOM","name":"%s","value":%d}`, w.Client, w.n)
}

func (w *Worker) events(most int) []string {
	out := make([]string, 1+w.Rand.IntN(most))
	for i := range out {
		out[i] = w.event()
	}
	return out
}

func (w *Worker) shared() eventlog.ThreadKey {
	return eventlog.ThreadKey{Scope: Scope, Thread: fmt.Sprint("shared-", w.Rand.IntN(w.Threads))}
}

func (w *Worker) own() eventlog.ThreadKey {
	return eventlog.ThreadKey{Scope: Scope, Thread: "of-" + w.Client}
}

func (w *Worker) entry(op history.Op, k eventlog.ThreadKey) history.Entry {
	return history.Entry{Client: w.Client, Op: op, Scope: k.Scope, Thread: k.Thread}
}

func raw(events []string) [][]byte {
	out := make([][]byte, len(events))
	for i, e := range events {
		out[i] = []byte(e)
	}
	return out
}

// append is a raw append, half of the time with a key and sometimes sent twice,
// sometimes on a condition.
func (w *Worker) append(ctx context.Context) {
	e := w.entry(history.OpAppend, w.shared())
	e.Events = w.events(4)
	b := eventlog.Batch{Events: raw(e.Events)}
	if w.Rand.IntN(2) == 0 {
		b.Key = fmt.Sprint(w.Client, "-", w.n)
		e.Key = b.Key
	}
	if w.Rand.IntN(4) == 0 {
		if th, err := w.Log.Thread(ctx, e.ThreadKey()); err == nil {
			b.Expect, e.Expect = eventlog.LastSeq(th.LastSeq), &th.LastSeq
		}
	}
	for again := true; again; again = b.Key != "" && w.Rand.IntN(3) == 0 {
		call := w.Recorder.Begin(e)
		call.Appended(w.Log.Append(ctx, e.ThreadKey(), b))
	}
}

// note is an append to the companion stream of a thread.
func (w *Worker) note(ctx context.Context) {
	e := w.entry(history.OpAppend, w.shared())
	e.Stream, e.Events = history.Companion, w.events(3)
	var entries []eventlog.Entry
	for _, body := range e.Events {
		entries = append(entries, eventlog.Entry{Kind: "note", Body: []byte(body)})
	}
	call := w.Recorder.Begin(e)
	call.Appended(w.Log.AppendCompanion(ctx, e.ThreadKey(), eventlog.CompanionBatch{Entries: entries}))
}

// remove clears the worker's own thread, or erases one that it has made for that.
func (w *Worker) remove(ctx context.Context) {
	if w.Rand.IntN(2) == 0 {
		call := w.Recorder.Begin(w.entry(history.OpClear, w.own()))
		receipt, err := w.Log.Clear(ctx, w.own(), eventlog.RemoveOptions{TakeOver: true})
		if err != nil {
			call.Failed(err)
			return
		}
		call.Done(func(e *history.Entry) {
			e.Outcome, e.Last, e.Position = history.OutcomeOK, receipt.Last, receipt.Position
		})
		w.ended = nil
		return
	}
	w.n++
	e := w.entry(history.OpAppend, eventlog.ThreadKey{Scope: Scope, Thread: fmt.Sprint("erased-", w.Client, "-", w.n)})
	for range 2 {
		e.Events = w.events(3)
		call := w.Recorder.Begin(e)
		call.Appended(w.Log.Append(ctx, e.ThreadKey(), eventlog.Batch{Events: raw(e.Events)}))
	}
	call := w.Recorder.Begin(w.entry(history.OpErase, e.ThreadKey()))
	if _, err := w.Log.Erase(ctx, e.ThreadKey(), eventlog.RemoveOptions{}); err != nil {
		call.Failed(err)
	} else {
		call.Done(func(e *history.Entry) { e.Outcome = history.OutcomeOK })
	}
	e.Events = w.events(1)
	call = w.Recorder.Begin(e)
	call.Appended(w.Log.Append(ctx, e.ThreadKey(), eventlog.Batch{Events: raw(e.Events)}))
}

// take takes a run from its writer.
func (w *Worker) take(ctx context.Context, r *heldRun) *heldRun {
	e := w.entryOf(history.OpTake, r)
	e.Epoch = 0
	call := w.Recorder.Begin(e)
	writer, err := w.Log.TakeRun(ctx, r.thread, e.RunKey(), w.holder())
	if err != nil {
		call.Failed(err)
		return nil
	}
	call.Done(func(e *history.Entry) { e.Outcome, e.Epoch = history.OutcomeOK, writer.Lease().Epoch })
	return &heldRun{writer: writer, thread: r.thread}
}

func (w *Worker) holder() eventlog.Holder {
	if w.TTL == 0 || w.Rand.IntN(2) == 0 {
		return eventlog.Holder{}
	}
	return eventlog.Holder{Owner: w.Client, TTL: w.TTL}
}

// attach makes another writer for a lease, or renews it, and appends under it
// without any.
func (w *Worker) attach(ctx context.Context, r *heldRun) {
	w.sync(ctx, r)
	lease := r.writer.Lease()
	writer, err := w.Log.Attach(ctx, lease)
	if err != nil {
		return // it was cleared away, or the log has failed
	}
	r.writer = writer
	_, _ = writer.Renew(ctx)
	e := w.entryOf(history.OpWrite, r)
	e.Events = w.events(3)
	b := eventlog.Batch{Events: raw(e.Events), Lease: &lease}
	if w.Rand.IntN(2) == 0 {
		b.Key = fmt.Sprint(w.Client, "-", w.n)
		e.Key = b.Key
	}
	for again := true; again; again = b.Key != "" && w.Rand.IntN(3) == 0 {
		call := w.Recorder.Begin(e)
		call.Appended(w.Log.Append(ctx, e.ThreadKey(), b))
	}
}

// imported is a whole run in one batch.
func (w *Worker) imported(ctx context.Context) {
	e := w.entry(history.OpAppend, eventlog.ThreadKey{Scope: Scope, Thread: "import-" + w.Client})
	w.n++
	id := fmt.Sprint(w.Client, "-i", w.n)
	e.Events = []string{string(started(id)), w.event(), string(finished(id))}
	if w.Rand.IntN(3) == 0 {
		e.Events = e.Events[:2] // cut off: it stays open and is nobody's
	}
	call := w.Recorder.Begin(e)
	call.Appended(w.Log.Append(ctx, e.ThreadKey(), eventlog.Batch{Events: raw(e.Events), Origin: eventlog.OriginImport}))
}

func (w *Worker) read(ctx context.Context) {
	e := w.entry(history.OpRead, w.shared())
	e.From = uint64(w.Rand.IntN(8))
	call := w.Recorder.Begin(e)
	var seen []history.Seen
	for r, err := range w.Log.Read(ctx, e.ThreadKey(), eventlog.ReadOptions{From: e.From}) {
		if errors.Is(err, eventlog.ErrGap) {
			continue // what was cleared is told, and then comes the rest
		}
		if err != nil {
			call.Failed(err)
			return
		}
		seen = append(seen, history.Seen{Seq: r.Seq, Event: string(r.Event)})
	}
	call.Done(func(e *history.Entry) { e.Outcome, e.Seen = history.OutcomeOK, seen })
}

// begin starts a run; behind parent, if there is one.
func (w *Worker) begin(ctx context.Context, k eventlog.ThreadKey, parent *agui.RunKey) *heldRun {
	w.n++
	id := fmt.Sprint(w.Client, "-r", w.n)
	e := w.entry(history.OpBegin, k)
	e.Run, e.Attempt, e.Beside = id, 1, parent != nil
	e.Events = []string{string(started(id))}
	call := w.Recorder.Begin(e)
	writer, err := w.Log.BeginRun(ctx, k, eventlog.RunStart{Started: []byte(e.Events[0]), Parent: parent, Holder: w.holder()})
	if err != nil {
		call.Failed(err)
		return nil
	}
	call.Done(func(e *history.Entry) {
		e.Outcome, e.First, e.Last, e.Epoch = history.OutcomeOK, writer.First(), writer.First(), writer.Lease().Epoch
	})
	return &heldRun{writer: writer, thread: k}
}

// contended is a short run on a thread where others begin runs too.
func (w *Worker) contended(ctx context.Context) {
	k := eventlog.ThreadKey{Scope: Scope, Thread: "contended"}
	if r := w.begin(ctx, k, nil); r != nil {
		w.write(ctx, r)
		w.end(ctx, r)
	}
}

// run begins a run on the worker's own thread, on the head or as a branch.
func (w *Worker) run(ctx context.Context) {
	var parent *agui.RunKey
	if len(w.open) > 0 || w.Rand.IntN(3) == 0 {
		parent = &agui.RunKey{}
		if n := len(w.ended); n > 0 {
			*parent = w.ended[w.Rand.IntN(n)]
		}
	}
	r := w.begin(ctx, w.own(), parent)
	if r == nil {
		return
	}
	w.write(ctx, r)
	if len(w.open) < 3 && w.Rand.IntN(3) == 0 {
		w.open = append(w.open, r)
		return
	}
	w.finish(ctx, r)
}

// goOn writes to a run that was left open, or ends it.
func (w *Worker) goOn(ctx context.Context) {
	if len(w.open) == 0 {
		w.append(ctx)
		return
	}
	i := w.Rand.IntN(len(w.open))
	r := w.open[i]
	if w.Rand.IntN(4) == 0 {
		if taken := w.take(ctx, r); taken != nil {
			w.submit(ctx, r, w.event()) // its lease is gone
			w.sync(ctx, r)
			r, w.open[i] = taken, taken
		}
	}
	if w.Rand.IntN(3) == 0 {
		w.attach(ctx, r)
	}
	w.write(ctx, r)
	if w.Rand.IntN(2) == 0 {
		w.open = append(w.open[:i:i], w.open[i+1:]...)
		w.finish(ctx, r)
	}
}

// write writes to a run: a message and, piped, some more.
func (w *Worker) write(ctx context.Context, r *heldRun) {
	w.n++
	id := fmt.Sprint(w.Client, "-m", w.n)
	w.submit(ctx, r, string(textStart(id)), string(text(id, "half a ")))
	for range w.Rand.IntN(6) {
		w.n++
		w.enqueue(ctx, r, string(text(id, fmt.Sprint("word ", w.n))))
	}
	if w.Rand.IntN(2) == 0 {
		w.enqueue(ctx, r, fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":%q}`, id))
	}
	if w.Rand.IntN(2) == 0 {
		w.sync(ctx, r)
	}
}

func (w *Worker) entryOf(op history.Op, r *heldRun) history.Entry {
	e := w.entry(op, r.thread)
	lease := r.writer.Lease()
	e.Run, e.Attempt, e.Epoch = lease.Run.ID, lease.Run.Attempt, lease.Epoch
	return e
}

func (w *Worker) submit(ctx context.Context, r *heldRun, events ...string) {
	e := w.entryOf(history.OpWrite, r)
	e.Events = events
	call := w.Recorder.Begin(e)
	call.Appended(r.writer.Append(ctx, raw(events)...))
}

func (w *Worker) enqueue(ctx context.Context, r *heldRun, event string) {
	e := w.entryOf(history.OpEnqueue, r)
	e.Events = []string{event}
	call := w.Recorder.Begin(e)
	if err := r.writer.Enqueue(ctx, []byte(event)); err != nil {
		call.Failed(err)
		return
	}
	r.piped = append(r.piped, call)
}

// sync waits for what was piped. If it fails, it is not known what became of it.
func (w *Worker) sync(ctx context.Context, r *heldRun) {
	last, err := r.writer.Sync(ctx)
	for _, call := range r.piped {
		if err != nil {
			call.Done(func(e *history.Entry) { e.Error = err.Error() })
		} else {
			call.Done(func(e *history.Entry) { e.Outcome, e.Last = history.OutcomeOK, last })
		}
	}
	r.piped = nil
}

func (w *Worker) end(ctx context.Context, r *heldRun) {
	call := w.Recorder.Begin(w.entryOf(history.OpEnd, r))
	if err := r.writer.End(ctx, "STOP", "ended by its worker"); err != nil {
		call.Failed(err)
		return
	}
	call.Done(func(e *history.Entry) { e.Outcome = history.OutcomeOK })
}

// finish ends a run by the agent's word or by its writer's, and sometimes writes
// once more, which must be refused.
func (w *Worker) finish(ctx context.Context, r *heldRun) {
	if w.Rand.IntN(2) == 0 {
		w.submit(ctx, r, string(finished(r.writer.Lease().Run.ID)))
	}
	w.sync(ctx, r)
	w.end(ctx, r)
	if w.Rand.IntN(3) == 0 {
		w.submit(ctx, r, w.event())
	}
	w.ended = append(w.ended, r.writer.Lease().Run)
}
