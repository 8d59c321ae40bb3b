package pebblelog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/agstore/agstore/eventlog"
)

// Restore makes a store of a backup, in a directory that does not exist or is
// empty. Every file is checked against the backup's list. The store is a new
// incarnation: cursors of the old one are known to be of another life. Runs that
// were being written when the backup was made are closed as abandoned when the
// store is opened, whoever wrote them.
//
// The store's directory gets a file restored.json, which says of which backup it
// was made, when, why and for whom.
//
// A restore that fails or is killed leaves no directory of that name, or the
// empty one that was there.
func Restore(ctx context.Context, backup, dir string, why eventlog.RestoreOptions, opts Options) (eventlog.Backup, error) {
	opts = opts.withDefaults()
	m, err := restore(ctx, backup, dir, why, opts)
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

func restore(ctx context.Context, backup, dir string, why eventlog.RestoreOptions, opts Options) (m backupManifest, err error) {
	disk := opts.FS
	if err := checkNotes(why.Reason, why.Actor); err != nil {
		return m, &eventlog.Error{Op: restoring(backup), Err: err}
	}
	if m, err = readBackup(backup, disk); err != nil {
		return m, err
	}
	if dir == "" {
		return m, &eventlog.InvalidError{Reason: "the directory of the store is empty"}
	}
	if dir, err = path(dir, opts); err != nil { // without a slash at its end
		return m, err
	}
	if within, err := within(disk, dir, backup); err != nil {
		return m, err
	} else if within {
		return m, &eventlog.InvalidError{Reason: "a store is not made inside a backup, which would be none any more: " + dir}
	}
	toTarget := func(err error) error { return target(restoring(backup), dir, err) }
	empty, err := mayRestore(dir, opts)
	if err != nil || why.DryRun {
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
	err = newLifeIn(part, opts)
	if err == nil {
		err = noteRestore(part, backup, m.Backup, why, opts)
	}
	if err != nil {
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

// restoredFile, in the directory of a store that was made of a backup, says so.
// It is for people.
const restoredFile = "restored.json"

// restored is what restoredFile holds.
type restored struct {
	Time   time.Time       `json:"time"`
	Reason string          `json:"reason"`
	Actor  string          `json:"actor"`
	From   string          `json:"from"`   // where the backup was then
	Backup eventlog.Backup `json:"backup"` // as it describes itself
}

func noteRestore(dir, backup string, made eventlog.Backup, why eventlog.RestoreOptions, opts Options) error {
	from, err := path(backup, opts)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(restored{
		Time: opts.Now().UTC().Truncate(time.Second), Reason: why.Reason, Actor: why.Actor, From: from, Backup: made,
	}, "", " ")
	if err != nil {
		return err
	}
	return replaceFile(opts.FS, dir, restoredFile, append(text, '\n'))
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
