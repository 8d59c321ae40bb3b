package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agstore/agstore/eventlog"
)

// What is wrong with the store and fails no request is said on standard error,
// once, with what to do.
func TestServeTellsFaults(t *testing.T) {
	var said bytes.Buffer
	s := &service{app: &app{io: &streams{err: &said}}}
	fault := &eventlog.Error{Op: "recover", Key: eventlog.ThreadKey{Scope: "s", Thread: "t\x1b[2J"}, Err: eventlog.ErrCorrupt, Hint: "verify says what is damaged"}
	for range 3 {
		s.faulty(fault)
	}
	s.failed(errors.New("write 000004.log: input/output error"))
	s.reopened(1500 * time.Microsecond)
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "agstore: store: recover") || !strings.HasSuffix(lines[0], ": verify says what is damaged") ||
		lines[1] != "agstore: store: only reads go on: write 000004.log: input/output error" || lines[2] != "agstore: store: writes go on, after 2ms" {
		t.Errorf("said:\n%s", said.String())
	}
	if strings.Contains(said.String(), "\x1b") {
		t.Error("a thread's name reaches the terminal as it is")
	}
}
