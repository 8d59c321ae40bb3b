package pebblelog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// told is what a workload was told, by thread: the last acknowledged seq and
// the events up to it.
type told struct {
	mu    sync.Mutex
	acked map[eventlog.ThreadKey]map[uint64]string
	keys  map[eventlog.ThreadKey]map[string]eventlog.Appended
}

func newHistory() *told {
	return &told{acked: make(map[eventlog.ThreadKey]map[uint64]string), keys: make(map[eventlog.ThreadKey]map[string]eventlog.Appended)}
}

func (h *told) note(k eventlog.ThreadKey, done eventlog.Appended, events [][]byte, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.acked[k] == nil {
		h.acked[k] = make(map[uint64]string)
		h.keys[k] = make(map[string]eventlog.Appended)
	}
	for i, e := range events {
		h.acked[k][done.First+uint64(i)] = string(e)
	}
	if key != "" {
		h.keys[k][key] = done
	}
}

// copy is the history so far: taken before a crash, all of it must survive.
func (h *told) copy() *told {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := newHistory()
	for k, records := range h.acked {
		out.acked[k] = make(map[uint64]string)
		for seq, e := range records {
			out.acked[k][seq] = e
		}
		out.keys[k] = make(map[string]eventlog.Appended)
		for key, done := range h.keys[k] {
			out.keys[k][key] = done
		}
	}
	return out
}

// work writes until the context ends: raw appends, some with keys, and runs
// that are written, piped, ended, finished or left open.
func work(ctx context.Context, l *pebblelog.Log, h *told, seed uint64, name string) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for n := 0; ctx.Err() == nil; n++ {
		k := eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint("t", rng.IntN(3))}
		id := fmt.Sprintf("%s-%d", name, n)
		var events [][]byte
		for i := range 1 + rng.IntN(4) {
			events = append(events, fmt.Appendf(nil, `{"type":"CUSTOM","name":"%s","value":%d}`, id, i))
		}
		if rng.IntN(3) > 0 {
			b := eventlog.Batch{Events: events}
			if rng.IntN(2) == 0 {
				b.Key = id
			}
			if done, err := l.Append(ctx, k, b); err == nil {
				h.note(k, done, events, b.Key)
			}
			continue
		}
		k.Thread = "runs-" + name
		start := fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":"%s"}`, id)
		w, err := l.BeginRun(ctx, k, eventlog.RunStart{Started: start})
		if err != nil {
			continue
		}
		h.note(k, eventlog.Appended{First: w.First()}, [][]byte{start}, "")
		events = append(events, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_START","messageId":"%s"}`, id))
		if done, err := w.Append(ctx, events...); err == nil {
			h.note(k, done, events, "")
		}
		for range rng.IntN(20) {
			_ = w.Enqueue(ctx, []byte(`{"type":"CUSTOM","name":"piped"}`))
		}
		if rng.IntN(2) == 0 {
			_, _ = w.Sync(ctx)
		}
		_ = w.End(ctx, "STOP", "end of the test")
	}
}

// verify compares a log with what was acknowledged.
func verify(t *testing.T, l *pebblelog.Log, h *told) {
	t.Helper()
	ctx := context.Background()
	for _, fault := range logtest.Check(ctx, l) {
		t.Error(fault)
	}
	for k, records := range h.acked {
		found := make(map[uint64]string)
		for r, err := range l.Read(ctx, k, eventlog.ReadOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			found[r.Seq] = string(r.Event)
		}
		for seq, want := range records {
			if found[seq] != want {
				t.Errorf("thread %s seq %d: %q, acknowledged was %q", k.Thread, seq, found[seq], want)
			}
		}
		for key, want := range h.keys[k] {
			var events [][]byte
			for seq := want.First; seq <= want.Last; seq++ {
				events = append(events, []byte(records[seq]))
			}
			want.Duplicate = true
			if got, err := l.Append(ctx, k, eventlog.Batch{Events: events, Key: key}); err != nil || got != want {
				t.Errorf("key %s again: %+v, %v; want %+v", key, got, err, want)
			}
		}
		runs, err := l.Runs(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			if r.Held || r.Running() {
				t.Errorf("run %v was left open: %+v", r.Key, r)
			}
		}
	}
}
