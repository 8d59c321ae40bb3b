package pebblelog

import (
	"encoding/json"
	"errors"
	"io"
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
	who := owner{PID: pid, Host: host, Since: o.Now().UTC().Truncate(time.Second), witness: readOwner(dir, o.FS).witness}
	if err := writeOwner(dir, o.FS, who); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// heldHere reports whether a lock was refused because this very process has it:
// what the system refuses has an error number, the engine's own word has none.
func heldHere(err error, fs vfs.FS) bool {
	var number syscall.Errno
	return fs == vfs.Default && !errors.As(err, &number)
}

func readOwner(dir string, fs vfs.FS) (who owner) {
	f, err := fs.Open(fs.PathJoin(dir, ownerFile))
	if err != nil {
		return owner{}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil || json.Unmarshal(text, &who) != nil {
		return owner{}
	}
	return who
}

func writeOwner(dir string, fs vfs.FS, who owner) error {
	text, err := json.Marshal(who)
	if err != nil {
		return err
	}
	f, err := fs.Create(fs.PathJoin(dir, ownerFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}
