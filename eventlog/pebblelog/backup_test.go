package pebblelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// A backup that is made while the log is written has all that was acknowledged
// before, is a store of another incarnation once it is restored, and changes
// nothing in the log it was made of.
func TestBackupWhileWriting(t *testing.T) {
	ctx := context.Background()
	disk := vfs.NewMem()
	opts := pebblelog.Options{FS: disk}
	l, err := pebblelog.Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	h := newHistory()
	writing, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() { work(writing, l, h, uint64(g), fmt.Sprint("g", g)) })
	}
	for n := range 3 {
		if _, err := l.Wait(ctx, l.Watermark()+50); err != nil {
			t.Fatal(err)
		}
		known, mark := h.copy(), l.Watermark()
		dir := fmt.Sprint("backup", n)
		b, err := l.Backup(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		if b.Position < mark || b.Incarnation != l.Incarnation() || b.Files == 0 || b.Bytes == 0 {
			t.Errorf("backup %+v of incarnation %s at position %d", b, l.Incarnation(), mark)
		}
		if got, err := pebblelog.ReadBackup(dir, opts); err != nil || got != b {
			t.Errorf("read: %+v, %v; want %+v", got, err, b)
		}
		restored(t, opts, dir, fmt.Sprint("restored", n), l.Incarnation(), known)
	}
	stop()
	wg.Wait()
	made, err := l.Backups(ctx)
	if err != nil || len(made) != 3 || made[0].Dir != "backup0" || made[2].Dir != "backup2" {
		t.Errorf("backups %+v, %v", made, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = pebblelog.Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	verify(t, l, h)
	if again, err := l.Backups(ctx); err != nil || fmt.Sprint(again) != fmt.Sprint(made) {
		t.Errorf("after reopening: backups %+v, %v", again, err)
	}
}

// restored restores a backup and checks what it has.
func restored(t *testing.T, opts pebblelog.Options, backup, dir, source string, known *told) {
	t.Helper()
	if _, err := pebblelog.Restore(context.Background(), backup, dir, eventlog.RestoreOptions{}, opts); err != nil {
		t.Fatal(err)
	}
	l, err := pebblelog.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Incarnation() == source {
		t.Error("the restored store has the incarnation of its source")
	}
	verify(t, l, known)
}

// A run that was being written when the backup was made is closed in the
// restored store, and goes on in the other.
func TestRestoreClosesRuns(t *testing.T) {
	ctx := context.Background()
	opts := pebblelog.Options{FS: vfs.NewMem()}
	l, err := pebblelog.Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	w, err := l.BeginRun(ctx, k, eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","runId":"r"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Backup(ctx, "backup"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(ctx, []byte(`{"type":"CUSTOM","name":"later"}`)); err != nil {
		t.Error(err)
	}
	if _, err := pebblelog.Restore(ctx, "backup", "restored", eventlog.RestoreOptions{}, opts); err != nil {
		t.Fatal(err)
	}
	other, err := pebblelog.Open("restored", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	runs, err := other.Runs(ctx, k)
	if err != nil || len(runs) != 1 || runs[0].Status != agui.RunAbandoned || runs[0].Held {
		t.Errorf("runs %+v, %v", runs, err)
	}
	th, err := l.Thread(ctx, k)
	if err != nil || th.LastSeq != 2 {
		t.Errorf("the source: %+v, %v", th, err)
	}
}

// cutAll takes what a crash would leave before every write of a file system
// while it is on.
type cutAll struct {
	on      atomic.Bool
	mu      sync.Mutex
	mem     *vfs.MemFS
	percent int
	rng     *rand.Rand
	left    []*vfs.MemFS
}

func (c *cutAll) String() string { return "cuts" }

func (c *cutAll) MaybeError(op errorfs.Op) error {
	if c.on.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.left = append(c.left, c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.percent, RNG: c.rng}))
	}
	return nil
}

// Killed at any moment, a backup and a restore are there as a whole or not at
// all, can be repeated, and the log has everything.
func TestBackupAndRestoreKilled(t *testing.T) {
	for _, percent := range []int{0, 50, 100} {
		t.Run(fmt.Sprint("Unsynced", percent), func(t *testing.T) {
			ctx := context.Background()
			mem := vfs.NewCrashableMem()
			cuts := &cutAll{mem: mem, percent: percent, rng: rand.New(rand.NewPCG(1, uint64(percent)))}
			opts := pebblelog.Options{FS: errorfs.Wrap(mem, cuts)}
			l, err := pebblelog.Open("d", opts)
			if err != nil {
				t.Fatal(err)
			}
			h := newHistory()
			k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
			for n := range 5 {
				events := [][]byte{fmt.Appendf(nil, `{"type":"CUSTOM","value":%d}`, n)}
				done, err := l.Append(ctx, k, eventlog.Batch{Events: events})
				if err != nil {
					t.Fatal(err)
				}
				h.note(k, done, events, "")
			}
			cuts.on.Store(true)
			if _, err := l.Backup(ctx, "backup"); err != nil {
				t.Fatal(err)
			}
			made := len(cuts.left)
			if _, err := pebblelog.Restore(ctx, "backup", "restored", eventlog.RestoreOptions{}, opts); err != nil {
				t.Fatal(err)
			}
			cuts.on.Store(false)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if made < 10 || len(cuts.left) < made+10 {
				t.Fatalf("%d moments, %d of them of the backup", len(cuts.left), made)
			}
			for i, disk := range cuts.left {
				if percent != 50 && i%3 != 0 || testing.Short() && i%7 != 0 {
					continue
				}
				left := pebblelog.Options{FS: disk}
				_, err := pebblelog.ReadBackup("backup", left)
				if i >= made && err != nil {
					t.Fatalf("moment %d: the backup was complete: %v", i, err)
				}
				l, e := pebblelog.Open("d", left)
				if e != nil {
					t.Fatalf("moment %d: %v", i, e)
				}
				verify(t, l, h)
				if err != nil {
					if !errors.Is(err, eventlog.ErrNotFound) {
						t.Errorf("moment %d: %v", i, err)
					}
					if _, err := l.Backup(ctx, "backup"); err != nil {
						t.Errorf("moment %d, again: %v", i, err)
					}
				}
				names, err := disk.List("restored")
				if errors.Is(err, fs.ErrNotExist) {
					restored(t, left, "backup", "restored", l.Incarnation(), h)
				} else if other, e := pebblelog.Open("restored", left); e != nil {
					t.Errorf("moment %d: a store with %q: %v", i, names, e)
				} else {
					verify(t, other, h)
					if other.Incarnation() == l.Incarnation() {
						t.Errorf("moment %d: the restored store is its source", i)
					}
					other.Close()
				}
				l.Close()
				if t.Failed() {
					t.Fatalf("moment %d of %d (%d of the backup)", i, len(cuts.left), made)
				}
			}
		})
	}
}

// Any file of a backup that is not what it was is told, and nothing is left.
func TestRestoreChecksFiles(t *testing.T) {
	ctx := context.Background()
	disk := vfs.NewMem()
	opts := pebblelog.Options{FS: disk}
	l, err := pebblelog.Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(ctx, eventlog.ThreadKey{Scope: "s", Thread: "t"}, eventlog.Batch{Events: [][]byte{[]byte(`{"type":"CUSTOM"}`)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Backup(ctx, "backup"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := disk.List("backup")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name == "backup.json" {
			continue
		}
		path := disk.PathJoin("backup", name)
		whole := contents(t, disk, path)
		for what, bad := range map[string][]byte{"longer": append(append([]byte(nil), whole...), 0), "other": flipped(whole)} {
			put(t, disk, path, bad)
			_, err := pebblelog.Restore(ctx, "backup", "restored", eventlog.RestoreOptions{}, opts)
			if !errors.Is(err, eventlog.ErrCorrupt) {
				t.Errorf("%s of %s: %v", what, name, err)
			}
			if _, err := disk.Stat("restored"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s of %s: something was left: %v", what, name, err)
			}
		}
		if err := disk.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := pebblelog.Restore(ctx, "backup", "restored", eventlog.RestoreOptions{}, opts); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without %s: %v", name, err)
		}
		put(t, disk, path, whole)
	}
	if _, err := pebblelog.Restore(ctx, "backup", "restored", eventlog.RestoreOptions{}, opts); err != nil {
		t.Errorf("the whole backup: %v", err)
	}
}

func flipped(b []byte) []byte {
	if len(b) == 0 {
		return []byte{1}
	}
	out := append([]byte(nil), b...)
	out[len(out)/2] ^= 1
	return out
}

func contents(t *testing.T, disk vfs.FS, path string) []byte {
	t.Helper()
	f, err := disk.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, disk vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	// A copy: with -race a file system in memory spoils what it was given.
	if _, err := f.Write(bytes.Clone(b)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// What cannot be a backup or its place is refused, and changes nothing.
func TestBackupRefusals(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	l, err := pebblelog.Open(data, pebblelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	backup := filepath.Join(dir, "backup")
	for _, test := range []struct {
		name, dir string
		ctx       context.Context
		want      error
	}{
		{"NoDirectory", "", ctx, eventlog.ErrInvalid},
		{"Exists", dir, ctx, eventlog.ErrInvalid},
		{"TheStore", data, ctx, eventlog.ErrInvalid},
		{"InsideTheStore", filepath.Join(data, "backup"), ctx, eventlog.ErrInvalid},
		{"Cancelled", backup, gone, context.Canceled},
		{"ParentIsAFile", filepath.Join(data, "owner.json", "x"), ctx, eventlog.ErrInvalid},
	} {
		if _, err := l.Backup(test.ctx, test.dir); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	if made, err := l.Backups(ctx); err != nil || len(made) != 0 {
		t.Errorf("backups %+v, %v", made, err)
	}
	if _, err := l.Backup(ctx, backup); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Backup(ctx, backup+"2"); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("a closed log: %v", err)
	}
	for _, test := range []struct {
		name, backup, dir string
		want              error
	}{
		{"NoBackup", data, filepath.Join(dir, "new"), eventlog.ErrNotFound},
		{"Nothing", filepath.Join(dir, "nothing"), filepath.Join(dir, "new"), eventlog.ErrNotFound},
		{"OverAStore", backup, data, eventlog.ErrInvalid},
	} {
		if _, err := pebblelog.Restore(ctx, test.backup, test.dir, eventlog.RestoreOptions{}, pebblelog.Options{}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	if _, err := pebblelog.Restore(gone, backup, filepath.Join(dir, "new"), eventlog.RestoreOptions{}, pebblelog.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled restore: %v", err)
	}
}
