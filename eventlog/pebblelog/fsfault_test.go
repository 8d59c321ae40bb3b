package pebblelog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// sweepVariable, when set, has the sweep fail every call and not some of them.
const sweepVariable = "AGSTORE_FAULT_SWEEP"

// nth fails one call of the file system, or it and all behind it.
type nth struct {
	mu   sync.Mutex
	left int // calls until the one that fails; negative: none fails
	on   bool
	all  bool
	hit  bool
}

func (n *nth) String() string { return "nth" }

func (n *nth) MaybeError(op errorfs.Op) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.on || op.Kind == errorfs.OpGetDiskUsage || op.Kind == errorfs.OpFileClose {
		return nil
	}
	n.left--
	if n.left == -1 || n.all && n.left < 0 {
		n.hit = true
		return syscall.EIO
	}
	return nil
}

func (n *nth) set(on bool) (hit bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.on = on
	return n.hit
}

// swept is a store while a call of its file system fails.
type swept struct {
	t     *testing.T
	mem   *vfs.MemFS // below the fault
	opts  pebblelog.Options
	log   *pebblelog.Log // nil: it is not open
	acked map[string]uint64
	ahead atomic.Int64 // of the clock

	mu     sync.Mutex
	timers []chan time.Time // that have not fired

	again     bool           // the operation is to be done once more in place
	removed   bool           // a removal was acknowledged
	copied    bool           // a backup, or a restore
	lease     eventlog.Lease // the latest acknowledged
	companion uint64         // its last seq acknowledged
}

// timer is one that fires at the next tick. Each who waits has its own: none
// takes another's.
func (s *swept) timer() <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	fired := make(chan time.Time, 1)
	s.timers = append(s.timers, fired)
	return fired
}

// tick ends all waits there are.
func (s *swept) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.timers {
		t <- time.Time{}
	}
	s.timers = nil
}

func (s *swept) note(thread string, done eventlog.Appended, err error) error {
	if err == nil {
		s.acked[thread] = max(s.acked[thread], done.Last)
	}
	return err
}

func (s *swept) append(ctx context.Context, thread string) error {
	done, err := s.log.Append(ctx, threadKey(thread), eventlog.Batch{Events: [][]byte{numbered(1), numbered(2)}, Key: "k"})
	return s.note(thread, done, err)
}

func (s *swept) open() (err error) {
	s.log, err = pebblelog.Open("d", s.opts)
	return err
}

// faultOperations are what is repeated with the k-th call failing. An operation
// is begun on a store that is open, unless it opens it.
type faultOperation struct {
	name  string
	opens bool
	do    func(ctx context.Context, s *swept) error
	// check, if there is one, is asked of the log that goes on in place and of
	// the one opened after a power cut, each with its disk.
	check func(t *testing.T, s *swept, l *pebblelog.Log, disk *vfs.MemFS)
}

var faultOperations = []faultOperation{
	{"Append", false, func(ctx context.Context, s *swept) error {
		return errors.Join(s.append(ctx, "new"), s.append(ctx, "old"))
	}, nil},
	{"Run", false, func(ctx context.Context, s *swept) error {
		w, err := s.log.BeginRun(ctx, threadKey("run"), startOf("r"))
		if err != nil {
			return err
		}
		s.note("run", eventlog.Appended{Last: w.First()}, nil)
		for n := range 3 {
			err = errors.Join(err, w.Enqueue(ctx, numbered(n)))
		}
		last, synced := w.Sync(ctx)
		s.note("run", eventlog.Appended{Last: last}, nil)
		return errors.Join(err, synced, w.End(ctx, "STOP", ""))
	}, nil},
	{"Flush", false, func(ctx context.Context, s *swept) error {
		return errors.Join(s.append(ctx, "new"), s.log.Flush(), s.append(ctx, "newer"))
	}, nil},
	{"Recovery", true, func(ctx context.Context, s *swept) error { return s.open() }, nil},
	{"Close", false, func(ctx context.Context, s *swept) error {
		err := errors.Join(s.append(ctx, "new"), s.log.Close())
		s.log = nil
		return err
	}, nil},
	sweepRemoval("Erase"),
	sweepRemoval("Clear"),
	sweepRemoval("Redact"),
	{"Backup", false, sweepBackup, checkBackup},
	{"Restore", false, sweepRestore, checkRestore},
	{"Lease", false, sweepLeases, checkLease},
	{"Companion", false, sweepCompanion, checkCompanion},
}

// Must hold 2: each operation with the k-th call of the file system failing, and
// with that and every later one failing until the fault is lifted, for every k
// until it is not reached. Nothing acknowledged is lost, in the log that goes on
// in place and after a power cut; no answer is wrong; the process lives.
func TestFaultSweep(t *testing.T) {
	step := 9
	if testing.Short() {
		step = 31
	}
	if os.Getenv(sweepVariable) != "" {
		step = 1
	}
	base := sweepBase(t)
	for _, op := range faultOperations {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/All=%v", op.name, all), func(t *testing.T) {
				for k := 0; ; k += 1 + (k % step) {
					fault := &nth{left: k, all: all}
					sweep(t, base, fault, op, k)
					if t.Failed() {
						t.Fatalf("with call %d failing", k)
					}
					if !fault.hit {
						break
					}
				}
			})
		}
	}
}

// sweepBase is a store with a thread, tables, and a run that is held.
func sweepBase(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	s := &swept{opts: pebblelog.Options{FS: fs}, acked: make(map[string]uint64)}
	ctx := t.Context()
	backup := func() error {
		_, err := s.log.Backup(ctx, "before")
		return err
	}
	held := func() error {
		w, err := s.log.BeginRun(ctx, threadKey("held"), startOf("r"))
		if err == nil {
			_, err = w.Append(ctx, []byte(`{"type":"TEXT_MESSAGE_START","messageId":"m"}`))
		}
		return err
	}
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		s.append(ctx, "old"), mark(ctx, s.log), s.log.Flush(), held(), lend(ctx, s.log), accompany(ctx, s.log), backup(),
	); err != nil {
		t.Fatal(err)
	}
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	return left
}

func sweep(t *testing.T, base *vfs.MemFS, fault *nth, op faultOperation, k int) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	mem := base.CrashClone(vfs.CrashCloneCfg{})
	s := &swept{t: t, mem: mem, acked: sweepAcked(), again: k%2 == 0}
	s.opts = pebblelog.Options{FS: errorfs.Wrap(mem, fault)}
	s.opts.After = func(d time.Duration) (<-chan time.Time, func() bool) {
		if d > time.Minute {
			return nil, func() bool { return false } // the end of a lease
		}
		return s.timer(), func() bool { return false }
	}
	s.opts.Now = func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	if !op.opens {
		if err := s.open(); err != nil {
			t.Fatal(err)
		}
	}
	fault.set(true)
	err := op.do(ctx, s)
	hit := fault.set(false)
	if err != nil && !hit {
		t.Errorf("without a fault: %v", err)
	}
	var e *eventlog.Error
	if err != nil && !errors.As(err, &e) {
		t.Errorf("an error of no type: %v", err)
	}
	if s.log == nil {
		if err := s.open(); err != nil {
			t.Fatalf("the fault is lifted, and the store does not open: %v", err)
		}
	}
	for n := 0; ; n++ {
		if err = s.append(ctx, "after"); err == nil {
			break
		}
		if n == 1000 {
			t.Fatalf("the fault is lifted, and the log does not come back: %v", err)
		}
		s.tick()
	}
	s.log.FinishRemovals()
	s.there(t, s.log)
	if op.check != nil {
		op.check(t, s, s.log, mem)
	}
	left := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := s.log.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	s.opts.FS = left
	l, err := pebblelog.Open("d", s.opts)
	if err != nil {
		t.Fatalf("open after a power cut: %v", err)
	}
	l.FinishRemovals()
	s.there(t, l)
	if op.check != nil {
		op.check(t, s, l, left)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// sweepAcked is what was acknowledged before.
func sweepAcked() map[string]uint64 {
	return map[string]uint64{"old": 2, "held": 2, "leased": 1}
}

// there checks that all that was acknowledged is in a log.
func (s *swept) there(t *testing.T, l *pebblelog.Log) {
	t.Helper()
	for _, fault := range logtest.Check(t.Context(), l) {
		t.Errorf("unsound: %v", fault)
	}
	for thread, last := range s.acked {
		if th, err := l.Thread(t.Context(), threadKey(thread)); err != nil || th.LastSeq < last {
			t.Errorf("thread %s: acknowledged %d, found %+v, %v", thread, last, th, err)
		}
	}
}
