package pebblelog

import (
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Bounds of what the engine may fall behind before the committer waits for it.
const (
	memTablesBehind = 3  // full ones that are not flushed
	tablesBehind    = 64 // of the uppermost level that are not compacted
)

// traffic is how far the engine's background work is behind. The engine's own
// limits are out of reach: where they hold a writer back nothing would let it go
// when the disk fails, and the engine could not even be closed.
type traffic struct {
	mu         sync.Mutex
	rotated    int // memtables that were full
	taken      int // of them: those of the flush that runs
	flushed    int // of them: those that are in tables
	flushing   bool
	flushErr   error // of the latest one; an empty one has an error too
	compacting int
	tables     int    // in the uppermost level
	wal        uint64 // number of the latest write-ahead log
	broken     error  // what the engine calls fatal
	changed    chan struct{}
}

func newTraffic() *traffic { return &traffic{changed: make(chan struct{})} }

// opened takes over what an engine that was just opened has.
func (t *traffic) opened(db *pebble.DB) {
	n := int(db.Metrics().Levels[0].TablesCount)
	t.note(func() { t.tables, t.flushed = n, t.rotated })
}

func (t *traffic) note(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

// jam gives a channel that is closed at the next change, if there is reason to
// wait: something is behind, and work on it is under way.
func (t *traffic) jam() (<-chan struct{}, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	jammed := t.flushing && t.rotated-t.flushed > memTablesBehind ||
		t.compacting > 0 && t.tables > tablesBehind
	return t.changed, jammed
}

// listen adds what the engine tells.
func (t *traffic) listen(to *pebble.EventListener) {
	to.WALCreated = func(info pebble.WALCreateInfo) {
		t.note(func() {
			t.rotated++
			if info.Err == nil {
				t.wal = uint64(info.FileNum)
			}
		})
	}
	to.FlushBegin = func(pebble.FlushInfo) {
		t.note(func() { t.flushing, t.taken = true, t.rotated })
	}
	to.FlushEnd = func(info pebble.FlushInfo) {
		t.note(func() {
			t.flushing = false
			if t.flushErr = info.Err; info.Err == nil {
				t.flushed = t.taken
				t.tables += len(info.Output)
			}
		})
	}
	to.CompactionBegin = func(pebble.CompactionInfo) { t.note(func() { t.compacting++ }) }
	to.CompactionEnd = func(info pebble.CompactionInfo) {
		t.note(func() {
			t.compacting--
			if info.Err != nil {
				return
			}
			for _, in := range info.Input {
				if in.Level == 0 {
					t.tables -= len(in.Tables)
				}
			}
			if info.Output.Level == 0 {
				t.tables += len(info.Output.Tables)
			}
		})
	}
}

// log is the number of the write-ahead log that is written.
func (t *traffic) log() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wal
}

// fatal is what the engine has called fatal.
func (t *traffic) fatal() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

// failed reports whether an error of the engine's background work is of the
// latest flush. Those it repeats without end; of a compaction it remembers where
// it failed.
func (t *traffic) failed(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.flushErr != nil && errors.Is(err, t.flushErr)
}

// pace waits while the engine is behind, but not for a disk that fails.
func (l *Log) pace() {
	for {
		changed, jammed := l.traffic.jam()
		if !jammed {
			return
		}
		select {
		case <-changed:
		case <-l.failure.happened():
			return
		}
	}
}
