package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

func logRows() []row {
	return []row{
		{id: "P-L1", run: oneWriter},
		{id: "P-L2", run: manyWriters},
		{id: "P-L2S", long: true, run: batchSizes},
		{id: "P-L3", run: oneRun},
		{id: "P-L4", run: coldRead},
		{id: "P-L5", long: true, run: openLarge},
		{id: "P-L6", run: bytesOnDisk},
		{id: "P-L7", long: true, run: longThread},
	}
}

// payload is the event that the rows of the log write.
var payload = []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_01JB7Q00000000000000000001","delta":"as a model gives them, a few words "}`)

func threadKey(i int) eventlog.ThreadKey {
	return eventlog.ThreadKey{Scope: "bench", Thread: fmt.Sprintf("thread-%d", i)}
}

// oneWriter is P-L1: what one append costs beside the sync that it needs. A
// file that grows by the same bytes is the limit; they take turns.
func oneWriter(ctx context.Context, b *bench) (_ []Result, err error) {
	l, _, err := b.openLog()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	f, err := os.Create(filepath.Join(b.data, "bare"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	calls := b.n(300)
	var bare, own []time.Duration
	for range b.rounds(10) {
		for range calls {
			began := time.Now()
			if _, err := f.Write(payload); err != nil {
				return nil, err
			}
			if err := f.Sync(); err != nil {
				return nil, err
			}
			bare = append(bare, time.Since(began))
		}
		for range calls {
			began := time.Now()
			if _, err := l.Append(ctx, threadKey(0), eventlog.Batch{Events: [][]byte{payload}}); err != nil {
				return nil, err
			}
			own = append(own, time.Since(began))
		}
	}
	p50, limit := median(own), median(bare)
	ratio := float64(p50) / float64(limit)
	return []Result{
		result("durable append, 1 writer, 1 event per commit, p50; limit: write + fsync", "≤ 1.3×").
			got(took(p50)).against(took(limit), ratio).atMost(ratio, 1.3),
	}, nil
}

// coldRead is P-L4: a thread of 10,000 events from a log that has just been
// opened. The blocks may be in the file cache of the system, not in the log's.
func coldRead(ctx context.Context, b *bench) ([]Result, error) {
	const events = 10_000
	l, dir, err := b.openLog()
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 7))
	for range events / 100 {
		var batch eventlog.Batch
		for range 100 {
			batch.Events = append(batch.Events, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":%q}`, messageID(1), text(r)))
		}
		if _, err := l.Append(ctx, threadKey(0), batch); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	rates, err := takeTurns(b.rounds(9), func() (float64, error) {
		l, err := pebblelog.Open(dir, pebblelog.Options{})
		if err != nil {
			return 0, err
		}
		began, n := time.Now(), 0
		for _, err := range l.Read(ctx, threadKey(0), eventlog.ReadOptions{}) {
			if err != nil {
				return 0, errors.Join(err, l.Close())
			}
			n++
		}
		took := time.Since(began)
		if n != events {
			return 0, fmt.Errorf("read %d records of %d", n, events)
		}
		return float64(n) / took.Seconds(), l.Close()
	})
	if err != nil {
		return nil, err
	}
	return []Result{
		result("read a thread of 10,000 events, cold block cache", "≥ 1,000,000 records/s").
			got(perSecond(rates[0], "records")).atLeast(rates[0], 1e6),
	}, nil
}
