package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/projection"
)

// A projection is made anew beside the program that keeps it, and without it when
// that comes back; --list says how far each is.
func TestRebuild(t *testing.T) {
	c := newCLI(t)
	c.with(`{"type":"CUSTOM","name":"x"}`+"\n"+`{"type":"CUSTOM","name":"poison"}`+"\n").ok("import", "t", "-")
	c.fails(exitNotFound, `projection words`, "rebuild", "words")
	if got := c.ok("rebuild") + c.ok("rebuild", "--list"); got != "" {
		t.Errorf("without projections: %q", got)
	}
	c.fails(exitUsage, "", "rebuild", "words", "--list")
	c.fails(exitUsage, "", "rebuild", "--server", "http://localhost:1")

	var mu sync.Mutex
	calls := 0
	reducers := []projection.Reducer{
		{Name: "words", Version: 3, Reduce: func(state []byte, in projection.Input) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			return append(state, '.'), nil
		}},
		{Name: "picky", Version: 1, Global: true, Reduce: func(state []byte, in projection.Input) ([]byte, error) {
			if bytes.Contains(in.Event, []byte("poison")) {
				return nil, errors.New("I do not take that")
			}
			return append(state, '.'), nil
		}},
	}
	called := func() int {
		mu.Lock()
		defer mu.Unlock()
		return calls
	}
	hold := func() (*agstore.Store, func()) {
		t.Helper()
		store, err := agstore.Open(c.data, agstore.Options{Projections: reducers})
		if err != nil {
			t.Fatal(err)
		}
		socket, err := api.ControlSocket(store)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.WaitProjected(t.Context(), "words", store.Log().Watermark()); err != nil {
			t.Fatal(err)
		}
		_ = store.WaitProjected(t.Context(), "picky", store.Log().Watermark()) // it stops
		return store, func() {
			if err := errors.Join(socket.Close(), store.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	store, release := hold()
	if called() != 2 {
		t.Fatalf("%d calls", called())
	}
	list := strings.Split(strings.TrimSpace(c.ok("rebuild", "--list")), "\n")
	if len(list) != 2 || list[0] != "words\t3\t1\tcurrent" || list[1] != "picky\t1\t0\tstopped" {
		t.Errorf("list %q", list)
	}
	r := c.run("rebuild", "--list")
	if !strings.Contains(r.err, "I do not take that") || !strings.Contains(r.err, "seq 2") {
		t.Errorf("why it has stopped: %s", r.err)
	}
	if got := c.ok("rebuild", "words"); got != "words\t3\t1\tcurrent\n" || called() != 4 {
		t.Errorf("rebuilt: %q, %d calls", got, called())
	}
	if got := c.onTerminal().ok("rebuild", "words"); got != "words was made anew, up to position 1\n" || called() != 6 {
		t.Errorf("on a terminal: %q, %d calls", got, called())
	}
	var p api.Projection
	if err := json.Unmarshal([]byte(c.ok("rebuild", "words", "--json")), &p); err != nil || p.Name != "words" || !p.Kept || p.Building || p.Serving != 3 {
		t.Errorf("as JSON: %+v, %v", p, err)
	}
	c.fails(exitFailed, "I do not take that", "rebuild", "picky")
	c.fails(exitNotFound, "", "rebuild", "none")
	c.fails(exitNotFound, "", "rebuild", "../odd#name")
	if s, err := store.Scope(agstore.DefaultScope).Projected(t.Context(), "words", "t"); err != nil || string(s.Value) != ".." {
		t.Errorf("the state: %+v, %v", s, err)
	}
	release()

	before := called()
	if got := c.ok("rebuild", "words"); got != "words\t3\t0\tbuilding\n" || called() != before {
		t.Errorf("without the program: %q", got)
	}
	if got := c.ok("rebuild", "--list"); !strings.HasPrefix(got, "picky\t1\t0\t") || !strings.Contains(got, "words\t3\t1\tbuilding\n") {
		t.Errorf("list %q", got)
	}
	_, release = hold()
	if called() != before+2 {
		t.Errorf("%d calls when the program came back", called()-before)
	}
	release()
	_, release = hold()
	if called() != before+2 {
		t.Error("it was made anew a second time")
	}
	release()
	c.ok("verify")
}
