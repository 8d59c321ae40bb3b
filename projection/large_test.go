package projection_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/projection"
)

// meter counts what is read of files, and looks at the heap when it is.
type meter struct {
	reads atomic.Int64
	peak  atomic.Int64
}

func (m *meter) String() string { return "meter" }

func (m *meter) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileRead || op.Kind == errorfs.OpFileReadAt {
		m.reads.Add(1)
		if n := liveHeap(); n > m.peak.Load() {
			m.peak.Store(n)
		}
	}
	return nil
}

// liveHeap is what is on the heap now, garbage included.
func liveHeap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// first is what the first transcript after a restart takes.
type first struct {
	reads int64 // of files, the opening of the store included
	held  int64 // bytes of the heap that store and view keep
	peak  int64 // bytes of the heap at most meanwhile, over what there was before
	bytes int64 // of the transcript, as JSON
}

// The figures under which the first transcript stays, in bytes for each byte of
// it, and for the store itself whatever is in it.
const (
	storeHeap     = 16 << 20
	heldPerByte   = 4
	peakPerByte   = 8
	readsPerEvent = 0.05
)

// L12: a store of many small threads and a large one is opened, and shows the
// large one: what that reads and keeps in memory depends on the large one's
// length and not on how many others there are. AGSTORE_THREADS=100000 is the long
// form, with a thread of 200,000 events.
func TestFirstTranscriptAfterRestart(t *testing.T) {
	many, events := 2000, 10_000
	if text := os.Getenv("AGSTORE_THREADS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("AGSTORE_THREADS is a number: %v", err)
		}
		many, events = n, 2*n
	}
	alone, among := firstTranscript(t, 10, events), firstTranscript(t, many, events)
	t.Logf("%d events among 10 threads: %+v; among %d: %+v", events, alone, many, among)
	if limit := alone.reads + alone.reads/2 + 50; among.reads > limit {
		t.Errorf("%d reads among %d threads, %d among 10", among.reads, many, alone.reads)
	}
	if limit := int64(readsPerEvent*float64(events)) + 200; among.reads > limit {
		t.Errorf("%d reads for %d events, at most %d", among.reads, events, limit)
	}
	if limit := storeHeap + heldPerByte*among.bytes; among.held > limit {
		t.Errorf("%d bytes are held, at most %d", among.held, limit)
	}
	if limit := 2*storeHeap + peakPerByte*among.bytes; among.peak > limit {
		t.Errorf("%d bytes of heap at the peak, at most %d", among.peak, limit)
	}
}

// firstTranscript writes so many small threads and one of so many events, and
// opens the store again for the view of that.
func firstTranscript(t *testing.T, threads, events int) (f first) {
	t.Helper()
	ctx, m := t.Context(), &meter{}
	// A disk: what a file system in memory holds would count as the heap.
	dir := filepath.Join(t.TempDir(), "store")
	opts := pebblelog.Options{FS: errorfs.Wrap(vfs.Default, m), CacheBytes: 1 << 20}
	l, err := pebblelog.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	large := eventlog.ThreadKey{Scope: "s", Thread: "large"}
	var wg sync.WaitGroup
	const writers = 64
	for g := range writers {
		wg.Go(func() {
			for n := g; n < threads; n += writers {
				k := eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprintf("thread-%06d", n)}
				if _, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{[]byte(`{"type":"RUN_STARTED","runId":"r"}`), []byte(`{"type":"RUN_FINISHED","runId":"r"}`)}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	want := 0
	wg.Go(func() {
		for n := 0; n < events; n += 1000 {
			batch, text := talk(n/1000, min(1000, events-n))
			want += text
			if _, err := l.Append(ctx, large, eventlog.Batch{Events: batch, Origin: eventlog.OriginImport}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Wait()
	// The engine tidies up in the background, also when it is opened: not now.
	if err := l.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = nil
	runtime.GC()
	runtime.GC() // what pools held, too
	before := liveHeap()
	m.reads.Store(0)
	m.peak.Store(0)
	if l, err = pebblelog.Open(dir, opts); err != nil {
		t.Fatal(err)
	}
	views := projection.New(l, projection.Options{})
	view, err := views.Head(ctx, large)
	if err != nil {
		t.Fatal(err)
	}
	f.reads, f.peak = m.reads.Load(), m.peak.Load()-before
	runtime.GC()
	runtime.GC() // what pools held, too
	f.held = liveHeap() - before
	said := 0
	for i := range view.Messages {
		said += strings.Count(string(view.Messages[i].AppendJSON(nil)), "word ")
	}
	if view.Seq != uint64(events) || said != want {
		t.Errorf("the transcript at seq %d has %d words, %d were said in %d events", view.Seq, said, want, events)
	}
	f.bytes = int64(len(view.AppendJSON(nil)))
	runtime.KeepAlive(views)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return f
}

// talk is a finished run of so many events, and how many words it says.
func talk(run, events int) (out [][]byte, words int) {
	id := fmt.Sprint("r", run)
	out = append(out, fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":%q}`, id))
	for n := 0; len(out) < events-1; n++ {
		message := fmt.Sprint(id, "-m", n/50)
		switch {
		case n%50 == 0:
			out = append(out, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_START","messageId":%q,"role":"assistant"}`, message))
		case n%50 == 49:
			out = append(out, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_END","messageId":%q}`, message))
		default:
			out = append(out, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":"word %d, and some more "}`, message, n))
			words++
		}
	}
	return append(out, fmt.Appendf(nil, `{"type":"RUN_FINISHED","runId":%q}`, id)), words
}
