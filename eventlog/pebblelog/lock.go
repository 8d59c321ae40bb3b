package pebblelog

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

// ownerFile, beside the engine's own lock file, says who holds the lock. It is
// for people and error messages; the lock is the engine's.
const ownerFile = "owner.json"

type owner struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	witness
}

// acquireLock takes the directory's lock or says who holds it. It never waits.
func acquireLock(dir string, o Options) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, o.FS)
	host, pid := self()
	var path *fs.PathError
	if errors.As(err, &path) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		return nil, err // the lock file could not be opened: nobody need have it
	}
	if err != nil {
		holder := readOwner(dir, o.FS)
		own := holder.PID == pid && holder.Host == host
		if !own && heldHere(err, o.FS) {
			// Who has just got the lock has not said so yet.
			own, holder = true, owner{PID: pid, Host: host}
		}
		if own || errors.Is(err, syscall.EAGAIN) || err == error(syscall.EACCES) {
			return nil, &eventlog.LockedError{Dir: dir, PID: holder.PID, Host: holder.Host, Since: holder.Since}
		}
		return nil, err
	}
	return lock, nil
}

// announce says in the owner file who has got the lock. What it gives takes that
// back: a store that could not be opened is left as it was. While the engine is
// being opened it may have a MANIFEST that names a write-ahead log which is not
// there yet, so the file does not ask for one.
func announce(dir string, o Options) (takeBack func(), err error) {
	before, there, err := readFile(o.FS, o.FS.PathJoin(dir, ownerFile))
	if err != nil {
		return nil, err
	}
	host, pid := self()
	who := owner{PID: pid, Host: host, Since: o.Now().UTC().Truncate(time.Second), witness: readOwner(dir, o.FS).witness}
	who.Closed, who.Log = false, 0
	if err := writeOwner(dir, o.FS, who); err != nil {
		return nil, err
	}
	return func() {
		if there {
			_ = replaceFile(o.FS, dir, ownerFile, before)
		} else {
			_ = o.FS.Remove(o.FS.PathJoin(dir, ownerFile))
		}
	}, nil
}

// heldHere reports whether a lock was refused because this very process has it:
// what the system refuses has an error number, the engine's own word has none.
func heldHere(err error, fs vfs.FS) bool {
	var number syscall.Errno
	return fs == vfs.Default && !errors.As(err, &number)
}

func readOwner(dir string, files vfs.FS) (who owner) {
	text, _, err := readFile(files, files.PathJoin(dir, ownerFile))
	if err != nil || json.Unmarshal(text, &who) != nil {
		return owner{}
	}
	return who
}

// readFile reads a small file, if it is there.
func readFile(files vfs.FS, path string) (text []byte, there bool, err error) {
	f, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, named("open", path, err)
	}
	defer f.Close()
	if text, err = io.ReadAll(io.LimitReader(f, 4096)); err != nil {
		return nil, false, named("read", path, err)
	}
	return text, true, nil
}

func writeOwner(dir string, files vfs.FS, who owner) error {
	text, err := json.Marshal(who)
	if err != nil {
		return err
	}
	return replaceFile(files, dir, ownerFile, append(text, '\n'))
}

// replaceFile writes a file as a whole, or leaves what was there: a full disk
// must not take from a store what is known of it.
func replaceFile(files vfs.FS, dir, name string, text []byte) error {
	path, part := files.PathJoin(dir, name), files.PathJoin(dir, name+".part")
	f, err := files.Create(part, vfs.WriteCategoryUnspecified)
	if err != nil {
		return named("create", part, err)
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = files.Rename(part, path)
	}
	if err != nil {
		_ = files.Remove(part)
		return named("write", path, err)
	}
	d, err := files.OpenDir(dir)
	if err != nil {
		return named("open", dir, err)
	}
	return errors.Join(d.Sync(), d.Close())
}
