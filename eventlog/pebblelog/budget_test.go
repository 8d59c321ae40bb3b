package pebblelog

import (
	"context"
	"errors"
	"runtime"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/eventlog"
)

// Whatever is taken, given back and given up: nobody has room who would not fit,
// but one that is alone; it is given in the order in which it was asked for; and
// nobody waits who could go.
func TestBudgetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 100).Draw(t, "limit")
		b := newBudget(limit)
		type asker struct {
			size int
			wait func() bool // has been given its room
			quit func()
		}
		var held, line []asker
		sum := func() (n int) {
			for _, a := range held {
				n += a.size
			}
			return n
		}
		settle := func() {
			for len(line) > 0 && (sum() == 0 || sum()+line[0].size <= limit) {
				held, line = append(held, line[0]), line[1:]
			}
			for _, a := range held {
				if !a.wait() {
					t.Fatalf("there is room for %d beside %d of %d, and it waits", a.size, sum(), limit)
				}
			}
			for _, a := range line {
				if a.wait() {
					t.Fatalf("no room or no turn for %d beside %d of %d, and it goes", a.size, sum(), limit)
				}
			}
			if got := b.look(); got.Bytes != sum() || got.Waiting != len(line) {
				t.Fatalf("it says %+v, and %d are held and %d wait", got, sum(), len(line))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				a := asker{size: rapid.IntRange(1, 150).Draw(t, "size")}
				e := b.take(a.size)
				a.wait = func() bool {
					if e == nil {
						return true
					}
					select {
					case <-e.Value.(*turn).given:
						return true
					default:
						return false
					}
				}
				a.quit = func() { b.leave(e) }
				line = append(line, a)
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing is held")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				b.release(held[i].size)
				held = append(held[:i:i], held[i+1:]...)
			},
			"leave": func(t *rapid.T) {
				if len(line) == 0 {
					t.Skip("nobody waits")
				}
				i := rapid.IntRange(0, len(line)-1).Draw(t, "which")
				line[i].quit()
				line = append(line[:i:i], line[i+1:]...)
			},
			"": func(*rapid.T) { settle() },
		})
	})
}

// Who gives up when the room was given already gives it back.
func TestBudgetLeftTooLate(t *testing.T) {
	b := newBudget(10)
	b.take(10)
	first, second := b.take(7), b.take(8)
	b.release(10)
	b.leave(first)
	select {
	case <-second.Value.(*turn).given:
	default:
		t.Error("the next in line was not served")
	}
	if got := b.look(); got.Bytes != 8 || got.Waiting != 0 {
		t.Errorf("held: %+v", got)
	}
}

// An append that need not wait pays nothing for the bound.
func TestBudgetAllocatesNothing(t *testing.T) {
	l := &Log{budget: newBudget(1 << 20), failure: newFailure()}
	ctx, key := context.Background(), eventlog.ThreadKey{Scope: "s", Thread: "t"}
	n := testing.AllocsPerRun(1000, func() {
		if err := l.admit(ctx, "append", key, 1000); err != nil {
			t.Fatal(err)
		}
		l.budget.release(1000)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkBudget(b *testing.B) {
	l := &Log{budget: newBudget(1 << 20), failure: newFailure()}
	ctx, key := context.Background(), eventlog.ThreadKey{Scope: "s", Thread: "t"}
	for b.Loop() {
		if err := l.admit(ctx, "append", key, 1000); err != nil {
			b.Fatal(err)
		}
		l.budget.release(1000)
	}
}

// A log that has failed refuses who waits for room at once, whether or not what
// is under way is ever settled.
func TestBudgetOfAFailedLog(t *testing.T) {
	l := &Log{budget: newBudget(10), failure: newFailure()}
	ctx, key := context.Background(), eventlog.ThreadKey{Scope: "s", Thread: "t"}
	l.budget.take(10)
	waiting := make(chan error, 1)
	go func() { waiting <- l.admit(ctx, "append", key, 1) }()
	for l.budget.look().Waiting == 0 {
		runtime.Gosched()
	}
	l.failure.set(unavailable(syscall.EIO))
	if err := <-waiting; !errors.Is(err, eventlog.ErrUnavailable) || !errors.Is(err, syscall.EIO) {
		t.Errorf("who waited: %v", err)
	}
	if err := l.admit(ctx, "append", key, 1); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("who came later: %v", err)
	}
	if got := l.budget.look(); got.Bytes != 10 || got.Waiting != 0 {
		t.Errorf("%+v", got)
	}
}

// What is refused before it is queued gives its room back.
func TestRefusedGivesRoomBack(t *testing.T) {
	l, err := Open("d", Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, key := context.Background(), eventlog.ThreadKey{Scope: "s", Thread: "t"}
	started := []byte(`{"type":"RUN_STARTED","runId":"r"}`)
	ended := []byte(`{"type":"RUN_FINISHED","runId":"r"}`)
	gone, stop := context.WithCancel(ctx)
	stop()
	w, err := l.BeginRun(ctx, key, eventlog.RunStart{Started: started})
	if err != nil {
		t.Fatal(err)
	}
	lease := w.Lease()
	last := func(_ eventlog.Appended, err error) error { return err }
	begun := func(_ eventlog.Writer, err error) error { return err }
	refusals := map[string]func() error{
		"no JSON": func() error { return last(l.Append(ctx, key, eventlog.Batch{Events: [][]byte{[]byte(`{`)}})) },
		"given up before": func() error {
			return last(l.Append(gone, key, eventlog.Batch{Events: [][]byte{started}}))
		},
		"entry given up before": func() error {
			return last(l.AppendCompanion(gone, key, eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "k"}}}))
		},
		"no start":       func() error { return begun(l.BeginRun(ctx, key, eventlog.RunStart{Started: ended})) },
		"start given up": func() error { return begun(l.BeginRun(gone, key, eventlog.RunStart{Started: started})) },
		"no holder": func() error {
			return begun(l.BeginRun(ctx, key, eventlog.RunStart{Started: started, Holder: eventlog.Holder{TTL: 1}}))
		},
		"conflict": func() error {
			return last(l.Append(ctx, key, eventlog.Batch{Events: [][]byte{started}, Expect: eventlog.LastSeq(99)}))
		},
		"behind the end": func() error { return last(w.Append(ctx, ended, started)) },
		"leased, too": func() error {
			return last(l.Append(ctx, key, eventlog.Batch{Events: [][]byte{ended, started}, Lease: &lease}))
		},
		"writer given up": func() error { return w.Enqueue(gone, started) },
	}
	for name, refused := range refusals {
		if err := refused(); err == nil {
			t.Errorf("%s: not refused", name)
		}
		if n := l.Backlog().Bytes; n != 0 {
			t.Errorf("%s: %d bytes are still held", name, n)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(ctx, key, eventlog.Batch{Events: [][]byte{started}}); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if n := l.Backlog().Bytes; n != 0 {
		t.Errorf("closed: %d bytes are still held", n)
	}
}
