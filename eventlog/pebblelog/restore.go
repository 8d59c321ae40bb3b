package pebblelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

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
	if err != nil {
		if isNoSpace(err) {
			err = fmt.Errorf("%w: %w", eventlog.ErrNoSpace, err)
		}
		return eventlog.Backup{}, &eventlog.Error{Op: "restore the backup in " + backup, Err: damage(err), Hint: "nothing was left in " + dir}
	}
	return m.Backup, nil
}

func restore(ctx context.Context, backup, dir string, opts Options) (m backupManifest, err error) {
	disk := opts.FS
	if m, err = readBackup(backup, disk); err != nil {
		return m, err
	}
	if err := mayRestore(dir, opts); err != nil {
		return m, err
	}
	part := dir + partSuffix
	if err := disk.RemoveAll(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	defer func() {
		if err != nil {
			_ = disk.RemoveAll(part)
		}
	}()
	if err := disk.MkdirAll(part, 0o700); err != nil {
		return m, err
	}
	for _, e := range m.List {
		size, digest, err := copyFile(ctx, disk, disk.PathJoin(backup, e.Name), disk.PathJoin(part, e.Name))
		if err != nil {
			return m, err
		}
		if size != e.Bytes || digest != e.SHA256 {
			return m, fmt.Errorf("%w: %s is not the file that was backed up", eventlog.ErrCorrupt, e.Name)
		}
	}
	if err := newLifeIn(part, opts); err != nil {
		return m, err
	}
	if err := disk.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	return m, publishDir(disk, part, dir)
}

// mayRestore refuses a directory that holds anything.
func mayRestore(dir string, opts Options) error {
	names, err := opts.FS.List(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(names) > 0:
		return &eventlog.InvalidError{Reason: dir + " is not empty; a restore makes a new directory"}
	}
	return nil
}

// newLifeIn makes the copy of a store another store: it mints an incarnation,
// and what was leased is nobody's.
func newLifeIn(dir string, opts Options) (err error) {
	lock, err := acquireLock(dir, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	l := newLog(dir, opts, lock)
	if err := l.openEngine(false); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.shutEngine()) }()
	if err := l.identify(); err != nil {
		return err
	}
	if err := l.mintIncarnation(); err != nil {
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
	return l.writeNow(b)
}
