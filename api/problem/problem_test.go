package problem_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api/problem"
	"github.com/agstore/agstore/eventlog"
)

// An error that crosses the network is the same error on the other side: for
// errors.Is, for errors.As, and in words.
func TestErrorsCrossTheNetwork(t *testing.T) {
	run := agui.RunKey{ID: "r1", Attempt: 2}
	for _, c := range []struct {
		err    error
		is     error
		status int
	}{
		{&eventlog.ConflictError{Expected: 3, Actual: 5}, eventlog.ErrConflict, 409},
		{&eventlog.ConflictError{Expected: 3, Actual: 5, Run: run, Owner: "host:1"}, eventlog.ErrConflict, 409},
		{&eventlog.KeyConflictError{Key: "k", First: 3, Last: 4}, eventlog.ErrConflict, 409},
		{&eventlog.RunActiveError{Run: run, Owner: "host:1"}, eventlog.ErrRunActive, 409},
		{&eventlog.RunExistsError{Run: run, Status: agui.RunFailed}, eventlog.ErrRunExists, 409},
		{&eventlog.FencedError{Run: run, Epoch: 1, Current: 2, Owner: "host:2"}, eventlog.ErrFenced, 409},
		{&eventlog.LockedError{Dir: "d", PID: 7, Host: "h", Since: time.Unix(5, 6).UTC()}, eventlog.ErrLocked, 503},
		{&agui.InvalidEventError{Offset: 9, Reason: "not JSON"}, eventlog.ErrInvalidEvent, 422},
		{&eventlog.TooLargeError{What: "event", Size: 9, Limit: 8}, eventlog.ErrTooLarge, 413},
		{&eventlog.ErasedError{Time: time.Unix(5, 7000).UTC(), Reason: "asked to"}, eventlog.ErrErased, 410},
		{&eventlog.KeyErasedError{Key: "k", First: 3, Last: 4}, eventlog.ErrErased, 410},
		{&eventlog.GapError{From: 1, To: 9, Reason: eventlog.RemovalClear}, eventlog.ErrGap, 410},
		{&eventlog.StaleError{Expected: eventlog.At{Position: 3, Removals: 1}, Actual: eventlog.At{Position: 2}, Removals: 4}, eventlog.ErrStale, 409},
		{eventlog.ErrThreadNotFound, eventlog.ErrNotFound, 404},
		{eventlog.ErrRunNotFound, eventlog.ErrRunNotFound, 404},
		{eventlog.ErrNotFound, eventlog.ErrNotFound, 404},
		{eventlog.ErrInvalid, eventlog.ErrInvalid, 400},
		{&eventlog.InvalidError{Reason: "the thread id is empty"}, eventlog.ErrInvalid, 400},
		{eventlog.ErrCorrupt, eventlog.ErrCorrupt, 500},
		{&eventlog.VersionError{What: "value", Found: 3, Known: 2}, eventlog.ErrVersion, 500},
		{eventlog.ErrNoSpace, eventlog.ErrNoSpace, 507},
		{eventlog.ErrReadOnly, eventlog.ErrReadOnly, 403},
		{eventlog.ErrUnavailable, eventlog.ErrUnavailable, 503},
		{eventlog.ErrClosed, eventlog.ErrClosed, 503},
		{context.DeadlineExceeded, context.DeadlineExceeded, 504},
	} {
		t.Run(fmt.Sprintf("%T %v", c.err, c.err), func(t *testing.T) {
			sent := &eventlog.Error{Op: "append", Key: eventlog.ThreadKey{Scope: "s", Thread: "t"}, Seq: 4, Line: 2, Err: c.err, Hint: "do this"}
			w := httptest.NewRecorder()
			problem.Write(w, fmt.Errorf("above: %w", sent))
			got := problem.Read(w.Code, w.Body.Bytes())
			if w.Code != c.status || !errors.Is(got, c.is) || !errors.Is(got, c.err) && reflect.TypeOf(c.err).Kind() != reflect.Pointer {
				t.Fatalf("status %d, error %v", w.Code, got)
			}
			e := (*eventlog.Error)(nil)
			if !errors.As(got, &e) || e.Op != "append" || e.Key.Thread != "t" || e.Seq != 4 || e.Line != 2 || e.Hint != "do this" {
				t.Errorf("the error is %#v", got)
			}
			if reflect.TypeOf(c.err).Kind() == reflect.Pointer && reflect.TypeOf(c.err).Elem().Kind() == reflect.Struct && !holds(got, c.err) {
				t.Errorf("got %#v, sent was %#v", e.Err, c.err)
			}
		})
	}
}

// Every error that the log declares has a row in the table, and the ones with
// fields are among those above.
func TestEveryErrorHasAProblem(t *testing.T) {
	sources, err := filepath.Glob("../../eventlog/*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	table, tests := read("problem.go"), read("problem_test.go")
	sentinel, typed := regexp.MustCompile(`(?m)^\t(Err\w+)\s+= `), regexp.MustCompile(`(?m)^type (\w+Error) struct`)
	found := 0
	for _, name := range sources {
		text := read(name)
		for _, m := range sentinel.FindAllStringSubmatch(text, -1) {
			if found++; !strings.Contains(table, "eventlog."+m[1]+"}") {
				t.Errorf("%s has no row", m[1])
			}
		}
		for _, m := range typed.FindAllStringSubmatch(text, -1) {
			if found++; !strings.Contains(tests, "&eventlog."+m[1]+"{") {
				t.Errorf("%s is not shown to cross", m[1])
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d errors were found", found)
	}
}

// holds reports whether a deeply equal error is in the chain.
func holds(err, want error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if reflect.DeepEqual(err, want) {
			return true
		}
	}
	return false
}

// The scope is the server's business: it is not told.
func TestScopeIsNotTold(t *testing.T) {
	w := httptest.NewRecorder()
	problem.Write(w, &eventlog.Error{Op: "read", Key: eventlog.ThreadKey{Scope: "acme-corp", Thread: "t"}, Err: eventlog.ErrThreadNotFound})
	if body := w.Body.String(); len(body) == 0 || strings.Contains(body, "acme-corp") {
		t.Error(body)
	}
}

func TestUnknownAnswers(t *testing.T) {
	if err := problem.Read(502, []byte("<html>")); err == nil {
		t.Error("no error")
	}
	p := problem.Of(errors.New("odd"))
	if p.Status != 500 || p.Code != "internal" {
		t.Errorf("%+v", p)
	}
	if err := problem.New(418, "teapot", "no").Err(); err == nil || err.Error() != "no" {
		t.Error(err)
	}
}
