package pebblelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

const (
	hintUnknown  = "the outcome is unknown: it may be found in the log later; repeat it with the same idempotency key to settle it"
	hintPoisoned = "nothing was written, since an earlier write failed; "
)

// damage gives a fault met while reading its kind.
func damage(err error) error {
	switch {
	case err == nil, errors.Is(err, eventlog.ErrCorrupt), errors.Is(err, eventlog.ErrVersion), errors.Is(err, eventlog.ErrUnavailable):
		return err
	case errors.Is(err, errDamaged), errors.Is(err, agui.ErrInvalidEvent), pebble.IsCorruptionError(err),
		errors.Is(err, fs.ErrNotExist), errors.Is(err, pebble.ErrDBNotPristine):
		return fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
	case isDisk(err):
		return unavailable(err)
	}
	return err
}

// isDisk reports whether the system refused what the store asked of its files.
func isDisk(err error) bool {
	return isNoSpace(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// advice says what to do about a fault of the disk or of what is on it, while
// the log is open.
func (l *Log) advice(err error) string {
	hint := advice(err, l.dir)
	switch {
	case hint == hintDamaged:
		return hint + "; what is not touched by it can still be read and exported"
	case errors.Is(err, eventlog.ErrUnavailable) && hint != "":
		return hint + "; reads go on where they can, and writes by themselves once it is done"
	}
	return hint
}

const hintDamaged = "bytes or files of the store are not as they were written: check the disk and restore a backup"

// advice says what to do about it in order to use the store in dir.
func advice(err error, dir string) string {
	var options *optionsError
	switch {
	case errors.As(err, &options):
		return "it holds nothing but settings of this program: agstore verify --repair removes it; then check the disk"
	case errors.Is(err, errNoStoreRow), errors.Is(err, errShort), errors.Is(err, errNoLog), errors.Is(err, errHole):
		return hintLost
	case errors.Is(err, eventlog.ErrVersion):
		return "open it with the version of agstore that wrote it, or a newer one"
	case errors.Is(err, eventlog.ErrCorrupt):
		return hintDamaged
	case errors.Is(err, eventlog.ErrNoSpace):
		return "make space on the disk that holds " + dir
	case errors.Is(err, syscall.EROFS):
		return "the file system that holds " + dir + " is read-only: mount it for writing"
	case errors.Is(err, syscall.ENOTDIR):
		return "a file is where the directory of the store should be: name another"
	case errors.Is(err, fs.ErrPermission):
		return "give this process the right to read and write " + dir + " and the files in it"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "let this process have more files open"
	case errors.Is(err, eventlog.ErrUnavailable):
		return "check the disk that holds " + dir
	}
	return ""
}

// ofFiles gives an error of opening the engine its kind: what the system did not
// refuse is wrong with what the files hold, as a table of another size than the
// MANIFEST says.
func ofFiles(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) || errors.Is(err, eventlog.ErrVersion) {
		return err
	}
	if errors.Is(err, pebble.ErrDBNotPristine) {
		return fmt.Errorf("%w: there is no %s*: %w", errDamaged, formatMarker, err)
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

// isEnd reports whether an error only says where a file ends.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// unavailable is what writes are refused with after one failed with cause.
func unavailable(cause error) error {
	if isNoSpace(cause) && !errors.Is(cause, eventlog.ErrNoSpace) {
		return fmt.Errorf("%w: %w: %w", eventlog.ErrUnavailable, eventlog.ErrNoSpace, cause)
	}
	return fmt.Errorf("%w: %w", eventlog.ErrUnavailable, cause)
}

// failure is why a log takes no writes.
type failure struct {
	mu   sync.Mutex
	err  error
	late error         // the latest, cleared or not
	cell chan struct{} // closed while there is one
}

func newFailure() *failure { return &failure{cell: make(chan struct{})} }

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// set reports whether err is the first.
func (f *failure) set(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return false
	}
	f.err, f.late = err, err
	close(f.cell)
	return true
}

// again replaces the cause by a later one.
func (f *failure) again(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// last is the latest failure, also when it is over.
func (f *failure) last() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.late
}

// clear ends the failure.
func (f *failure) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.cell = nil, make(chan struct{})
}

// happened gives a channel that is closed once there is a failure.
func (f *failure) happened() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cell
}
