package pebblelog

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

// How bytes leave the engine's files. A deletion is a note above what it
// deletes: the tables below are rewritten without it by compacting the range,
// unless a snapshot of the engine still sees it. The old tables are deleted once
// no iterator reads them. The write-ahead log needs two things more: the log
// that has the bytes is retired by a flush, and the engine does not delete such
// logs but keeps some, as they are, to write the next ones over them. While
// bytes are being removed it is handed fresh files instead (freshLogs), and is
// made to use up those it has kept.

// diskPatience is how long a removal waits before it looks again at what nobody
// tells it: whether the engine's snapshots are gone, and whether it has failed.
const diskPatience = 100 * time.Millisecond

// freshLogs is a file system that, when it is told to, gives the engine a new
// file where it wants to reuse one.
type freshLogs struct {
	vfs.FS
	*freshWish
}

// freshWish is who wants fresh files, whichever engine the log has.
type freshWish struct {
	mu  sync.Mutex
	use int
}

// Unwrap is the file system below.
func (f freshLogs) Unwrap() vfs.FS { return f.FS }

// ReuseForWrite implements [vfs.FS].
func (f freshLogs) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.use == 0 {
		return f.FS.ReuseForWrite(oldname, newname, category)
	}
	if err := f.Remove(oldname); err != nil {
		return nil, err
	}
	return f.Create(newname, category)
}

// want begins, or ends, a time of fresh files.
func (f *freshWish) want(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.use += n
}

// removeFromFiles returns once what a removal has deleted is in none of the
// engine's files.
func (l *Log) removeFromFiles(ctx context.Context, j job, row *receiptRow) error {
	ctx, stop := l.whileSound(ctx)
	defer stop()
	l.remover.fresh.want(1)
	defer l.remover.fresh.want(-1)
	logs, err := l.filesOf(".log")
	if err != nil {
		return err
	}
	if err := l.awaitSnapshots(ctx); err != nil {
		return err
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	for _, r := range l.touched(j.ord, row) {
		if err := l.compact(ctx, r); err != nil {
			return err
		}
	}
	if err := l.retire(ctx, logs); err != nil {
		return err
	}
	if err := l.awaitTables(ctx); err != nil {
		return err
	}
	return syncDir(l.opts.FS, l.dir)
}

// whileSound is a context that ends with the log's ability to write: what waits
// for the engine then would wait for ever.
func (l *Log) whileSound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	failed := l.failure.happened()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(diskPatience)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-failed:
				cancel(l.failure.last())
				return
			case <-tick.C:
				if l.life.closing() {
					cancel(eventlog.ErrClosed)
				}
			}
		}
	}()
	return ctx, func() { cancel(nil); <-ended }
}

// touched are the ranges in whose files a removal's bytes are.
func (l *Log) touched(ord uint64, row *receiptRow) []keyRange {
	if row.removal == eventlog.RemovalRedact {
		return []keyRange{{from: recordKey(ord, row.first), to: after(recordKey(ord, row.last))}, rangeOf("", threadSpaces(ord))}
	}
	out := append(l.rowsOf(ord, row),
		rangeOf("", threadRowKey(ord)), // the key of the chain
		rangeOf("", ordinalKey(prefixLease, ord)))
	if row.place(eventlog.PlaceKeys) > 0 {
		out = append(out, rangeOf("", ordinalKey(prefixKey, ord)), rangeOf("", []byte{prefixKeyTime}))
	}
	return out
}

func (r *receiptRow) place(name string) uint64 {
	for _, p := range r.places {
		if p.Name == name {
			return p.Count
		}
	}
	return 0
}

// using does something with the engine, which is not closed meanwhile.
func (l *Log) using(do func() error) error {
	if err := l.life.enter(); err != nil {
		return err
	}
	defer l.life.leave()
	return do()
}

// awaitSnapshots waits for a moment in which the engine has no snapshot: what an
// older one sees is kept in every compaction.
func (l *Log) awaitSnapshots(ctx context.Context) error {
	for {
		count := 0
		err := l.using(func() error {
			count = l.db.Metrics().Snapshots.Count
			return nil
		})
		if err != nil || count == 0 {
			return err
		}
		if err := l.remover.pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits for news of the engine's files, or a while.
func (r *remover) pause(ctx context.Context) error {
	t := time.NewTimer(diskPatience)
	defer t.Stop()
	select {
	case <-r.files:
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// flush writes what the engine has in memory to tables, and begins a new
// write-ahead log.
func (l *Log) flush(ctx context.Context) error {
	var flushed <-chan struct{}
	failed := l.failure.happened()
	err := l.using(func() (err error) {
		if err := l.failure.get(); err != nil {
			return err // a flush would meet it again
		}
		flushed, err = l.db.AsyncFlush()
		return err
	})
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-failed:
		return l.failure.last()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// compact rewrites the tables of a range without what was deleted of it.
func (l *Log) compact(ctx context.Context, r keyRange) error {
	err := l.using(func() error { return l.db.Compact(ctx, r.from, r.to, false) })
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// retire uses up write-ahead logs until none of those listed is there any more.
func (l *Log) retire(ctx context.Context, logs map[string]bool) error {
	for {
		if left, err := l.left(logs, ".log"); err != nil || !left {
			return err
		}
		if err := l.flush(ctx); err != nil {
			return err
		}
		if left, err := l.left(logs, ".log"); err != nil || !left {
			return err
		}
		if err := l.remover.pause(ctx); err != nil {
			return err
		}
	}
}

// awaitTables waits until the tables that are in no use any more are deleted.
func (l *Log) awaitTables(ctx context.Context) error {
	old, err := l.filesOf(".sst")
	if err != nil {
		return err
	}
	for {
		if err := l.exceptLive(old); err != nil {
			return err
		}
		left, err := l.left(old, ".sst")
		if err != nil || !left {
			return err
		}
		if err := l.remover.pause(ctx); err != nil {
			return err
		}
	}
}

// exceptLive takes the tables in use off a list of files.
func (l *Log) exceptLive(files map[string]bool) error {
	return l.using(func() error {
		levels, err := l.db.SSTables()
		if err != nil {
			return err
		}
		for _, level := range levels {
			for _, table := range level {
				delete(files, table.BackingSSTNum.String()+".sst")
			}
		}
		return nil
	})
}

// left reports whether any of the files, with that ending, is still there, and
// takes those that are not off the list.
func (l *Log) left(files map[string]bool, ending string) (bool, error) {
	if err := l.using(func() error { return l.gate.removeLeft() }); err != nil {
		return false, err
	}
	there, err := l.filesOf(ending)
	if err != nil {
		return false, err
	}
	for name := range files {
		if !there[name] {
			delete(files, name)
		}
	}
	return len(files) > 0, nil
}

// filesOf lists the files of the store's directory with an ending.
func (l *Log) filesOf(ending string) (map[string]bool, error) {
	names, err := l.opts.FS.List(l.dir)
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool)
	for _, name := range names {
		if strings.HasSuffix(name, ending) {
			out[name] = true
		}
	}
	return out, nil
}

// diskBytes is about what ranges take in the engine's tables, to which all is
// written first.
func (l *Log) diskBytes(ctx context.Context, key eventlog.ThreadKey, ranges []keyRange) (total uint64, err error) {
	if mark := l.mark.get(); l.failure.get() == nil && l.remover.measured.Swap(mark) != mark {
		sound, stop := l.whileSound(ctx)
		defer stop()
		if err := l.flush(sound); err != nil {
			l.remover.measured.Store(0)
			return 0, &eventlog.Error{Op: "measure", Key: key, Err: err}
		}
	}
	err = l.reading("measure", key, func() error {
		for _, r := range ranges {
			n, err := l.db.EstimateDiskUsage(r.from, r.to)
			if err != nil {
				return err
			}
			// Whole blocks are counted, and those at both ends are shared with
			// what lies beside: a block too many, half as large as it was.
			total += n - min(n/2, blockBytes/2)
		}
		return nil
	})
	return total, err
}

// listen has an engine tell of the files that it deletes.
func (r *remover) listen(to *pebble.EventListener) {
	to.TableDeleted = func(pebble.TableDeleteInfo) { r.fileDeleted() }
	to.WALDeleted = func(pebble.WALDeleteInfo) { r.fileDeleted() }
}
