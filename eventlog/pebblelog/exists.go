package pebblelog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

// Exists reports whether a store was made in dir. It changes nothing, and the
// store may be in use. A store that has lost a file is one; a backup is none.
func Exists(dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, ownerFile)); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			err = nil
		}
		return false, err
	}
	store := false
	for _, name := range names {
		if name.Name() == backupFile {
			return false, nil
		}
		store = store || strings.HasPrefix(name.Name(), markerPrefix+"manifest.")
	}
	return store, nil
}

// noBackup refuses to write a backup, which would be none any more.
func noBackup(dir string, disk vfs.FS) error {
	if _, err := disk.Stat(disk.PathJoin(dir, backupFile)); err == nil {
		return &eventlog.InvalidError{Reason: dir + " holds a backup; agstore restore makes a store of it"}
	}
	return nil
}
