package pebblelog_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// watchFS tells of what is done to the directories of a backup, or refuses it.
type watchFS struct {
	vfs.FS
	removing func(name string)
	making   func(name string) error
	renaming func(oldname string) error
}

func (w *watchFS) RemoveAll(name string) error {
	if w.removing != nil {
		w.removing(name)
	}
	return w.FS.RemoveAll(name)
}

func (w *watchFS) MkdirAll(name string, mode os.FileMode) error {
	if w.making != nil {
		if err := w.making(name); err != nil {
			return err
		}
	}
	return w.FS.MkdirAll(name, mode)
}

func (w *watchFS) Rename(oldname, newname string) error {
	if w.renaming != nil {
		if err := w.renaming(oldname); err != nil {
			return err
		}
	}
	return w.FS.Rename(oldname, newname)
}

// What is written after a backup was begun and before it was taken is in it, and
// a receipt says so; what is written after it is not, also in a store that was
// made of it.
func TestReceiptsKnowBackupsUnderWay(t *testing.T) {
	ctx := context.Background()
	disk := &watchFS{FS: vfs.NewMem()}
	opts := pebblelog.Options{FS: disk}
	l, err := pebblelog.Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	write := func(l *pebblelog.Log, thread string) {
		t.Helper()
		batch := eventlog.Batch{Events: [][]byte{[]byte(`{"type":"CUSTOM","name":"n","value":1}`)}}
		if _, err := l.Append(ctx, eventlog.ThreadKey{Scope: "s", Thread: thread}, batch); err != nil {
			t.Fatal(err)
		}
	}
	holders := func(l *pebblelog.Log, thread string) []string {
		t.Helper()
		r, err := l.Erase(ctx, eventlog.ThreadKey{Scope: "s", Thread: thread}, eventlog.RemoveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Holders
	}
	disk.removing = func(name string) {
		if strings.HasPrefix(name, "b") {
			write(l, "meanwhile")
		}
	}
	if _, err := l.Backup(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	disk.removing = nil
	write(l, "later")
	if got := holders(l, "meanwhile"); len(got) != 1 {
		t.Errorf("what was written while the backup was made is held by %q", got)
	}
	if got := holders(l, "later"); len(got) != 0 {
		t.Errorf("what was written after the backup is held by %q", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := pebblelog.Restore(ctx, "b", "r", eventlog.RestoreOptions{}, opts); err != nil {
		t.Fatal(err)
	}
	if l, err = pebblelog.Open("r", opts); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	write(l, "new")
	if got := holders(l, "meanwhile"); len(got) != 1 {
		t.Errorf("restored: what the backup brought is held by %q", got)
	}
	if got := holders(l, "new"); len(got) != 0 {
		t.Errorf("restored: what was written since is held by %q", got)
	}
}

// A fault of the place where a backup is to be is said to be one of that place,
// and not of the store, which goes on.
func TestBackupPlaceFails(t *testing.T) {
	ctx := context.Background()
	for _, test := range []struct {
		cause error
		want  error
	}{
		{syscall.ENOSPC, eventlog.ErrNoSpace},
		{syscall.EROFS, eventlog.ErrUnavailable},
		{syscall.EACCES, eventlog.ErrUnavailable},
		{syscall.ENOENT, eventlog.ErrInvalid},
		{syscall.ENOTDIR, eventlog.ErrInvalid},
	} {
		for _, where := range []string{"there", filepath.Join("there", "b.agstore-part")} {
			disk := &watchFS{FS: vfs.NewMem()}
			l, err := pebblelog.Open("store", pebblelog.Options{FS: disk})
			if err != nil {
				t.Fatal(err)
			}
			disk.making = func(name string) error {
				if name == where {
					return &fs.PathError{Op: "mkdir", Path: name, Err: test.cause}
				}
				return nil
			}
			_, err = l.Backup(ctx, filepath.Join("there", "b"))
			var e *eventlog.Error
			if where != "there" && errors.Is(test.want, eventlog.ErrInvalid) {
				// Nobody removes it under the backup.
			} else if !errors.Is(err, test.want) || errors.Is(err, eventlog.ErrCorrupt) || !errors.As(err, &e) {
				t.Errorf("%v of %s: %v, want %v", test.cause, where, err, test.want)
			} else if said := err.Error() + e.Hint; !strings.Contains(said, "there") || strings.Contains(said, "store that") || strings.Contains(e.Hint, "holds store") {
				t.Errorf("%v of %s: %q, hint %q", test.cause, where, err, e.Hint)
			}
			if made, err := l.Backups(ctx); err != nil || len(made) != 0 {
				t.Errorf("%v of %s: backups %+v, %v", test.cause, where, made, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Two backups in one directory at once would be one of both.
func TestBackupTwiceAtOnce(t *testing.T) {
	ctx := context.Background()
	disk := &watchFS{FS: vfs.NewMem()}
	l, err := pebblelog.Open("d", pebblelog.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var second error
	disk.removing = func(string) {
		disk.removing = nil
		_, second = l.Backup(ctx, "b")
	}
	if _, err := l.Backup(ctx, "b"); err != nil {
		t.Errorf("the first: %v", err)
	}
	if !errors.Is(second, eventlog.ErrInvalid) {
		t.Errorf("the second: %v, want %v", second, eventlog.ErrInvalid)
	}
	if made, err := l.Backups(ctx); err != nil || len(made) != 1 {
		t.Errorf("backups %+v, %v", made, err)
	}
}

// However the directory is written, and whether it is there or not.
func TestRestorePlace(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	l, err := pebblelog.Open(filepath.Join(dir, "d"), pebblelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(dir, "b")
	if _, err := l.Backup(ctx, backup); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(dir, "new") + string(filepath.Separator)
	for _, there := range []bool{false, true} {
		if there {
			if err := os.Mkdir(place, 0o750); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := pebblelog.Restore(ctx, backup, place, eventlog.RestoreOptions{}, pebblelog.Options{}); err != nil {
			t.Fatalf("there %v: %v", there, err)
		}
		if l, err = pebblelog.Open(place, pebblelog.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(place); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	mounted := &watchFS{FS: vfs.Default, renaming: func(name string) error {
		return &os.LinkError{Op: "rename", Old: name, Err: syscall.EBUSY}
	}}
	if _, err := pebblelog.Restore(ctx, backup, filepath.Clean(place), eventlog.RestoreOptions{}, pebblelog.Options{FS: mounted}); !errors.Is(err, eventlog.ErrInvalid) {
		t.Errorf("to a mount point: %v, want %v", err, eventlog.ErrInvalid)
	}
	if names, err := os.ReadDir(place); err != nil || len(names) != 0 {
		t.Errorf("left in the mount point: %v, %v", names, err)
	}
}

// A directory is a store also when it has lost its owner file, which an operator
// may be told to remove; a backup is none, and is not written to.
func TestExists(t *testing.T) {
	dir := t.TempDir()
	data, backup := filepath.Join(dir, "d"), filepath.Join(dir, "b")
	exists := func(dir string, want bool) {
		t.Helper()
		if got, err := pebblelog.Exists(dir); err != nil || got != want {
			t.Errorf("%s exists: %v, %v; want %v", filepath.Base(dir), got, err, want)
		}
	}
	exists(data, false)
	l, err := pebblelog.Open(data, pebblelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Backup(context.Background(), backup); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	exists(data, true)
	if err := os.Remove(filepath.Join(data, "owner.json")); err != nil {
		t.Fatal(err)
	}
	exists(data, true)
	exists(backup, false)
	before, err := os.ReadDir(backup)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pebblelog.Open(backup, pebblelog.Options{}); !errors.Is(err, eventlog.ErrInvalid) {
		t.Errorf("open a backup to write: %v, want %v", err, eventlog.ErrInvalid)
	}
	if after, err := os.ReadDir(backup); err != nil || len(after) != len(before) {
		t.Errorf("the backup after it: %v, %v; was %v", after, err, before)
	}
}

// A table that is not as long as it was is damage, and so is a store without the
// marker of its MANIFEST, however it is opened.
func TestFilesOfAnotherSize(t *testing.T) {
	ctx := context.Background()
	for name, spoil := range map[string]func(disk vfs.FS, path string) error{
		".sst": func(disk vfs.FS, path string) error {
			f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
			if err != nil {
				return err
			}
			return f.Close()
		},
		"marker.manifest.": func(disk vfs.FS, path string) error { return disk.Remove(path) },
	} {
		disk := vfs.NewMem()
		opts := pebblelog.Options{FS: disk}
		l, err := pebblelog.Open("d", opts)
		if err != nil {
			t.Fatal(err)
		}
		batch := eventlog.Batch{Events: [][]byte{[]byte(`{"type":"CUSTOM","name":"n","value":1}`)}}
		if _, err := l.Append(ctx, eventlog.ThreadKey{Scope: "s", Thread: "t"}, batch); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		names, err := disk.List("d")
		if err != nil {
			t.Fatal(err)
		}
		spoiled := false
		for _, file := range names {
			if strings.Contains(file, name) {
				spoiled = true
				if err := spoil(disk, disk.PathJoin("d", file)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !spoiled {
			t.Fatalf("no %s among %v", name, names)
		}
		for _, open := range []func(string, pebblelog.Options) (*pebblelog.Log, error){pebblelog.Open, pebblelog.OpenReadOnly} {
			if l, err := open("d", opts); !errors.Is(err, eventlog.ErrCorrupt) {
				t.Errorf("%s: %v, want %v", name, err, eventlog.ErrCorrupt)
				if err == nil {
					l.Close()
				}
			}
		}
	}
}
