package pebblelog

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Options say how a log is opened. The zero value is a good choice.
type Options struct {
	// FS is the file system; nil is the disk.
	FS vfs.FS
	// InMemory keeps all in memory until Close, for tests. The directory given
	// to Open need not be a path. It is the same as a new memory FS.
	InMemory bool
	// Limits beyond which appends are refused; zero fields have their defaults.
	Limits eventlog.Limits
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// After gives a channel that gets a value once d has passed, and what gives
	// it up; nil is time.NewTimer. It goes with Now.
	After func(d time.Duration) (fired <-chan time.Time, stop func() bool)
	// Owner names this process in leases; empty is host/pid.
	Owner string
	// ImplicitLease is how long a run written by raw appends counts as owned
	// after its latest one; 0 is 10 minutes.
	ImplicitLease time.Duration
	// KeyAge is how long idempotency keys are kept; 0 is 7 days.
	KeyAge time.Duration
	// CacheBytes is for blocks of the engine's files; 0 is 32 MiB.
	CacheBytes int64
	// CacheRuns bounds the threads whose state is kept in memory: the sum of
	// their runs, each thread counting 16 more. 0 is 200,000. Threads that are
	// being written are kept beyond it.
	CacheRuns int
	// QueueBytes bounds what one writer may have under way before Enqueue
	// waits; 0 is 8 MiB.
	QueueBytes int
	// PendingBytes bounds what all appends and writers together have under way
	// before the next one waits, first come first served; 0 is 64 MiB. An append
	// that is larger goes when it is alone.
	PendingBytes int
	// Listener hears of what happens inside.
	Listener Listener

	engine func(*pebble.Options) // of tests: it has the last word

	random func([]byte) // fills the keys of chains; nil is crypto/rand

	readOnly bool
}

// Listener hears of what happens inside a log. Any field may be nil. The
// functions are called from the log's own goroutines: they must return soon
// and must not call the log.
type Listener struct {
	// CommitApplied: a group of commits, up to and with this position, was
	// handed to the engine and is not yet durable.
	CommitApplied func(position uint64, commits, bytes int)
	// CommitDurable: the group is durable; took is the time from applied.
	CommitDurable func(position uint64, took time.Duration)
	// RunRecovered: a run whose writer died with its process was closed.
	RunRecovered func(thread eventlog.ThreadKey, run agui.RunKey)
	// LeaseExpired: a run was closed because its writer, in another process, has
	// not renewed its lease.
	LeaseExpired func(thread eventlog.ThreadKey, run agui.RunKey)
	// WriteFailed: the log takes no writes until it has reopened its files.
	WriteFailed func(err error)
	// Reopened: it has, by itself, and writes again. The watermark is now
	// position: what the failed writes left was found up to there. away is the
	// time since WriteFailed.
	Reopened func(position uint64, away time.Duration)
	// EngineError: the engine reports a fault that fails no call by itself. Or a
	// thread is damaged, so that opening the log has left its runs, or a removal
	// from it, as they were.
	EngineError func(err error)
}

func (o Options) withDefaults() Options {
	if o.FS == nil && o.InMemory {
		o.FS = vfs.NewMem()
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	o.Limits = o.Limits.WithDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = func(d time.Duration) (<-chan time.Time, func() bool) {
			timer := time.NewTimer(d)
			return timer.C, timer.Stop
		}
	}
	if o.Owner == "" {
		host, pid := self()
		o.Owner = fmt.Sprintf("%s/%d", host, pid)
	}
	if o.ImplicitLease == 0 {
		o.ImplicitLease = 10 * time.Minute
	}
	if o.KeyAge == 0 {
		o.KeyAge = 7 * 24 * time.Hour
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	if o.CacheRuns == 0 {
		o.CacheRuns = 200_000
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 8 << 20
	}
	if o.PendingBytes == 0 {
		o.PendingBytes = 64 << 20
	}
	if o.random == nil {
		o.random = func(b []byte) { _, _ = rand.Read(b) } // which never fails
	}
	l := &o.Listener
	if l.CommitApplied == nil {
		l.CommitApplied = func(uint64, int, int) {}
	}
	if l.CommitDurable == nil {
		l.CommitDurable = func(uint64, time.Duration) {}
	}
	if l.RunRecovered == nil {
		l.RunRecovered = func(eventlog.ThreadKey, agui.RunKey) {}
	}
	if l.LeaseExpired == nil {
		l.LeaseExpired = func(eventlog.ThreadKey, agui.RunKey) {}
	}
	if l.WriteFailed == nil {
		l.WriteFailed = func(error) {}
	}
	if l.Reopened == nil {
		l.Reopened = func(uint64, time.Duration) {}
	}
	if l.EngineError == nil {
		l.EngineError = func(error) {}
	}
	return o
}

func self() (host string, pid int) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host, os.Getpid()
}

// memTableBytes is large enough that one is not filled while the batches under
// way at a write error are still coming in.
const memTableBytes = 16 << 20

// blockBytes is how much is read and decompressed for one record.
const blockBytes = 32 << 10

// withoutLimit turns a limit of the engine off: see traffic.
const withoutLimit = 1 << 20

// engineOptions are for one handle: what it meets is told to its traffic, and
// what ends it to poison.
func engineOptions(o Options, lock *pebble.Lock, files vfs.FS, t *traffic, poison func(error)) *pebble.Options {
	p := &pebble.Options{
		FS:                          markerFS{files},
		Lock:                        lock,
		CacheSize:                   o.CacheBytes,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: withoutLimit,
		L0StopWritesThreshold:       withoutLimit,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		Logger:                      engineLogger{o.Listener, t, poison},
	}
	p.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) {
			o.Listener.EngineError(err)
			if t.failed(err) {
				poison(err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			o.Listener.EngineError(fmt.Errorf("%w: %s", eventlog.ErrCorrupt, info.String()))
		},
	}
	t.listen(p.EventListener)
	// What repeats in records (ids, the words of JSON) compresses the better the
	// more of them are in one block, also on the way down: a table with nothing to
	// merge with is moved to the last level as it is. Only what a memtable leaves is
	// packed in a hurry: it takes time from those who write, and is merged soon.
	packing := pebble.UniformDBCompressionSettings(block.BalancedCompression)
	packing.Levels[len(packing.Levels)-1] = block.GoodCompression
	packing.Levels[0] = block.FastestCompression
	p.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return packing })
	for i := range p.Levels {
		p.Levels[i].BlockSize = blockBytes
	}
	return p
}

// engineLogger takes what Pebble logs. It never ends the process: Pebble's own
// logger would, on a full disk.
type engineLogger struct {
	listener Listener
	traffic  *traffic
	poison   func(error)
}

func (engineLogger) Infof(string, ...any) {}

func (l engineLogger) Errorf(format string, args ...any) {
	l.listener.EngineError(fmt.Errorf("pebble: "+format, args...))
}

// Fatalf returns, which the engine does not expect. Where that is so, and the
// engine can be asked to do it (docs/format.md, "After a write error"), its
// caller then fails with the error; what it has in memory is not to be written
// from. A file that is missing is fatal to it also where it is only read: there
// what is read fails, and nothing else.
func (l engineLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("pebble, fatal: "+format, args...)
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = fmt.Errorf("pebble, fatal: %w", cause)
		}
	}
	l.listener.EngineError(err)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	l.traffic.note(func() { l.traffic.broken = err })
	l.poison(err)
}
