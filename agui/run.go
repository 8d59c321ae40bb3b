package agui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// RunKey names one run of a thread. A run id that is started again after its
// run has ended names a second attempt. The zero key names no run.
type RunKey struct {
	ID      string // the runId; may be empty
	Attempt int    // 1, 2, …; 0 in the zero key
}

// IsZero reports whether k names no run.
func (k RunKey) IsZero() bool { return k.Attempt == 0 }

// String is the run id, with "#2" and so on behind it from the second attempt.
func (k RunKey) String() string {
	if k.Attempt > 1 {
		return k.ID + "#" + strconv.Itoa(k.Attempt)
	}
	return k.ID
}

// RunStatus is what has become of a run (fold-rules R2).
type RunStatus uint8

// The statuses of a run. The first terminal event decides.
const (
	RunRunning RunStatus = iota
	RunSuccess
	RunInterrupted
	RunCancelled
	RunFailed
	RunAbandoned
)

var runStatusNames = [...]string{"running", "success", "interrupted", "cancelled", "failed", "abandoned"}

func (s RunStatus) String() string {
	if int(s) < len(runStatusNames) {
		return runStatusNames[s]
	}
	return fmt.Sprintf("RunStatus(%d)", uint8(s))
}

// MarshalText gives the status in words, as views and lists print it.
func (s RunStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText gave.
func (s *RunStatus) UnmarshalText(text []byte) error {
	i := slices.Index(runStatusNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("agui: no run status is called %q", text)
	}
	*s = RunStatus(i)
	return nil
}

// CodeAbandoned is the code of the RUN_ERROR with which a store closes a run
// whose writer is gone.
const CodeAbandoned = "AGSTORE_ABANDONED"

// RootParent is the parentRunId that means: before the first run (fold-rules
// R33), unless a run of the thread has that name.
const RootParent = "root"

// Run is one run in the tree of a thread's runs.
type Run struct {
	Key RunKey
	// Parent is the run this one continues; the zero key: none, it starts from
	// nothing.
	Parent RunKey
	// ParentSeq bounds what the run's lineage takes from before it: records up
	// to this seq. 0 with a parent: no bound, for runs that overlap in one
	// stream (DESIGN decision 3).
	ParentSeq uint64
	FirstSeq  uint64 // its RUN_STARTED
	LastSeq   uint64 // its latest record
	EndSeq    uint64 // its first terminal event; 0 while it runs
	Events    uint64 // how many records it has
	Status    RunStatus
}

// Running reports whether the run has no terminal event yet.
func (r Run) Running() bool { return r.EndSeq == 0 }

// A Segment is the part of a lineage that one run contributes: its records with
// seq up to Through. Through is the largest uint64 where nothing bounds it.
type Segment struct {
	Run     RunKey
	Through uint64
}

// Unbounded is the Through of a segment that takes all records of its run.
const Unbounded = ^uint64(0)

// Lineage lists the runs from the root to run of, oldest first, with how much
// of each belongs to it: the lineage of a run is its own records, its parent's
// up to ParentSeq, and so on. Runs not in runs end the lineage. An unknown of
// gives nil.
func Lineage(runs []Run, of RunKey) []Segment {
	byKey := make(map[RunKey]*Run, len(runs))
	for i := range runs {
		byKey[runs[i].Key] = &runs[i]
	}
	var out []Segment
	through := uint64(Unbounded)
	for r := byKey[of]; r != nil; r = byKey[r.Parent] {
		// A tree has no cycles; a damaged one must not hang the reader.
		if len(out) == len(runs) {
			break
		}
		out = append(out, Segment{Run: r.Key, Through: through})
		if r.ParentSeq != 0 {
			through = min(through, r.ParentSeq)
		}
	}
	slices.Reverse(out)
	return out
}

// ParseRunKey finds the run that text names among runs: "id" is the latest
// attempt of that id, "id#n" its n-th attempt unless a run is called just that.
func ParseRunKey(runs []Run, text string) (RunKey, bool) {
	latest := func(id string) (RunKey, bool) {
		var found RunKey
		for _, r := range runs {
			if r.Key.ID == id && cmp.Compare(r.Key.Attempt, found.Attempt) > 0 {
				found = r.Key
			}
		}
		return found, !found.IsZero()
	}
	if k, ok := latest(text); ok {
		return k, true
	}
	id, number, ok := cutLast(text, "#")
	if !ok {
		return RunKey{}, false
	}
	attempt, err := strconv.Atoi(number)
	if err != nil {
		return RunKey{}, false
	}
	k := RunKey{ID: id, Attempt: attempt}
	ok = slices.ContainsFunc(runs, func(r Run) bool { return r.Key == k })
	return k, ok
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
