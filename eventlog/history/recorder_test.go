package history_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/history"
)

// What recorders of two processes wrote is read back as what they were told,
// the half line of a killed one apart.
func TestRecorderFiles(t *testing.T) {
	dir := t.TempDir()
	var files []string
	total := 0
	for _, process := range []string{"p1", "p2"} {
		name := filepath.Join(dir, process)
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
		r := history.NewRecorder(f)
		var all sync.WaitGroup
		for _, worker := range []string{"/w1", "/w2"} {
			all.Go(func() {
				for n := range 20 {
					c := r.Begin(history.Entry{Client: process + worker, Op: history.OpAppend, Scope: "s", Thread: "t", Events: []string{custom(n) + worker}, Key: "\u2028<k>"})
					if n < 19 {
						c.Appended(eventlog.Appended{First: uint64(n + 1), Last: uint64(n + 1), Position: 7}, nil)
					}
				}
			})
		}
		all.Wait()
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
		h, err := history.ReadFiles(name)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(h, r.History()) {
			t.Errorf("read back:\n%v\nrecorded:\n%v", h, r.History())
		}
		total += len(h)
		if _, err := f.WriteString(`{"client":"` + process); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h, err := history.ReadFiles(files...)
	if err != nil {
		t.Fatal(err)
	}
	if len(h) != total || total != 80 {
		t.Errorf("%d entries of %d", len(h), total)
	}
	for i := range h {
		if i > 0 && h[i].Begun < h[i-1].Begun {
			t.Fatal("not in the order of their beginnings")
		}
		if last := h[i].N == 20; last != (h[i].Outcome == history.OutcomeUnknown) || last != (h[i].Ended == 0) {
			t.Errorf("%+v", h[i])
		}
	}
	var out bytes.Buffer
	if err := h.Encode(&out); err != nil {
		t.Fatal(err)
	}
	if again, err := history.Decode(&out); err != nil || !reflect.DeepEqual(again, h) {
		t.Errorf("encoded and decoded: %v", err)
	}
	if _, err := history.Decode(strings.NewReader("{}\nnot JSON\n")); err == nil {
		t.Error("a line that is no entry was read")
	}
}

func TestOutcomes(t *testing.T) {
	for err, want := range map[error]history.Outcome{
		nil:                                   history.OutcomeOK,
		&eventlog.ConflictError{}:             history.OutcomeRefused,
		&eventlog.KeyConflictError{}:          history.OutcomeRefused,
		eventlog.ErrRunActive:                 history.OutcomeRefused,
		eventlog.ErrThreadNotFound:            history.OutcomeRefused,
		&eventlog.FencedError{}:               history.OutcomeFenced,
		eventlog.ErrUnavailable:               history.OutcomeUnknown,
		eventlog.ErrClosed:                    history.OutcomeUnknown,
		errors.New("something else entirely"): history.OutcomeUnknown,
	} {
		if got := history.OutcomeOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

// A cut takes back the answers that came too late and what had not begun.
func TestCut(t *testing.T) {
	r := history.NewLogical(0)
	begin := func(client string) *history.Call {
		return r.Begin(history.Entry{Client: client, Op: history.OpBegin, Scope: "s", Thread: "t"})
	}
	done := func(c *history.Call) {
		c.Done(func(e *history.Entry) { e.Outcome, e.First, e.Epoch = history.OutcomeOK, 1, 1 })
	}
	answered, late := begin("a"), begin("b")
	done(answered)
	before := r.Mark()
	meanwhile := begin("c")
	done(late)
	after := r.Mark()
	never := begin("d")
	done(meanwhile)
	done(never)
	got := r.History().Cut(before, after)
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	for _, e := range got {
		if known := e.Client == "a"; known != (e.Outcome == history.OutcomeOK) || known != (e.Ended != 0) || known != (e.First != 0) || known != (e.Epoch != 0) {
			t.Errorf("%+v", e)
		}
	}
	if n := len(r.History()); n != 4 {
		t.Errorf("the cut changed the history: %d", n)
	}
}
