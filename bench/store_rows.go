package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// bytesOnDisk is P-L6: what a text delta of 130 bytes costs on disk once the
// engine's files are compacted, everything that lies there included.
func bytesOnDisk(ctx context.Context, b *bench) ([]Result, error) {
	const threads, run = 64, 200
	runs := max(b.n(300)/threads, 1)
	deltas := threads * runs * run
	var out []Result
	for _, c := range []struct {
		what  string
		goal  float64
		write func(l *pebblelog.Log, thread int) error
	}{
		{"runs of 200 deltas, pipelined", 45, func(l *pebblelog.Log, thread int) error {
			return writeRuns(ctx, l, thread, runs, run)
		}},
		{"one event per commit", 70, func(l *pebblelog.Log, thread int) error {
			r := rand.New(rand.NewPCG(seed, uint64(thread)))
			for i := range runs * run {
				event := delta130(r, thread*runs+i/run)
				if _, err := l.Append(ctx, threadKey(thread), eventlog.Batch{Events: [][]byte{event}}); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		size, err := b.compacted(ctx, func(l *pebblelog.Log) error {
			_, err := together(threads, func(thread int) error { return c.write(l, thread) })
			return err
		})
		if err != nil {
			return nil, err
		}
		each := float64(size) / float64(deltas)
		out = append(out, result("bytes on disk per text delta of 130 bytes: "+c.what, fmt.Sprintf("≤ %g bytes", c.goal)).
			got(short(each)+" bytes").atMost(each, c.goal))
	}
	return out, nil
}

// delta130 is a text delta of a message, 130 bytes long.
func delta130(r *rand.Rand, message int) []byte {
	event := fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":"`, messageID(message))
	for len(event) < 128 {
		event = append(event, text(r)...)
	}
	return append(event[:128], `"}`...)
}

// writeRuns writes runs of so many deltas each, without waiting for the disk
// within a run.
func writeRuns(ctx context.Context, l *pebblelog.Log, thread, runs, deltas int) error {
	r := rand.New(rand.NewPCG(seed, uint64(thread)))
	for run := range runs {
		ids := fmt.Sprintf(`"threadId":%q,"runId":"run-%d"`, threadKey(thread).Thread, run)
		w, err := l.BeginRun(ctx, threadKey(thread), eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED",` + ids + `}`)})
		if err != nil {
			return err
		}
		for range deltas {
			if err := w.Enqueue(ctx, delta130(r, thread*runs+run)); err != nil {
				return err
			}
		}
		if err := w.Enqueue(ctx, []byte(`{"type":"RUN_FINISHED",`+ids+`}`)); err != nil {
			return err
		}
		if _, err := w.Sync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// compacted is the size of a store after something was written into it.
func (b *bench) compacted(ctx context.Context, write func(*pebblelog.Log) error) (size int64, err error) {
	l, dir, err := b.openLog()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := errors.Join(write(l), l.Compact(ctx), l.Close()); err != nil {
		return 0, err
	}
	// What is left of write-ahead logs goes when it is opened next.
	if l, err = pebblelog.Open(dir, pebblelog.Options{}); err != nil {
		return 0, err
	}
	if err := l.Close(); err != nil {
		return 0, err
	}
	return size, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
}

// openLarge is P-L5: opening a store of 100,000 threads with a run of 50 records
// each, after it was closed and after its process was killed with a write-ahead
// log of some megabytes.
func openLarge(_ context.Context, b *bench) (_ []Result, err error) {
	ctx := context.Background()
	l, dir, err := b.openLog()
	if err != nil {
		return nil, err
	}
	killed := dir + "-killed"
	defer func() { err = errors.Join(err, os.RemoveAll(dir), os.RemoveAll(killed)) }()
	const records, writers = 50, 64
	threads := b.n(100_000)
	fill := func(from, to int) error {
		_, err := together(writers, func(worker int) error {
			for i := from + worker; i < to; i += writers {
				if _, err := l.Append(ctx, threadKey(i), finishedRun(i, records)); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	// The last 1,000 threads are what the killed process had not flushed. With
	// the engine at rest a copy is what its death would leave.
	unflushed := max(threads/100, 1)
	if err := errors.Join(fill(0, threads-unflushed), l.Compact(ctx), fill(threads-unflushed, threads), copyStore(killed, dir), l.Close()); err != nil {
		return nil, err
	}
	var out []Result
	for _, c := range []struct {
		what, dir string
		goal      time.Duration
		words     string
	}{
		{"a clean close", dir, 50 * time.Millisecond, "≤ 50 ms"},
		{"kill -9", killed, time.Second, "≤ 1 s"},
	} {
		began, heap, err := openOnce(c.dir)
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("open a store of %s threads and %s records after %s", grouped(int64(threads)), grouped(int64(threads*records)), c.what)
		out = append(out,
			result(what, c.words).got(took(began)).atMost(float64(began), float64(c.goal)),
			result("heap for it, after "+c.what, "≤ 64 MiB").
				got(short(float64(heap)/(1<<20))+" MiB").atMost(float64(heap), 64<<20))
	}
	return out, nil
}

// finishedRun is a run of so many records of the i-th thread.
func finishedRun(i, records int) eventlog.Batch {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	ids := fmt.Sprintf(`"threadId":%q,"runId":"run-%d"`, threadKey(i).Thread, i)
	batch := eventlog.Batch{Events: [][]byte{[]byte(`{"type":"RUN_STARTED",` + ids + `}`)}, Origin: eventlog.OriginImport}
	for range records - 2 {
		batch.Events = append(batch.Events, delta130(r, i))
	}
	batch.Events = append(batch.Events, []byte(`{"type":"RUN_FINISHED",`+ids+`}`))
	return batch
}

// openOnce opens a log, and says how long that took and what the heap grew by,
// what no longer is used included.
func openOnce(dir string) (time.Duration, uint64, error) {
	debug.FreeOSMemory()
	before := heapBytes()
	began := time.Now()
	l, err := pebblelog.Open(dir, pebblelog.Options{})
	if err != nil {
		return 0, 0, err
	}
	opened := time.Since(began)
	after := heapBytes()
	return opened, max(after, before) - before, l.Close()
}

// longThread is P-L7: an append to a thread of 10,000,000 records, and one to a
// thread of 1,000 in the same log. They take turns.
func longThread(ctx context.Context, b *bench) (_ []Result, err error) {
	l, dir, err := b.openLog()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close(), os.RemoveAll(dir)) }()
	const size = 5000
	for thread, records := range []int{b.n(10_000_000), b.n(1000)} {
		for records > 0 {
			n := min(records, size)
			if _, err := l.Append(ctx, threadKey(thread), batchOf(n)); err != nil {
				return nil, err
			}
			records -= n
		}
	}
	var waits [2][]time.Duration
	for range b.rounds(20) {
		for thread := range waits {
			for range b.n(200) {
				began := time.Now()
				if _, err := l.Append(ctx, threadKey(thread), batchOf(1)); err != nil {
					return nil, err
				}
				waits[thread] = append(waits[thread], time.Since(began))
			}
		}
	}
	long, other := median(waits[0]), median(waits[1])
	ratio := float64(long) / float64(other)
	return []Result{
		result("append at record 10,000,000 of a thread, p50; beside it at record 1,000", "within 20 %").
			got(took(long)).against(took(other), ratio).atMost(max(ratio, 1/ratio), 1.2),
	}, nil
}

// copyStore copies the directory of a store in use. A file that is replaced at
// that moment, as the one that says who has the store, is another when it is
// tried again.
func copyStore(to, dir string) error {
	for range 10 {
		err := os.CopyFS(to, os.DirFS(dir))
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	return errors.New("the store's directory does not stay as it is")
}
