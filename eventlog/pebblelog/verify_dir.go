package pebblelog

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

// VerifyDir looks for faults in a store that nobody holds, and need not be one
// that can be opened: what keeps it from that is a fault like others. It writes
// nothing. Where the engine cannot open its files at all, it tells why, and which
// of the tables have damaged blocks.
func VerifyDir(ctx context.Context, dir string, opts Options, what eventlog.VerifyOptions) iter.Seq2[eventlog.Fault, error] {
	return func(yield func(eventlog.Fault, error) bool) {
		err := verifyDir(ctx, dir, opts.withDefaults(), what, func(f finding) bool { return yield(f.fault, nil) })
		if err == nil || errors.Is(err, errStopped) {
			return
		}
		var e *eventlog.Error
		if !errors.As(err, &e) {
			err = &eventlog.Error{Op: "verify the store in " + dir, Err: damage(err)}
		}
		yield(eventlog.Fault{}, err)
	}
}

func verifyDir(ctx context.Context, dir string, opts Options, what eventlog.VerifyOptions, yield func(finding) bool) (err error) {
	if dir, err = path(dir, opts); err != nil {
		return err
	}
	lock, err := readLock(dir, opts)
	if err != nil && !errors.Is(damage(err), eventlog.ErrCorrupt) {
		return err
	}
	if err == nil {
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	opts.FS, opts.readOnly = readOnlyFS{FS: opts.FS}, true
	l := newLog(dir, opts, lock)
	l.witness = readOwner(dir, opts.FS).witness
	lacks := undamaged(opts.FS, dir, l.witness)
	if err == nil {
		err = l.openEngine(true)
	}
	if err != nil {
		if errors.Is(lacks, errDamaged) {
			err = lacks
		}
		return l.verifyFiles(ctx, damage(err), yield)
	}
	defer func() { err = errors.Join(err, l.shutEngine()) }()
	if errors.Is(lacks, errDamaged) && !yield(finding{fault: eventlog.Fault{Kind: eventlog.FaultBlock, Place: "directory " + dir, Detail: wording(lacks)}}) {
		return errStopped
	}
	v := l.offline(ctx, what)
	v.yield = yield
	return v.run()
}

// offline is a verifier of a log that nothing is written to, and whose own row
// need not be sound.
func (l *Log) offline(ctx context.Context, what eventlog.VerifyOptions) *verifier {
	v := newVerifier(ctx, what)
	v.witness = l.witness
	// What the latest commit says does not matter here, nor whether it can be
	// read: that is told with the commits.
	_ = l.last(prefixCommit, func(key, _ []byte) error {
		v.mark = commitPosition(key)
		return nil
	})
	v.read = func(do func(pebble.Reader) error) error {
		snap := l.db.NewSnapshot()
		return errors.Join(do(snap), snap.Close())
	}
	v.files = func(each func(name string, err error, of *pebble.SSTableInfo)) error {
		return checkTables(l.db, l.opts.FS, l.dir, each)
	}
	return v
}

// verifyFiles tells why the engine does not open its files, and which tables
// cannot be read.
func (l *Log) verifyFiles(ctx context.Context, cause error, yield func(finding) bool) error {
	if !errors.Is(cause, eventlog.ErrCorrupt) {
		return cause
	}
	told := func(place, detail string) bool {
		return yield(finding{fault: eventlog.Fault{Kind: eventlog.FaultBlock, Place: place, Detail: detail}})
	}
	if !told("directory "+l.dir, "the engine does not open it: "+wording(cause)) {
		return errStopped
	}
	names, err := l.opts.FS.List(l.dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		if err := checkTable(l.opts.FS, l.opts.FS.PathJoin(l.dir, name)); err != nil && !told("file "+name, wording(err)) {
			return errStopped
		}
	}
	return nil
}
