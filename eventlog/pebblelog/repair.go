package pebblelog

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

// Repair looks for faults in a store that nobody holds, and writes anew what
// follows from sound records and commits: the index of names, the rows of runs
// and leases, the counts in the rows of threads, the index of old idempotency
// keys. What was derived from the log it removes where it is wrong: that is made
// anew when the store is used. It never writes or removes a record, an entry, a commit or a key. It
// yields every fault; what has no Action was left as it is.
//
// A run row that was lost has no lease, no owner and no input digest when it is
// written anew, and the parent that its RUN_STARTED names, or the run before it.
//
// It needs no store that can be opened as a log. What it has yielded with an
// Action is durable.
func Repair(ctx context.Context, dir string, opts Options, what eventlog.VerifyOptions) iter.Seq2[eventlog.Mended, error] {
	return func(yield func(eventlog.Mended, error) bool) {
		err := repair(ctx, dir, opts.withDefaults(), what, yield)
		if err == nil || errors.Is(err, errStopped) {
			return
		}
		var e *eventlog.Error
		if !errors.As(err, &e) {
			err = &eventlog.Error{Op: "repair the store in " + dir, Err: damage(err)}
		}
		yield(eventlog.Mended{}, err)
	}
}

func repair(ctx context.Context, dir string, opts Options, what eventlog.VerifyOptions, yield func(eventlog.Mended, error) bool) (err error) {
	if dir, err = path(dir, opts); err != nil {
		return err
	}
	if err := mustExist(dir, opts.FS); err != nil {
		return err
	}
	lock, err := acquireLock(dir, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	takeBack, err := announce(dir, opts)
	if err != nil {
		return err
	}
	l := newLog(dir, opts, lock)
	l.witness = readOwner(dir, opts.FS).witness
	if err := l.mendOptions(yield); err != nil {
		takeBack()
		return err
	}
	if err := l.openEngine(false); err != nil {
		takeBack()
		return err
	}
	defer func() { err = errors.Join(err, l.shutEngine()) }()
	if err := l.identify(); err != nil {
		return err
	}
	l.gate.letGo()
	v := l.offline(ctx, what)
	var failed error
	v.yield = func(f finding) bool {
		m := eventlog.Mended{Fault: f.fault}
		if len(f.fixes) > 0 {
			if failed = l.mend(f.fixes); failed != nil {
				return false
			}
			m.Action = actionOf(f.fixes)
		}
		return yield(m, nil)
	}
	err = v.run()
	return errors.Join(failed, err)
}

// mustExist refuses a directory without a store.
func mustExist(dir string, fs vfs.FS) error {
	desc, err := pebble.Peek(dir, fs)
	if err != nil {
		return err
	}
	if !desc.Exists {
		if err := undamaged(fs, dir, witness{}); err != nil {
			return err
		}
		return fmt.Errorf("store %w", eventlog.ErrNotFound)
	}
	return nil
}

// mend writes rows, durably.
func (l *Log) mend(fixes []fix) error {
	b := l.db.NewBatch()
	for _, f := range fixes {
		var err error
		switch {
		case f.value == nil && isDerived(f.key):
			err = b.DeleteRange(f.key, after(f.key), nil)
		case f.value == nil:
			err = b.Delete(f.key, nil)
		default:
			err = b.Set(f.key, f.value, nil)
		}
		if err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return l.writeNow(b)
}

func actionOf(fixes []fix) string {
	var out []string
	for _, f := range fixes {
		verb := "wrote"
		if f.value == nil {
			verb = "removed"
		}
		out = append(out, fmt.Sprintf("%s %s (key %s)", verb, rowNames[f.key[0]], hex.EncodeToString(f.key)))
	}
	return strings.Join(out, "; ")
}

// rowNames are the rows that a repair writes.
var rowNames = map[byte]string{
	prefixName: "an entry of the index of names", prefixThread: "the row of the thread", prefixRun: "the row of a run",
	prefixLease: "a lease", prefixKeyTime: "an entry of the index of idempotency keys",
	prefixDerived: "derived rows of the thread", prefixOfScope: "derived rows of the scope",
}

// isDerived reports whether a fix of the key is one of the whole space.
func isDerived(key []byte) bool { return key[0] == prefixDerived || key[0] == prefixOfScope }
