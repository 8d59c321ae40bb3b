package agstore

import (
	"context"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// backups is what a log offers that keeps its data in files.
type backups interface {
	Backup(ctx context.Context, dir string) (eventlog.Backup, error)
	Backups(ctx context.Context) ([]eventlog.Backup, error)
}

// Backup makes a copy of the whole store, of all scopes, in a directory that
// does not exist yet, while the store is written. All that was acknowledged when
// it was called is in it. A backup that fails leaves nothing there.
//
// Whoever has a backup has everything that was in the store then, also what is
// erased later: [Store.Backups] lists where they were made.
func (s *Store) Backup(ctx context.Context, dir string) (eventlog.Backup, error) {
	return s.backups.Backup(ctx, dir)
}

// Backups lists the backups that were made of the store, the oldest first,
// whether they still exist or not. Their files are not counted.
func (s *Store) Backups(ctx context.Context) ([]eventlog.Backup, error) {
	return s.backups.Backups(ctx)
}

// ReadBackup describes the backup in a directory; ErrNotFound if there is none.
func ReadBackup(dir string) (eventlog.Backup, error) {
	return pebblelog.ReadBackup(dir, pebblelog.Options{})
}

// Restore makes a store of a backup, in a directory that does not exist or is
// empty: all of it, or nothing. It checks every file. The store is another
// incarnation than the one it was made of, so that cursors of that are known to
// be of another life; runs that were being written are closed when it is opened.
// dir does not lie inside the backup. The file restored.json in it says of which
// backup it was made, when, and why.
func Restore(ctx context.Context, backup, dir string, why eventlog.RestoreOptions) (eventlog.Backup, error) {
	return pebblelog.Restore(ctx, backup, dir, why, pebblelog.Options{})
}
