package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Op is what was done.
type Op string

// The operations that the validators know.
const (
	OpAppend  Op = "append"  // a raw append of Events, perhaps under Key
	OpBegin   Op = "begin"   // a run is started with Events[0]
	OpWrite   Op = "write"   // a writer's Append
	OpEnqueue Op = "enqueue" // a writer's Enqueue, answered when its Sync is
	OpEnd     Op = "end"     // a writer gives its run back
	OpTake    Op = "take"    // a run is taken from its writer, under a new epoch
	OpRead    Op = "read"    // records were read from seq From on
	OpClear   Op = "clear"   // a new generation begins
	OpErase   Op = "erase"   // the thread goes for ever
)

// Outcome is how an operation was answered.
type Outcome string

// The outcomes.
const (
	OutcomeUnknown Outcome = ""        // no answer, or one that leaves it open
	OutcomeOK      Outcome = "ok"      // it is done, and durable
	OutcomeRefused Outcome = "refused" // nothing was changed
	OutcomeFenced  Outcome = "fenced"  // refused because the lease is gone
)

// Seen is one record as a reader was given it.
type Seen struct {
	Seq   uint64 `json:"seq"`
	Event string `json:"event"`
}

// Entry is one operation of a client and the answer to it.
type Entry struct {
	Client string `json:"client"` // process and worker, as "p1/w3"
	N      int    `json:"n"`      // of the client's operations, from 1
	Begun  int64  `json:"begun"`  // on the recorder's clock
	Ended  int64  `json:"ended,omitempty"`
	Op     Op     `json:"op"`

	Scope   string   `json:"scope"`
	Thread  string   `json:"thread"`
	Stream  string   `json:"stream,omitempty"` // Companion: Events are bodies of the companion stream
	Run     string   `json:"run,omitempty"`
	Attempt int      `json:"attempt,omitempty"` // of the run; 0: no run
	Epoch   uint64   `json:"epoch,omitempty"`
	Beside  bool     `json:"beside,omitempty"` // the run names its parent: it may go on beside the head's
	Key     string   `json:"key,omitempty"`
	Expect  *uint64  `json:"expect,omitempty"`
	Events  []string `json:"events,omitempty"`
	From    uint64   `json:"from,omitempty"` // of a read
	To      uint64   `json:"to,omitempty"`   // of a read; 0: to the end

	Outcome   Outcome `json:"outcome,omitempty"`
	Error     string  `json:"error,omitempty"`
	First     uint64  `json:"first,omitempty"`
	Last      uint64  `json:"last,omitempty"`
	Position  uint64  `json:"position,omitempty"`
	Duplicate bool    `json:"duplicate,omitempty"`
	Seen      []Seen  `json:"seen,omitempty"`
}

// Companion is the Stream of appends to a thread's companion stream.
const Companion = "companion"

// place is where the entry's seqs count: a companion stream is judged as a thread
// of its own, under a name that no thread has.
func (e *Entry) place() eventlog.ThreadKey {
	k := e.ThreadKey()
	if e.Stream != "" {
		k.Thread = e.Stream + " of " + k.Thread
	}
	return k
}

// ThreadKey is the thread of the entry.
func (e *Entry) ThreadKey() eventlog.ThreadKey {
	return eventlog.ThreadKey{Scope: e.Scope, Thread: e.Thread}
}

// RunKey is the run of the entry.
func (e *Entry) RunKey() agui.RunKey { return agui.RunKey{ID: e.Run, Attempt: e.Attempt} }

func (e *Entry) String() string {
	return fmt.Sprintf("%s %s %d of thread %q", e.Client, e.Op, e.N, e.Thread)
}

// History is what several clients did, in the order in which they began it.
type History []Entry

// Decode reads the lines of recorders, of one after the other or mixed. A last
// line that is half written, because its process was killed, is left out.
func Decode(r io.Reader) (History, error) {
	var h History
	type id struct {
		client string
		n      int
	}
	at := make(map[id]int)
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // without a line break it is not whole
		}
		if err != nil {
			return nil, fmt.Errorf("read a history: %w", err)
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d of a history: %w", n, err)
		}
		k := id{e.Client, e.N}
		if i, ok := at[k]; ok {
			h[i] = e
			continue
		}
		at[k] = len(h)
		h = append(h, e)
	}
	slices.SortStableFunc(h, func(a, b Entry) int { return cmp.Compare(a.Begun, b.Begun) })
	return h, nil
}
