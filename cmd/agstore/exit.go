package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"github.com/agstore/agstore/api/problem"
	"github.com/agstore/agstore/eventlog"
)

// exitCode is how the process ends.
type exitCode int

const (
	exitDone        exitCode = 0
	exitFailed      exitCode = 1
	exitUsage       exitCode = 2
	exitNotFound    exitCode = 3
	exitDenied      exitCode = 4
	exitConflict    exitCode = 5
	exitDamaged     exitCode = 6
	exitUnavailable exitCode = 7
	exitRefused     exitCode = 8
	exitInterrupted exitCode = 130
)

// outcome is one row of the table of exit codes: what it means, and the errors
// that have it.
type outcome struct {
	code    exitCode
	meaning string
	errs    []error
	status  []int // HTTP statuses of problems that are none of errs
}

// outcomes is the table of exit codes; of an error with several the first row
// counts.
func outcomes() []outcome {
	return []outcome{
		{code: exitDone, meaning: "done"},
		{code: exitFailed, meaning: "failed, for a reason that has no code of its own"},
		{exitUsage, "usage: an unknown command, flag or argument", []error{errUsage, eventlog.ErrInvalid}, []int{http.StatusBadRequest}},
		{exitNotFound, "not found: store, thread, run, seq, file or agent; or erased", []error{eventlog.ErrNotFound, eventlog.ErrErased, eventlog.ErrGap, fs.ErrNotExist}, []int{http.StatusNotFound, http.StatusGone}},
		{exitDenied, "denied, or the store can only be read", []error{fs.ErrPermission, eventlog.ErrReadOnly}, []int{http.StatusUnauthorized, http.StatusForbidden}},
		{exitConflict, "conflict: another seq than expected, lease lost, a run is active", []error{eventlog.ErrConflict, eventlog.ErrFenced, eventlog.ErrRunActive}, []int{http.StatusConflict}},
		{exitDamaged, "the store is damaged, or of a newer version of agstore", []error{eventlog.ErrCorrupt, eventlog.ErrVersion}, nil},
		{exitUnavailable, "unavailable: the store is locked, no server answers, the port is taken, no space", []error{
			eventlog.ErrLocked, eventlog.ErrUnavailable, eventlog.ErrNoSpace, eventlog.ErrClosed, syscall.ENOSPC, syscall.EADDRINUSE, context.DeadlineExceeded,
		}, []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusInsufficientStorage}},
		{exitRefused, "refused input: an invalid event, or one too large", []error{eventlog.ErrInvalidEvent, eventlog.ErrTooLarge, errRefused}, []int{http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}},
		{exitInterrupted, "interrupted (Ctrl-C)", []error{context.Canceled}, nil},
	}
}

// exitOf is the exit code of an error.
func exitOf(err error) exitCode {
	if err == nil {
		return exitDone
	}
	for _, o := range outcomes() {
		for _, target := range o.errs {
			if errors.Is(err, target) {
				return o.code
			}
		}
	}
	if p := (*problem.Problem)(nil); errors.As(err, &p) {
		for _, o := range outcomes() {
			for _, status := range o.status {
				if status == p.Status {
					return o.code
				}
			}
		}
	}
	return exitFailed
}

// exitHelp is the text of "agstore help exit-codes".
func exitHelp() string {
	var b strings.Builder
	b.WriteString("How agstore ends:\n\n")
	for _, o := range outcomes() {
		fmt.Fprintf(&b, "  %3d  %s\n", o.code, o.meaning)
	}
	b.WriteString("\nA command that fails prints one line on standard error, \"agstore: WHAT: CAUSE\",\nand where something can be done about it, a hint on the next.\n")
	return b.String()
}

// errUsage: the command line cannot be used.
var errUsage = errors.New("usage")

// errRefused: an input is not what it should be.
var errRefused = errors.New("refused input")

// usageError says what is wrong with the command line.
type usageError struct{ text, hint string }

func (e *usageError) Error() string { return e.text }

// Is reports that it is an errUsage.
func (e *usageError) Is(target error) bool { return target == errUsage }

// hinted is an error with a hint.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// hintOf is what to do about an error, if anything is known.
func hintOf(err error) string {
	if h := (*hinted)(nil); errors.As(err, &h) {
		return h.hint
	}
	if e := (*usageError)(nil); errors.As(err, &e) {
		return e.hint
	}
	if e := (*eventlog.Error)(nil); errors.As(err, &e) && e.Hint != "" {
		return e.Hint
	}
	if p := (*problem.Problem)(nil); errors.As(err, &p) {
		return p.Hint
	}
	return ""
}

// report prints why a command failed: one line, and a hint on the next.
func report(w io.Writer, err error) {
	line := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	fmt.Fprintf(w, "agstore: %s\n", printable(line))
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(w, "%s\n", printable(hint))
	}
}

// isBrokenPipe reports whether nobody reads any more what is written.
func isBrokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
