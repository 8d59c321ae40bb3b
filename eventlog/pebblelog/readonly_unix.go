//go:build unix

package pebblelog

import (
	"io"
	"os"
	"syscall"
)

// lockedByAnother reports whether another process holds the lock of a file that
// this one may only read. It takes no lock, and this process has none on it.
func lockedByAnother(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	ask := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &ask); err != nil {
		return false, err
	}
	return ask.Type != syscall.F_UNLCK, nil
}
