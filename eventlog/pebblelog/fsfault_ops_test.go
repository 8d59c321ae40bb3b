package pebblelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// Operations of the sweep beyond appends, and what must hold after each.

func mark(ctx context.Context, l *pebblelog.Log) error {
	_, err := l.Append(ctx, threadKey("marked"), eventlog.Batch{Events: say("r", marker), Key: "key"})
	return err
}

func lend(ctx context.Context, l *pebblelog.Log) error {
	start := startOf("r")
	start.Holder.TTL = time.Hour
	_, err := l.BeginRun(ctx, threadKey("leased"), start)
	return err
}

func accompany(ctx context.Context, l *pebblelog.Log) error {
	_, err := l.AppendCompanion(ctx, threadKey("old"), eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "note", Body: []byte("0")}}})
	return err
}

// A removal of the thread "marked".
func sweepRemoval(name string) faultOperation {
	remove := removals[name]
	return faultOperation{
		name: name,
		do: func(ctx context.Context, s *swept) error {
			receipt, err := remove(ctx, s.log)
			if err != nil {
				return err
			}
			s.removed = true
			if receipt.Gone.IsZero() {
				s.t.Errorf("removed, and not gone: %+v", receipt)
			}
			if found := holding(s.t, s.mem, "d"); len(found) > 0 {
				s.t.Errorf("removed, and the content is in %q", found)
			}
			return nil
		},
		check: func(t *testing.T, s *swept, l *pebblelog.Log, disk *vfs.MemFS) {
			begun := removalBegun(t, l, name)
			if s.removed && !begun {
				t.Error("the removal that was acknowledged is not there")
			}
			if disk == s.mem && (!s.again || begun && name == "Clear") {
				return // what is left of it is finished by the next open
			}
			if !begun || name != "Clear" {
				receipt, err := remove(t.Context(), l)
				if err != nil || receipt.Gone.IsZero() {
					t.Errorf("once more: %+v, %v", receipt, err)
				}
				s.removed = true
			}
			if found := holding(t, disk, "d"); len(found) > 0 {
				t.Errorf("the content is in %q", found)
			}
			for r, err := range l.Receipts(t.Context(), "s", "marked") {
				if err != nil || r.Number != 1 || r.Gone.IsZero() {
					t.Errorf("receipt %+v, %v", r, err)
				}
			}
		},
	}
}

// removalBegun reads the thread "marked": all of the content is seen, or none.
func removalBegun(t *testing.T, l *pebblelog.Log, name string) bool {
	t.Helper()
	all, marked := 0, 0
	for _, event := range say("r", marker) {
		if bytes.Contains(event, []byte(marker)) {
			all++
		}
	}
	var failed error
	for r, err := range l.Read(t.Context(), threadKey("marked"), eventlog.ReadOptions{}) {
		if failed = err; err != nil {
			break
		}
		if bytes.Contains(r.Event, []byte(marker)) {
			marked++
		}
	}
	if failed != nil && !(name == "Erase" && errors.Is(failed, eventlog.ErrErased)) || marked != 0 && marked != all {
		t.Errorf("%d of %d records with the content, %v", marked, all, failed)
	}
	return marked == 0
}

// Leases: a run of another process is taken, renewed and written.
func sweepLeases(ctx context.Context, s *swept) error {
	w, err := s.log.TakeRun(ctx, threadKey("leased"), agui.RunKey{ID: "r", Attempt: 1}, eventlog.Holder{Owner: "me", TTL: time.Hour})
	if err != nil {
		return err
	}
	s.lease = w.Lease()
	s.ahead.Add(int64(2 * time.Hour / 3)) // so that a renewal is written
	lease, renewErr := w.Renew(ctx)
	if renewErr == nil {
		s.lease = lease
	}
	other, attachErr := s.log.Attach(ctx, s.lease)
	var appendErr error
	if attachErr == nil {
		var done eventlog.Appended
		done, appendErr = other.Append(ctx, numbered(1))
		appendErr = s.note("leased", done, appendErr)
	}
	return errors.Join(renewErr, attachErr, appendErr)
}

func checkLease(t *testing.T, s *swept, l *pebblelog.Log, _ *vfs.MemFS) {
	if s.lease.Epoch == 0 {
		return
	}
	w, err := l.Attach(t.Context(), s.lease)
	if err != nil {
		t.Errorf("the lease that was given: %v", err)
		return
	}
	if got := w.Lease(); got.Expires.Before(s.lease.Expires) {
		t.Errorf("the lease was to last until %v, and ends at %v", s.lease.Expires, got.Expires)
	}
	if _, err := w.Renew(t.Context()); err != nil {
		t.Errorf("renew: %v", err)
	}
}

func sweepCompanion(ctx context.Context, s *swept) error {
	for n := range 3 {
		done, err := s.log.AppendCompanion(ctx, threadKey("old"), eventlog.CompanionBatch{
			Entries: []eventlog.Entry{{Kind: "note", Body: fmt.Append(nil, n)}, {Kind: "note"}}, Key: fmt.Sprint("c", n),
		})
		if err != nil {
			return err
		}
		s.companion = done.Last
	}
	return nil
}

func checkCompanion(t *testing.T, s *swept, l *pebblelog.Log, _ *vfs.MemFS) {
	last := uint64(0)
	for e, err := range l.Companion(t.Context(), threadKey("old"), 0, 0) {
		if last++; err != nil || e.Seq != last {
			t.Fatalf("entry %d: %+v, %v", last, e, err)
		}
	}
	if last < s.companion {
		t.Errorf("entry %d was acknowledged, and %d are there", s.companion, last)
	}
}

func sweepBackup(ctx context.Context, s *swept) error {
	_, err := s.log.Backup(ctx, "backup")
	s.copied = err == nil
	return err
}

// checkBackup: a backup is there as a whole and known to the log, or not at all.
func checkBackup(t *testing.T, s *swept, l *pebblelog.Log, disk *vfs.MemFS) {
	if !isThere(t, disk, "backup") {
		if s.copied && disk == s.mem {
			t.Error("the backup that was made is not there")
		}
		if _, err := l.Backup(t.Context(), "backup"); err != nil {
			t.Fatalf("back up again: %v", err)
		}
	}
	known, name := false, fmt.Sprintf("copy-%v", disk == s.mem)
	made, err := l.Backups(t.Context())
	for _, b := range made {
		known = known || b.Dir == "backup"
	}
	if err != nil || !known {
		t.Errorf("a backup is there that the log does not know: %+v, %v", made, err)
	}
	if _, err := pebblelog.Restore(t.Context(), "backup", name, eventlog.RestoreOptions{}, pebblelog.Options{FS: disk}); err != nil {
		t.Fatalf("the backup is not whole: %v", err)
	}
	s.whole(t, disk, name)
}

func sweepRestore(ctx context.Context, s *swept) error {
	_, err := pebblelog.Restore(ctx, "before", "copy", eventlog.RestoreOptions{}, s.opts)
	s.copied = err == nil
	return err
}

// checkRestore: the restored store is there as a whole, or not at all.
func checkRestore(t *testing.T, s *swept, _ *pebblelog.Log, disk *vfs.MemFS) {
	if !isThere(t, disk, "copy") {
		if s.copied {
			t.Error("the store that was restored is not there")
		}
		if _, err := pebblelog.Restore(t.Context(), "before", "copy", eventlog.RestoreOptions{}, pebblelog.Options{FS: disk}); err != nil {
			t.Fatalf("restore again: %v", err)
		}
	}
	s.whole(t, disk, "copy")
}

func isThere(t *testing.T, disk vfs.FS, dir string) bool {
	t.Helper()
	_, err := disk.Stat(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// whole opens a copy of the store and looks for what was there in the beginning.
func (s *swept) whole(t *testing.T, disk vfs.FS, dir string) {
	t.Helper()
	l, err := pebblelog.Open(dir, pebblelog.Options{FS: disk})
	if err != nil {
		t.Fatalf("open the copy: %v", err)
	}
	copied := &swept{acked: sweepAcked()}
	copied.there(t, l)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
