package pebblelog

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

const (
	hintUnknown  = "the outcome is unknown: it may be found in the log later; repeat it with the same idempotency key to settle it"
	hintPoisoned = "nothing was written; an earlier write failed: reads go on, open the store again once the cause is gone"
)

// damage gives a fault met while reading its kind.
func damage(err error) error {
	switch {
	case err == nil, errors.Is(err, eventlog.ErrCorrupt), errors.Is(err, eventlog.ErrVersion):
		return err
	case errors.Is(err, errDamaged), errors.Is(err, agui.ErrInvalidEvent), pebble.IsCorruptionError(err):
		return fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
	}
	return err
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// unavailable is what writes are refused with after one failed with cause.
func unavailable(cause error) error {
	if isNoSpace(cause) {
		return fmt.Errorf("%w: %w: %w", eventlog.ErrUnavailable, eventlog.ErrNoSpace, cause)
	}
	return fmt.Errorf("%w: %w", eventlog.ErrUnavailable, cause)
}

// failure is the first write error of a log.
type failure struct {
	mu  sync.Mutex
	err error
}

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
	f.err = err
	return true
}
