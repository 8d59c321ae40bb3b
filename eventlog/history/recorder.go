package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/agstore/agstore/eventlog"
)

// Recorder takes down what the clients of one process do. It is safe for
// concurrent use.
type Recorder struct {
	now func() int64

	mu      sync.Mutex
	w       io.Writer
	entries []*Entry
	count   map[string]int
	err     error
}

// NewRecorder returns a recorder that writes its lines to w; nil keeps them in
// memory only. Its clock is the machine's, so that the histories of several
// processes can be put together.
func NewRecorder(w io.Writer) *Recorder {
	start := time.Now()
	base := start.UnixNano()
	return newRecorder(w, func() int64 { return base + int64(time.Since(start)) })
}

// NewLogical returns a recorder in memory whose clock counts how often it is
// asked, from a moment on: for histories of one process that are cut
// ([History.Cut]) and gone on with.
func NewLogical(from int64) *Recorder {
	ticks := from
	return newRecorder(nil, func() int64 { ticks++; return ticks })
}

func newRecorder(w io.Writer, now func() int64) *Recorder {
	return &Recorder{now: now, w: w, count: make(map[string]int)}
}

// Call is an operation under way.
type Call struct {
	r     *Recorder
	entry *Entry
}

// Begin takes down that a client begins an operation. It is written before it
// returns: what a killed process may have done is known.
func (r *Recorder) Begin(e Entry) *Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[e.Client]++
	e.N, e.Begun = r.count[e.Client], r.now()
	kept := e
	r.entries = append(r.entries, &kept)
	r.write(&kept)
	return &Call{r: r, entry: &kept}
}

// Done takes down the answer: answer sets the fields from Outcome on, and what
// else the answer says.
func (c *Call) Done(answer func(e *Entry)) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	// Others may be reading the entry as it was.
	e := *c.entry
	answer(&e)
	e.Ended = c.r.now()
	*c.entry = e
	c.r.write(&e)
}

// Failed takes down an error, whose kind is the outcome.
func (c *Call) Failed(err error) {
	c.Done(func(e *Entry) { e.Outcome, e.Error = OutcomeOf(err), err.Error() })
}

// Appended takes down the answer of an append, or why there is none.
func (c *Call) Appended(done eventlog.Appended, err error) {
	if err != nil {
		c.Failed(err)
		return
	}
	c.Done(func(e *Entry) {
		e.Outcome = OutcomeOK
		e.First, e.Last, e.Position, e.Duplicate = done.First, done.Last, done.Position, done.Duplicate
	})
}

// OutcomeOf says what an error of a log tells: nothing was changed, or it is not
// known.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return OutcomeOK
	case errors.Is(err, eventlog.ErrFenced):
		return OutcomeFenced
	case errors.Is(err, eventlog.ErrConflict), errors.Is(err, eventlog.ErrInvalidEvent), errors.Is(err, eventlog.ErrInvalid),
		errors.Is(err, eventlog.ErrRunActive), errors.Is(err, eventlog.ErrNotFound), errors.Is(err, eventlog.ErrTooLarge), errors.Is(err, eventlog.ErrErased):
		return OutcomeRefused
	}
	return OutcomeUnknown
}

func (r *Recorder) write(e *Entry) {
	if r.w == nil || r.err != nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.w.Write(append(line, '\n'))
	}
	r.err = err
}

// Err says why lines are missing, if any are.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// History is what was taken down so far.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := make(History, len(r.entries))
	for i, e := range r.entries {
		h[i] = *e
	}
	return h
}

// Mark is a moment of the recorder's clock.
func (r *Recorder) Mark() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now()
}

// Cut is the history as a crash between two marks leaves it: answers that came
// later than before were not given, and what began later than after has not
// happened. What lies between may or may not have been done.
func (h History) Cut(before, after int64) History {
	var out History
	for _, e := range h {
		if e.Begun > after {
			continue
		}
		if e.Ended > before {
			e.Ended, e.Outcome, e.Error, e.First, e.Last, e.Position, e.Duplicate, e.Seen = 0, OutcomeUnknown, "", 0, 0, 0, false, nil
			if e.Op == OpBegin || e.Op == OpTake {
				e.Epoch = 0
			}
		}
		out = append(out, e)
	}
	return out
}

// Encode writes a history as [Decode] reads it.
func (h History) Encode(w io.Writer) error {
	for i := range h {
		line, err := json.Marshal(&h[i])
		if err != nil {
			return fmt.Errorf("write a history: %w", err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write a history: %w", err)
		}
	}
	return nil
}

// ReadFiles reads the histories of several processes as one.
func ReadFiles(names ...string) (History, error) {
	var out History
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		h, err := Decode(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, h...)
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return cmp.Compare(a.Begun, b.Begun) })
	return out, nil
}
