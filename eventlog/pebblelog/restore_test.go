package pebblelog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// A store inside a backup would make it none, a backup inside a store would be
// the engine's to remove: whatever the way there is called.
func TestPlacesInsideOneAnother(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	data, backup, link, outside := filepath.Join(dir, "d"), filepath.Join(dir, "b"), filepath.Join(dir, "link"), filepath.Join(dir, "..b")
	l, err := pebblelog.Open(data, pebblelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(data, link+"d"), os.Symlink(backup, link+"b")); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{filepath.Join(data, "x"), filepath.Join(data, "x", "y"), filepath.Join(link+"d", "x"), filepath.Join(data, "..", "d", "x")} {
		if _, err := l.Backup(ctx, place); !errors.Is(err, eventlog.ErrInvalid) {
			t.Errorf("back up to %s: %v, want %v", place, err, eventlog.ErrInvalid)
		}
	}
	if _, err := l.Backup(ctx, backup); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(backup)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{backup, link + "b"} {
		for _, place := range []string{filepath.Join(backup, "x"), filepath.Join(backup, "x", "y"), filepath.Join(link+"b", "x"), backup + "/../b/x"} {
			if _, err := pebblelog.Restore(ctx, from, place, eventlog.RestoreOptions{}, pebblelog.Options{}); !errors.Is(err, eventlog.ErrInvalid) {
				t.Errorf("restore %s to %s: %v, want %v", from, place, err, eventlog.ErrInvalid)
			}
		}
	}
	if after, err := os.ReadDir(backup); err != nil || len(after) != len(before) {
		t.Errorf("the backup afterwards: %v, %v; was %v", after, err, before)
	}
	// A name that only looks like the way out is none.
	if _, err := pebblelog.Restore(ctx, link+"b", outside, eventlog.RestoreOptions{}, pebblelog.Options{}); err != nil {
		t.Errorf("restore beside the backup: %v", err)
	}
}

// A restored store tells of each backup under which incarnation it was made.
func TestBackupsKeepTheirIncarnation(t *testing.T) {
	ctx := context.Background()
	opts := pebblelog.Options{FS: vfs.NewMem()}
	var want []string
	for n := range 3 {
		l, err := pebblelog.Open(fmt.Sprint("d", n), opts)
		if err != nil {
			t.Fatal(err)
		}
		made, err := l.Backup(ctx, fmt.Sprint("b", n))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, l.Incarnation())
		if made.Incarnation != l.Incarnation() {
			t.Errorf("backup %d was made of %s, not of %s", n, made.Incarnation, l.Incarnation())
		}
		list, err := l.Backups(ctx)
		if err != nil || len(list) != n+1 {
			t.Fatalf("backups %+v, %v", list, err)
		}
		for i, b := range list {
			if b.Incarnation != want[i] || b.Format != pebblelog.FormatVersion {
				t.Errorf("life %d: backup %d is of %s, format %d; want %s", n, i, b.Incarnation, b.Format, want[i])
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := pebblelog.Restore(ctx, fmt.Sprint("b", n), fmt.Sprint("d", n+1), eventlog.RestoreOptions{}, opts); err != nil {
			t.Fatal(err)
		}
	}
	if want[0] == want[1] || want[1] == want[2] {
		t.Errorf("incarnations %q", want)
	}
}

// Why a store was restored stays in its directory; what cannot be kept, and a dry
// run, make none.
func TestRestoreKeepsTheReason(t *testing.T) {
	ctx := context.Background()
	disk := vfs.NewMem()
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	opts := pebblelog.Options{FS: disk, Now: func() time.Time { return now }}
	l, err := pebblelog.Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	made, err := l.Backup(ctx, "b")
	if err != nil {
		t.Fatal(err)
	}
	for _, why := range []eventlog.RestoreOptions{{Reason: strings.Repeat("x", 1025)}, {Actor: "\xff"}, {DryRun: true}} {
		got, err := pebblelog.Restore(ctx, "b", "r", why, opts)
		if why.DryRun && (err != nil || got != made) {
			t.Errorf("dry run: %+v, %v", got, err)
		}
		if !why.DryRun && !errors.Is(err, eventlog.ErrTooLarge) && !errors.Is(err, eventlog.ErrInvalid) {
			t.Errorf("%+v: %v", why, err)
		}
		if _, err := disk.Stat("r"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: the directory: %v", why, err)
		}
	}
	if _, err := pebblelog.Restore(ctx, "b", "d", eventlog.RestoreOptions{DryRun: true}, opts); !errors.Is(err, eventlog.ErrInvalid) {
		t.Errorf("dry run over a store: %v, want %v", err, eventlog.ErrInvalid)
	}
	if _, err := pebblelog.Restore(ctx, "b", "r", eventlog.RestoreOptions{Reason: "disk <lost>", Actor: "ann"}, opts); err != nil {
		t.Fatal(err)
	}
	f, err := disk.Open("r/restored.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got struct {
		Time                time.Time
		Reason, Actor, From string
		Backup              eventlog.Backup
	}
	if err := json.NewDecoder(f).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !got.Time.Equal(now) || got.Reason != "disk <lost>" || got.Actor != "ann" || got.From != "b" || got.Backup != made {
		t.Errorf("restored.json has %+v; the backup is %+v", got, made)
	}
}
