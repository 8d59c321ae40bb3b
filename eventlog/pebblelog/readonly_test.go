package pebblelog

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

// Read only, a store is what it was: what a process that died had open is open,
// an older format stays, every write is refused, and no byte on the disk changes.
func TestReadOnly(t *testing.T) {
	ctx := context.Background()
	for _, version := range fixtureVersions {
		dir := filepath.Join(t.TempDir(), "store")
		files := fixtureFiles(t, version)
		files["LOCK"] = nil
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o400); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(filepath.Join(dir, "LOCK"), 0o600), os.Chmod(dir, 0o500)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		for range 2 {
			l, err := OpenReadOnly(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := describeStore(t, l); string(got) != string(fixtureReads(t, version)) {
				t.Errorf("it reads as\n%s", got)
			}
			clean(t, l)
			if l.meta.format != uint64(version) {
				t.Errorf("the format is %d", l.meta.format)
			}
			key := eventlog.ThreadKey{Scope: "acme", Thread: "raw"}
			_, err = l.Append(ctx, key, eventlog.Batch{Events: [][]byte{custom(1)}})
			if !errors.Is(err, eventlog.ErrReadOnly) {
				t.Errorf("append: %v", err)
			}
			if _, err = l.BeginRun(ctx, key, eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","runId":"x"}`)}); !errors.Is(err, eventlog.ErrReadOnly) {
				t.Errorf("begin: %v", err)
			}
			if _, err = l.AppendCompanion(ctx, key, eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "k"}}}); !errors.Is(err, eventlog.ErrReadOnly) {
				t.Errorf("companion: %v", err)
			}
			for _, open := range []func(string, Options) (*Log, error){Open, OpenReadOnly} {
				var locked *eventlog.LockedError
				if _, err := open(dir, Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
					t.Errorf("a second open: %v", err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if left := readFiles(t, vfs.Default, dir); !maps.EqualFunc(left, files, func(a, b []byte) bool { return string(a) == string(b) }) {
			t.Errorf("the directory was changed: %d files, %d before", len(left), len(files))
		}
	}
}

// It works on a disk that cannot be written at all, and finds no store where
// there is none.
func TestReadOnlyDisk(t *testing.T) {
	files := fixtureFiles(t, 1)
	files["LOCK"] = nil
	mem := memoryOf(t, files)
	l, err := OpenReadOnly("store", Options{FS: readOnlyFS{mem}, Now: func() time.Time { return fixtureLater }})
	if err != nil {
		t.Fatal(err)
	}
	describeStore(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("store", Options{FS: readOnlyFS{mem}}); !errors.Is(err, fs.ErrPermission) && err == nil {
		t.Errorf("it was opened for writing: %v", err)
	}
	if left := readFiles(t, mem, "store"); len(left) != len(files) {
		t.Errorf("%d files, %d before", len(left), len(files))
	}
	if _, err := OpenReadOnly(t.TempDir(), Options{}); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("no store: %v", err)
	}
}

// A store that another process holds is found locked though its lock file may
// only be read; what is not held is not.
func TestReadLockOfAnother(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if held, err := lockedByAnother(filepath.Join(dir, "LOCK")); held || err != nil {
		t.Errorf("nobody holds it: %v, %v", held, err)
	}
}

// A store whose engine has lost its end, or everything, is told so: it is not a
// shorter one, nor a new one.
func TestWitness(t *testing.T) {
	key := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	for name, lose := range map[string]func(l *Log) error{
		"the end": func(l *Log) error {
			return errors.Join(l.db.Delete(commitKey(3), pebble.Sync), l.db.Delete(recordKey(1, 3), pebble.Sync))
		},
		"everything": func(l *Log) error { return l.db.DeleteRange([]byte{0}, []byte{0xff}, pebble.Sync) },
	} {
		fs := vfs.NewMem()
		l := fixtureOpen(t, Options{FS: fs})
		fill(t, l, key, 3)
		if err := lose(l); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := Open("store", Options{FS: fs})
		var e *eventlog.Error
		if !errors.Is(err, eventlog.ErrCorrupt) || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
		if name == "the end" {
			l, err := OpenReadOnly("store", Options{FS: fs})
			if err != nil {
				t.Fatal(err)
			}
			if got := kindsOf(faultsOf(t, l, eventlog.VerifyOptions{})); got != "log_is_short" {
				t.Errorf("verify: %s", got)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := fs.Remove("store/owner.json"); err != nil { // what the hint says
			t.Fatal(err)
		}
		l = fixtureOpen(t, Options{FS: fs})
		fill(t, l, key, 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
