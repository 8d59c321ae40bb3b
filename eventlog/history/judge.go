package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agstore/agstore/eventlog"
)

// The promises. What a validator returns is a [Broken] that is one of these.
var (
	// ErrOrdered: seqs are dense, and who was answered first comes first.
	ErrOrdered = errors.New("broke Ordered")
	// ErrAtomic: a batch is wholly there, in one piece of one commit, or not at
	// all; of one that was refused nothing is there.
	ErrAtomic = errors.New("broke Atomic")
	// ErrUnique: what was written once is there once, however often it was
	// repeated under its key, and nothing is there that nobody wrote.
	ErrUnique = errors.New("broke Unique")
	// ErrDurable: what was acknowledged, or shown to a reader, is there, byte for
	// byte, at the seq that was told; what was cleared or erased is not.
	ErrDurable = errors.New("broke Durable")
	// ErrFenced: one writer per run and one live run at the head; whoever has lost
	// the lease changes nothing.
	ErrFenced = errors.New("broke Fenced")
	// ErrResumable: a reader that comes again from any seq gets all that follows
	// it, without a hole and without a repetition.
	ErrResumable = errors.New("broke Resumable")
)

// Broken says how a promise was broken.
type Broken struct {
	Promise error // one of the errors of this package
	Thread  eventlog.ThreadKey
	Seq     uint64 // the record concerned; 0: none
	Who     string // whose operation, and which; empty: nobody's
	Detail  string
}

func (b *Broken) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v: thread %q", b.Promise, b.Thread.Thread)
	if b.Seq != 0 {
		fmt.Fprintf(&s, " seq %d", b.Seq)
	}
	fmt.Fprintf(&s, ": %s", b.Detail)
	if b.Who != "" {
		fmt.Fprintf(&s, " (%s)", b.Who)
	}
	return s.String()
}

// Unwrap gives the promise.
func (b *Broken) Unwrap() error { return b.Promise }

// A Validator judges one promise.
type Validator struct {
	Name  string
	Judge func(h History, s *Store) []error
}

// Validators are all there are.
func Validators() []Validator {
	return []Validator{
		{"Ordered", Ordered}, {"Atomic", Atomic}, {"Unique", Unique},
		{"Durable", Durable}, {"Fenced", Fenced}, {"Resumable", Resumable},
	}
}

// Judge asks all validators.
func Judge(h History, s *Store) []error {
	var out []error
	for _, v := range Validators() {
		out = append(out, v.Judge(h, s)...)
	}
	return out
}

// faults collects what a validator finds.
type faults struct {
	promise error
	list    []error
}

func (f *faults) add(k eventlog.ThreadKey, seq uint64, e *Entry, format string, args ...any) {
	b := &Broken{Promise: f.promise, Thread: k, Seq: seq, Detail: fmt.Sprintf(format, args...)}
	if e != nil {
		b.Who = fmt.Sprintf("%s, its %d. operation, %s", e.Client, e.N, e.Op)
	}
	f.list = append(f.list, b)
}

// write is one batch that was to be written, with every attempt at it.
type write struct {
	thread   eventlog.ThreadKey
	events   []string
	once     bool // repeating it writes nothing: it has a key, or starts a run
	attempts []*Entry
	ok, open int // how many attempts were acknowledged, and are not known
}

// most is how often its events may be there.
func (w *write) most() int {
	if w.once {
		return min(1, w.ok+w.open)
	}
	return w.ok + w.open
}

// least is how often they must be there.
func (w *write) least() int {
	if w.once {
		return min(1, w.ok)
	}
	return w.ok
}

func trim(event string) string { return strings.Trim(event, " \t\r\n") }

// byThread parts a history.
func (h History) byThread() map[eventlog.ThreadKey][]*Entry {
	out := make(map[eventlog.ThreadKey][]*Entry)
	for i := range h {
		k := h[i].place()
		out[k] = append(out[k], &h[i])
	}
	return out
}

// writes groups the attempts of one thread at writing the same.
func writes(entries []*Entry) []*write {
	known := make(map[string]*write)
	var out []*write
	for _, e := range entries {
		if len(e.Events) == 0 {
			continue
		}
		events := make([]string, len(e.Events))
		for i := range e.Events {
			events[i] = trim(e.Events[i])
		}
		id := e.Key + "\x00" + strings.Join(events, "\n")
		w := known[id]
		if w == nil {
			w = &write{thread: e.place(), events: events, once: e.Key != "" || e.Op == OpBegin}
			known[id] = w
			out = append(out, w)
		}
		w.attempts = append(w.attempts, e)
		switch e.Outcome {
		case OutcomeOK:
			w.ok++
		case OutcomeUnknown:
			w.open++
		}
	}
	return out
}

// places says where each event lies in a thread.
func (t *Thread) places() map[string][]uint64 {
	out := make(map[string][]uint64)
	if t == nil {
		return out
	}
	for i := range t.Records {
		e := string(t.Records[i].Event)
		out[e] = append(out[e], t.Records[i].Seq)
	}
	return out
}

// removals tells of the clears and erasures that may have removed records.
func removals(entries []*Entry) bool {
	return slices.ContainsFunc(entries, func(e *Entry) bool {
		return (e.Op == OpClear || e.Op == OpErase) && e.Outcome != OutcomeRefused && e.Outcome != OutcomeFenced
	})
}

// acknowledged are the entries whose answer names seqs, in order of the answers.
func acknowledged(entries []*Entry) []*Entry {
	var out []*Entry
	for _, e := range entries {
		if e.Outcome == OutcomeOK && e.First > 0 && len(e.Events) > 0 {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b *Entry) int { return cmp.Compare(a.Ended, b.Ended) })
	return out
}

func short(s string) string {
	if len(s) > 120 {
		return s[:120] + "…"
	}
	return s
}
