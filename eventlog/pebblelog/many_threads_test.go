package pebblelog

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
)

// reads counts what is read of files.
type reads struct{ n atomic.Int64 }

func (r *reads) String() string { return "reads" }

func (r *reads) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileRead || op.Kind == errorfs.OpFileReadAt {
		r.n.Add(1)
	}
	return nil
}

// opened is what it costs to open a store and to list its first threads.
type opened struct {
	heap          int64 // bytes that are held once it is open
	reads, listed int64 // reads of files, to open it and for the first page
	threads       int
}

// threadsVariable is how many threads TestManyThreads makes.
const threadsVariable = "AGSTORE_THREADS"

// Must hold 8, L12: opening a store of 100,000 threads reads as little and holds
// as little memory as opening one of 1,000, and lists come by pages.
func TestManyThreads(t *testing.T) {
	many := 20_000
	if text := os.Getenv(threadsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s is a number: %v", threadsVariable, err)
		}
		many = n
	}
	few, all := openMany(t, 1000), openMany(t, many)
	t.Logf("1,000 threads: %+v; %d: %+v", few, many, all)
	if all.reads > 2*few.reads+20 {
		t.Errorf("opening read %d times; with 1,000 threads %d times", all.reads, few.reads)
	}
	if all.heap > few.heap+4<<20 {
		t.Errorf("open, it holds %d bytes; with 1,000 threads %d", all.heap, few.heap)
	}
	if all.listed > few.listed+1000 {
		t.Errorf("the first page took %d reads; with 1,000 threads %d", all.listed, few.listed)
	}
	if all.threads != many || few.threads != 1000 {
		t.Errorf("%d and %d threads were listed", few.threads, all.threads)
	}
}

func openMany(t *testing.T, threads int) (o opened) {
	t.Helper()
	ctx := context.Background()
	mem := vfs.NewMem()
	count := &reads{}
	opts := Options{FS: errorfs.Wrap(mem, count), CacheBytes: 1 << 20}
	l, err := Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	id := func(n int) string { return fmt.Sprintf("thread-%06d", n) }
	var wg sync.WaitGroup
	const writers = 64
	for g := range writers {
		wg.Go(func() {
			for n := g; n < threads; n += writers {
				k := eventlog.ThreadKey{Scope: "s", Thread: id(n)}
				if _, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{[]byte(`{"type":"RUN_STARTED","runId":"r"}`), []byte(`{"type":"RUN_FINISHED","runId":"r"}`)}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	// The engine tidies up in the background, also when it is opened: not now.
	if err := l.db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = nil
	before := heapBytes()
	count.n.Store(0)
	if l, err = Open("d", opts); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o.reads = count.n.Load()
	o.heap = heapBytes() - before
	count.n.Store(0)
	after := ""
	for page := 0; ; page++ {
		n := 0
		for th, err := range l.Threads(ctx, "s", after) {
			if err != nil {
				t.Fatal(err)
			}
			if want := id(o.threads); th.Key.Thread != want || th.LastSeq != 2 || th.Runs != 1 {
				t.Fatalf("listed %+v, want %s", th, want)
			}
			o.threads++
			after = th.Key.Thread
			if n++; n == 500 {
				break
			}
		}
		if page == 0 {
			o.listed = count.n.Load()
		}
		if n == 0 {
			return o
		}
	}
}

// heapBytes is what is held, the garbage of before collected.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
