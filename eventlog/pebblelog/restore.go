package pebblelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/agstore/agstore/eventlog"
)

// Restore makes a store of a backup, in a directory that does not exist or is
// empty. Every file is checked against the backup's list. The store is a new
// incarnation: cursors of the old one are known to be of another life. Runs that
// were being written when the backup was made are closed as abandoned when the
// store is opened, whoever wrote them.
//
// A restore that fails or is killed leaves no directory of that name, or the
// empty one that was there.
func Restore(ctx context.Context, backup, dir string, opts Options) (eventlog.Backup, error) {
	opts = opts.withDefaults()
	m, err := restore(ctx, backup, dir, opts)
	if err == nil {
		return m.Backup, nil
	}
	var placed *eventlog.Error
	if errors.As(err, &placed) {
		return eventlog.Backup{}, err
	}
	e := &eventlog.Error{Op: restoring(backup), Err: damage(err), Hint: "nothing was left in " + dir}
	if errors.Is(err, eventlog.ErrInvalid) {
		e.Hint = "name a new directory"
	}
	return eventlog.Backup{}, e
}

func restoring(backup string) string { return "restore the backup in " + backup }

func restore(ctx context.Context, backup, dir string, opts Options) (m backupManifest, err error) {
	disk := opts.FS
	if m, err = readBackup(backup, disk); err != nil {
		return m, err
	}
	if dir == "" {
		return m, &eventlog.InvalidError{Reason: "the directory of the store is empty"}
	}
	if dir, err = path(dir, opts); err != nil { // without a slash at its end
		return m, err
	}
	toTarget := func(err error) error { return target(restoring(backup), dir, err) }
	empty, err := mayRestore(dir, opts)
	if err != nil {
		return m, err
	}
	part := dir + partSuffix
	if err := disk.RemoveAll(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, toTarget(err)
	}
	if empty {
		if err := disk.Rename(dir, part); errors.Is(err, syscall.EBUSY) {
			return m, &eventlog.InvalidError{Reason: dir + " is in use, perhaps a mount point; restore to a new directory in it"}
		} else if err != nil {
			return m, toTarget(err)
		}
	}
	defer func() {
		if err == nil {
			return
		}
		_ = disk.RemoveAll(part)
		if empty {
			_ = disk.MkdirAll(dir, 0o700)
		}
	}()
	if err := disk.MkdirAll(part, 0o700); err != nil {
		return m, toTarget(err)
	}
	for _, e := range m.List {
		size, digest, err := copyFile(ctx, disk, disk.PathJoin(backup, e.Name), disk.PathJoin(part, e.Name))
		if onTarget(err) {
			err = toTarget(err)
		}
		if err != nil {
			return m, err
		}
		if size != e.Bytes || digest != e.SHA256 {
			return m, fmt.Errorf("%w: %s is not the file that was backed up", eventlog.ErrCorrupt, e.Name)
		}
	}
	if err := newLifeIn(part, opts); err != nil {
		if onTarget(err) {
			err = toTarget(err)
		}
		return m, err
	}
	if err := publishDir(disk, part, dir); err != nil {
		return m, toTarget(err)
	}
	return m, nil
}

// mayRestore refuses a directory that holds anything, and says whether there is
// an empty one.
func mayRestore(dir string, opts Options) (empty bool, err error) {
	names, err := opts.FS.List(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case len(names) > 0:
		return false, &eventlog.InvalidError{Reason: dir + " is not empty; a restore makes a new directory"}
	}
	return true, nil
}

// newLifeIn makes the copy of a store another store: it mints an incarnation,
// and what was leased is nobody's.
func newLifeIn(dir string, opts Options) (err error) {
	lock, err := acquireLock(dir, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := announce(dir, opts); err != nil {
		return err
	}
	l := newLog(dir, opts, lock)
	if err := l.openEngine(false); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.shutEngine()) }()
	if err := l.identify(); err != nil {
		return err
	}
	l.gate.letGo()
	if err := l.mintIncarnation(); err != nil {
		return err
	}
	if err := l.latest(); err != nil {
		return err
	}
	b := l.db.NewBatch()
	if err := b.Set(storeKey(), l.enc.store(l.meta), nil); err != nil {
		return err
	}
	if err := l.scan([]byte{prefixLease}, func(key, _ []byte) error {
		return b.Set(key, l.enc.lease(leaseRow{}), nil)
	}); err != nil {
		return err
	}
	// What is written from here on is in none of the backups.
	if err := l.scan(backupPrefix(), func(key, value []byte) error {
		row, err := l.dec.backup(value)
		if err != nil {
			return err
		}
		row.upTo = min(row.upTo, l.position)
		return b.Set(key, l.enc.backup(row), nil)
	}); err != nil {
		return err
	}
	return l.writeNow(b)
}
