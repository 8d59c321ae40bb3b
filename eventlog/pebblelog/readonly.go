package pebblelog

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

const hintReadOnly = "the store was opened to be read only; open it for writing where its directory can be written"

// OpenReadOnly opens a store that nobody holds, to read it. It writes nothing:
// not to the directory, nor does it close the runs of a process that died, which
// are seen as they were left; and a store of an older format stays of that
// format. Every write is refused with ErrReadOnly. What a killed process left in
// the write-ahead log is read into memory.
//
// While it is open nobody else can open the store, where the lock file can be
// written: then its lock is taken, as the engine does for readers too. Where it
// cannot, on a disk or in a directory that may only be read, no lock is taken,
// and a process that holds the store is found by the lock it has. A directory
// without a lock file, as a backup is, is not locked.
func OpenReadOnly(dir string, opts Options) (*Log, error) {
	opts.readOnly = true
	return Open(dir, opts)
}

// readLock locks a store for reading.
func readLock(dir string, o Options) (lock io.Closer, err error) {
	if err := mustExist(dir, o.FS); err != nil {
		return nil, err
	}
	name := o.FS.PathJoin(dir, "LOCK")
	if _, err := o.FS.Stat(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nothing{}, nil
		}
		return nil, err
	}
	lock, err = o.FS.Lock(name)
	if err == nil {
		return lock, nil
	}
	holder := readOwner(dir, o.FS)
	if o.FS == vfs.Default && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) && !isHeld(err) {
		held, err := lockedByAnother(name)
		if err != nil {
			return nil, err
		}
		if !held {
			return nothing{}, nil
		}
		return nil, &eventlog.LockedError{Dir: dir, PID: holder.PID, Host: holder.Host, Since: holder.Since}
	}
	host, pid := self()
	if heldHere(err, o.FS) {
		holder = owner{PID: pid, Host: host}
	}
	if isHeld(err) || heldHere(err, o.FS) || o.FS != vfs.Default {
		return nil, &eventlog.LockedError{Dir: dir, PID: holder.PID, Host: holder.Host, Since: holder.Since}
	}
	return nil, err
}

// isHeld reports whether the system refused a lock because another process has
// it: an error of opening the file says its path, one of locking it does not.
func isHeld(err error) bool {
	var path *fs.PathError
	return !errors.As(err, &path) && (errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES))
}

// nothing is a lock that was not needed.
type nothing struct{}

func (nothing) Close() error { return nil }

// readOnlyFS is a file system that refuses to change anything. Its lock is that
// of the store already.
type readOnlyFS struct{ vfs.FS }

func refused(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }

func (readOnlyFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refused("create", name)
}
func (readOnlyFS) Link(_, name string) error   { return refused("link", name) }
func (readOnlyFS) Remove(name string) error    { return refused("remove", name) }
func (readOnlyFS) RemoveAll(name string) error { return refused("remove", name) }
func (readOnlyFS) Rename(_, name string) error { return refused("rename", name) }
func (readOnlyFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, refused("open to write", name)
}
func (readOnlyFS) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refused("write", name)
}
func (readOnlyFS) MkdirAll(name string, _ os.FileMode) error { return refused("make directory", name) }
func (readOnlyFS) Lock(string) (io.Closer, error)            { return nothing{}, nil }

// Unwrap implements [vfs.FS]. Nothing may go around what is refused.
func (f readOnlyFS) Unwrap() vfs.FS { return nil }
