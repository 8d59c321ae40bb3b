package pebblelog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

// Log is a log of threads in one directory. See the package comment.
type Log struct {
	dir  string
	opts Options
	lock io.Closer
	meta storeRow

	witnessing sync.Mutex
	witness    witness

	// The engine. Who has entered the life may use it, and the committer.
	db       *pebble.DB // nil: there is none at the moment
	gate     *gate
	traffic  *traffic
	readOnly bool // it is only to be read, until one can be opened that writes
	lives    atomic.Uint64

	cache   *cache
	names   names
	mark    *watermark
	life    *life
	failure *failure
	due     *deadlines
	remover *remover
	backups backupsUnderWay
	derived derivedWrites

	budget   *budget
	queue    *queue
	groups   sync.Pool // of *group
	calls    sync.Pool // of *call
	inFlight chan *group
	synced   chan struct{} // closed when the last group is settled

	// Of the committer.
	enc       *encoder
	builder   *builder // to be used again; nil: it is in use
	dec       *decoder
	position  uint64 // of the latest commit
	lastTime  int64
	nextOrd   uint64
	pruned    int64 // when old idempotency keys were looked for
	plainKeys bool  // there may be idempotency keys of before FormatViews
	comeback  comeback
	debts     debts

	closing  sync.Once
	closeErr error
}

var _ eventlog.Log = (*Log)(nil)

// Open opens the log in a directory, which it creates if need be. Runs whose
// writer died with its process are closed before it returns. One process may
// hold a directory: the others get [eventlog.ErrLocked] at once.
func Open(dir string, opts Options) (*Log, error) {
	l, err := open(dir, opts.withDefaults())
	if err != nil {
		err = damage(err)
		return nil, &eventlog.Error{Op: "open the store in " + dir, Err: err, Hint: advice(err, dir)}
	}
	return l, nil
}

func open(dir string, opts Options) (*Log, error) {
	dir, err := path(dir, opts)
	if err != nil {
		return nil, err
	}
	take := writeLock
	if opts.readOnly {
		take = readLock
	}
	lock, err := take(dir, opts)
	if err != nil {
		return nil, err
	}
	takeBack := func() {}
	if opts.readOnly {
		opts.FS = readOnlyFS{FS: opts.FS}
	}
	l := newLog(dir, opts, lock)
	l.witness = readOwner(dir, opts.FS).witness
	if err = undamaged(opts.FS, dir, l.witness); err == nil && !opts.readOnly {
		takeBack, err = announce(dir, opts)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err = l.openEngine(opts.readOnly); err == nil {
		if err = l.start(); err != nil {
			l.gate.release()
			l.closeEngine()
		}
	}
	if err != nil {
		takeBack()
		return nil, errors.Join(err, lock.Close())
	}
	l.gate.letGo()
	go l.commitLoop()
	go l.syncLoop()
	go l.expireLoop()
	go l.remover.loop()
	if opts.readOnly {
		return l, nil
	}
	if err := errors.Join(l.recover(context.Background()), l.resumeRemovals()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// writeLock locks a directory, which it makes if need be.
func writeLock(dir string, opts Options) (io.Closer, error) {
	if err := noBackup(dir, opts.FS); err != nil {
		return nil, err
	}
	if err := opts.FS.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := acquireLock(dir, opts)
	if err != nil {
		return nil, err // and no lock that is nil and is none
	}
	return lock, nil
}

// path gives the one name of a directory: the engine's lock goes by the name.
func path(dir string, opts Options) (string, error) {
	if opts.FS == vfs.Default {
		return filepath.Abs(dir)
	}
	if dir == "" {
		dir = "store"
	}
	return dir, nil
}

// newLog is a log without its engine.
func newLog(dir string, opts Options, lock io.Closer) *Log {
	l := &Log{
		dir: dir, opts: opts, lock: lock, life: newLife(), failure: newFailure(),
		budget: newBudget(opts.PendingBytes), queue: newQueue(), inFlight: make(chan *group, groupsInFlight), synced: make(chan struct{}),
		enc: newEncoder(), dec: newDecoder(), due: newDeadlines(),
	}
	l.cache, l.remover = newCache(l, opts.CacheRuns), newRemover(l)
	l.derived.enc, l.derived.dec = newEncoder(), newDecoder()
	l.groups.New = func() any { return new(group) }
	l.calls.New = func() any { return &call{done: make(chan struct{}, 1)} }
	return l
}

// start reads what the committer goes on from. All that it finds is durable:
// after a kill it may come from a file that was never synced, and Pebble writes
// that to tables before its Open returns (TestOpenMakesDurableWhatItFinds).
func (l *Log) start() error {
	if err := l.identify(); err != nil {
		return err
	}
	if err := l.latest(); err != nil {
		return err
	}
	if err := l.oldestKey(); err != nil {
		return err
	}
	l.mark = newWatermark(l.position)
	if l.opts.readOnly {
		return nil // verify tells of a log that is too short
	}
	return l.witnessed()
}

// latest reads what the committer goes on from.
func (l *Log) latest() error {
	l.position = 0
	if err := l.last(prefixCommit, func(key, value []byte) error {
		row, err := l.dec.commit(value)
		l.position, l.lastTime = commitPosition(key), row.time
		return err
	}); err != nil {
		return err
	}
	l.nextOrd = 1
	return l.last(prefixThread, func(key, _ []byte) error {
		l.nextOrd = commitPosition(key) + 1
		return nil
	})
}

// oldestKey looks whether there are idempotency keys that stand in the store as
// they are. The oldest tells: from some time on all have names.
func (l *Log) oldestKey() error {
	it, err := l.iterate([]byte{prefixKeyTime})
	if err != nil {
		return err
	}
	defer it.Close()
	l.plainKeys = it.First() && len(it.Key()) > 17 && !isKeyName(keyTimeName(it.Key()))
	return it.Error()
}

// last visits the last key with a prefix.
func (l *Log) last(prefix byte, visit func(key, value []byte) error) error {
	it, err := l.iterate([]byte{prefix})
	if err != nil {
		return err
	}
	defer it.Close()
	if !it.Last() {
		return it.Error()
	}
	return visit(it.Key(), it.Value())
}

// identify reads which store this is, or makes it one.
func (l *Log) identify() error {
	value, ok, err := l.get(storeKey())
	if err != nil {
		return err
	}
	if !ok && (l.witness.Store != "" || l.opts.readOnly) {
		return errNoStoreRow
	}
	if ok {
		if l.meta, err = l.dec.store(value); err != nil {
			return err
		}
		if l.meta.format > FormatVersion {
			return &eventlog.VersionError{What: "store", Found: int(l.meta.format), Known: FormatVersion}
		}
		if l.meta.format == FormatVersion || l.opts.readOnly {
			return nil
		}
		l.meta.format = FormatVersion
		return l.storeMeta()
	}
	l.meta = storeRow{format: FormatVersion, created: l.clock()}
	if err := l.mintIncarnation(); err != nil {
		return err
	}
	return l.storeMeta()
}

// mintIncarnation gives the store a name that no other store has.
func (l *Log) mintIncarnation() error {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	l.meta.incarnation = hex.EncodeToString(id[:])
	return nil
}

// storeMeta writes the store's own row, durably.
func (l *Log) storeMeta() error {
	b := l.db.NewBatch()
	if err := b.Set(storeKey(), l.enc.store(l.meta), nil); err != nil {
		return err
	}
	if err := l.writeNow(b); err != nil {
		return err
	}
	// The first WAL file of a new Pebble store is begun before its format version
	// is raised, and is without the offsets by which damage is told from an end.
	return l.flushNow()
}

// writeNow makes a batch durable, before there is a committer.
func (l *Log) writeNow(b *pebble.Batch) error {
	if err := l.apply(b); err != nil {
		return err
	}
	return l.await(l.gate, b)
}

// Incarnation implements [eventlog.Log].
func (l *Log) Incarnation() string { return l.meta.incarnation }

// Close implements [eventlog.Log]. Appends that the committer had taken are
// answered as they turn out, the others with ErrClosed. Runs that still have a
// writer are closed at the next open, as after a crash.
func (l *Log) Close() error {
	l.closing.Do(func() { l.closeErr = l.close() })
	return l.closeErr
}

func (l *Log) close() error {
	l.life.end()
	l.budget.close()
	l.queue.close()
	l.remover.stop()
	<-l.synced
	l.due.end()
	l.mark.close()
	<-l.life.idle
	failed := l.failure.get() != nil
	err := l.shutEngine()
	if err == nil && !failed && !l.opts.readOnly {
		l.sign()
	}
	if err := errors.Join(err, l.lock.Close()); err != nil {
		err = damage(err)
		return &eventlog.Error{Op: "close the store in " + l.dir, Err: err, Hint: "what was acknowledged is there; " + advice(err, l.dir)}
	}
	return nil
}
