package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
	"unicode/utf16"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
)

func foldRows() []row {
	return []row{
		{id: "P-F1", run: rawDeltas},
		{id: "P-F2", run: longTranscripts},
		{id: "P-F3", run: oneLongMessage},
		{id: "P-F4", run: stateDeltas},
		{id: "P-F5", run: streamPasses},
		{id: "P-F6", run: snapshots},
	}
}

// rawDeltas is P-F1: text from bytes to view, and the official client's way
// from the same bytes.
func rawDeltas(ctx context.Context, b *bench) ([]Result, error) {
	s := oneMessage(b.n(10_000))
	repeat, n := b.n(100), len(s.events)
	var view *fold.View
	c := costs(b.rounds(7), func() cost {
		return oneCore(func() {
			for range repeat {
				f := fold.New(fold.Options{})
				s.into(f)
				view = f.View()
			}
		})
	})[0]
	c = cost{time: c.time / time.Duration(repeat), allocs: c.allocs / float64(repeat)}
	perEvent := c.allocs / float64(n)
	versus := result(fmt.Sprintf("the same against the official client, %s events", grouped(int64(n))), "≥ 200×").
		got(perSecond(c.rate(n), "events"))
	official, err := b.officialClient(ctx, s)
	switch {
	case errors.Is(err, errNotInstalled):
		versus = versus.unmeasured(err.Error())
	case err != nil:
		return nil, err
	default:
		if text := len(utf16.Encode([]rune(view.Messages[0].Content.Text))); official.Messages != 1 || official.Text != text {
			return nil, fmt.Errorf("the official client has %d messages with %d characters, agstore 1 with %d", official.Messages, official.Text, text)
		}
		ratio := c.rate(n) / official.rate(n)
		versus = versus.against(perSecond(official.rate(n), "events"), ratio).atLeast(ratio, 200)
	}
	return []Result{
		result("decode + fold of raw text deltas, one core", "≥ 4,000,000 events/s").
			got(perSecond(c.rate(n), "events")).atLeast(c.rate(n), 4e6),
		versus,
		result("allocations per event of it", "≤ 0.1").got(short(perEvent)).atMost(perEvent, 0.1),
	}, nil
}

// longTranscripts is P-F2: deltas to the newest and to random messages of
// transcripts of three lengths.
func longTranscripts(_ context.Context, b *bench) ([]Result, error) {
	lengths := []int{10, 1000, 100_000}
	deltas := b.n(100_000)
	var newest, random []func() cost
	for _, n := range lengths {
		n = max(b.n(n), 2)
		opened := openMessages(n)
		toNewest, toRandom := opened.behind(), opened.behind()
		r := rand.New(rand.NewPCG(seed, 6))
		for range deltas {
			toNewest.delta(messageID(n-1), text(r))
			toRandom.delta(messageID(r.IntN(n)), text(r))
		}
		of := func(s *stream) func() cost {
			return func() cost {
				f := fold.New(fold.Options{})
				opened.into(f)
				return oneCore(func() { s.into(f) })
			}
		}
		newest, random = append(newest, of(toNewest)), append(random, of(toRandom))
	}
	flat := func(what string, works []func() cost, goal float64) Result {
		times := costs(b.rounds(5), works...)
		least, most, all := times[0].time, times[0].time, ""
		for i, c := range times {
			least, most = min(least, c.time), max(most, c.time)
			if i > 0 {
				all += " / "
			}
			all += took(c.per(deltas))
		}
		ratio := float64(most) / float64(least)
		return result(what+", 10 / 1,000 / 100,000 messages", fmt.Sprintf("within %g×", goal)).
			got(all).against("the fastest of them", ratio).atMost(ratio, goal)
	}
	return []Result{
		flat("delta to the newest message", newest, 1.5),
		flat("delta to a random message", random, 3),
	}, nil
}

// oneLongMessage is P-F3: one message from very many deltas of one byte.
func oneLongMessage(_ context.Context, b *bench) ([]Result, error) {
	few, many := b.n(100_000), b.n(1_000_000)
	opened := openMessages(1)
	delta := opened.behind()
	delta.delta(messageID(0), "x")
	grow := func(n int, look func()) {
		f := fold.New(fold.Options{})
		opened.into(f)
		seq := delta.seq
		for i := range n {
			seq++
			f.Apply(fold.Record{Seq: seq, Run: runKey, Raw: delta.events[0]})
			if look != nil && i%64 == 0 {
				look()
			}
		}
		if len(f.View().Messages[0].Content.Text) < n {
			panic("text was lost")
		}
	}
	times := costs(b.rounds(5),
		func() cost { return oneCore(func() { grow(few, nil) }) },
		func() cost { return oneCore(func() { grow(many, nil) }) },
	)
	ratio := float64(times[1].time) / float64(times[0].time)
	var peaks []float64
	for range b.rounds(3) {
		peaks = append(peaks, float64(peakHeap(func(look func()) { grow(many, look) })))
	}
	peak, size := median(peaks), float64(many)
	return []Result{
		result("one message from 1,000,000 deltas of one byte, against 100,000", "≤ 12× the time").
			got(took(times[1].time)).against(took(times[0].time), ratio).atMost(ratio, 12),
		result("peak of the heap meanwhile, against the text", "≤ 4×").
			got(grouped(int64(peak))+" bytes").against(grouped(int64(size))+" bytes", peak/size).atMost(peak/size, 4),
	}, nil
}

// stateDeltas is P-F4: small changes of states of three sizes.
func stateDeltas(ctx context.Context, b *bench) ([]Result, error) {
	var out []Result
	for _, size := range []struct {
		bytes int
		name  string
		goal  time.Duration
	}{{1 << 10, "1 KB", 5 * time.Microsecond}, {100 << 10, "100 KB", 10 * time.Microsecond}, {1 << 20, "1 MB", 30 * time.Microsecond}} {
		opened, tasks := stateOf(size.bytes)
		s, n := opened.behind(), max(b.n(10_000), 200)
		s.progress(n, tasks)
		c := costs(b.rounds(5), func() cost {
			f := fold.New(fold.Options{})
			opened.into(f)
			return oneCore(func() { readNowAndThen(f, s, 100) })
		})[0]
		out = append(out, result("one-operation STATE_DELTA on "+size.name+", view read every 100", "≤ "+took(size.goal)).
			got(took(c.per(n))).atMost(float64(c.per(n)), float64(size.goal)))
		if size.name != "100 KB" {
			continue
		}
		versus, err := b.stateVersus(ctx, opened, tasks, c.per(n))
		if err != nil {
			return nil, err
		}
		out = append(out, versus)
	}
	return out, nil
}

// readNowAndThen folds a stream and reads the view after every so many events.
func readNowAndThen(f *fold.Fold, s *stream, every int) {
	seq := s.seq
	for i, raw := range s.events {
		seq++
		f.Apply(fold.Record{Seq: seq, Run: runKey, Raw: raw})
		if (i+1)%every == 0 && len(f.View().State) == 0 {
			panic("the state was lost")
		}
	}
}

// stateVersus compares with the official client, which is given fewer deltas.
// What it takes without any is not counted.
func (b *bench) stateVersus(ctx context.Context, opened *stream, tasks int, own time.Duration) (Result, error) {
	r := result("the same on 100 KB, against the official client", "≥ 100× as fast").got(took(own))
	deltas := max(b.n(300), 20)
	var seconds [2]float64
	for i, n := range []int{0, deltas} {
		s := &stream{events: append([][]byte(nil), opened.events...)}
		s.progress(n, tasks)
		s.end()
		official, err := b.officialClient(ctx, s)
		if errors.Is(err, errNotInstalled) {
			return r.unmeasured(err.Error()), nil
		}
		if err != nil {
			return r, err
		}
		seconds[i] = official.Seconds
	}
	peer := folded{Seconds: max(seconds[1]-seconds[0], 1e-9)}.per(deltas)
	ratio := float64(peer) / float64(own)
	return r.against(took(peer), float64(own)/float64(peer)).atLeast(ratio, 100), nil
}

// streamPasses is P-F5: what else is done with whole streams. Verifying and
// expanding get decoded events, compaction raw ones.
func streamPasses(_ context.Context, b *bench) ([]Result, error) {
	raw := someMessages(b.n(1000), 50)
	text, err := decoded(raw)
	if err != nil {
		return nil, err
	}
	chunks, err := decoded(someChunks(b.n(1000), 50))
	if err != nil {
		return nil, err
	}
	var failed error
	c := costs(b.rounds(7), func() cost {
		return oneCore(func() {
			var v agui.Verifier
			for _, e := range text {
				if err := v.Verify(0, e); err != nil {
					failed = err
				}
			}
		})
	}, func() cost {
		return oneCore(func() {
			var x agui.Expander
			for _, e := range chunks {
				if _, err := x.Expand(e); err != nil {
					failed = err
				}
			}
		})
	}, func() cost {
		return oneCore(func() {
			left := 0
			for range agui.Compact(slices.Values(raw.events)) {
				left++
			}
			if left*10 > len(raw.events) {
				failed = fmt.Errorf("%d events were compacted to %d", len(raw.events), left)
			}
		})
	})
	if failed != nil {
		return nil, failed
	}
	const goal = 1.5e6
	passed := func(what string, rate float64) Result {
		return result(what, "≥ 1,500,000 events/s").got(perSecond(rate, "events")).atLeast(rate, goal)
	}
	return []Result{
		passed("verify decoded events, one core", c[0].rate(len(text))),
		passed("chunk expansion of decoded events, one core", c[1].rate(len(chunks))),
		passed("compaction of raw events, one core", c[2].rate(len(raw.events))),
	}, nil
}

// snapshots is P-F6: a fold with 1,000 messages put away and taken up again.
func snapshots(_ context.Context, b *bench) ([]Result, error) {
	const messages = 1000
	f := fold.New(fold.Options{})
	someMessages(messages, 20).into(f)
	want := f.View().AppendJSON(nil)
	repeat := b.n(100)
	var snapshot []byte
	var restored *fold.Fold
	var failed error
	c := costs(b.rounds(7),
		func() cost {
			return oneCore(func() {
				for range repeat {
					snapshot = f.Snapshot(nil)
				}
			})
		}, func() cost {
			return oneCore(func() {
				for range repeat {
					if restored, failed = fold.Restore(snapshot, fold.Options{}); failed != nil {
						return
					}
				}
			})
		})
	if failed != nil {
		return nil, failed
	}
	if !bytes.Equal(restored.View().AppendJSON(nil), want) {
		return nil, errors.New("the fold that was restored shows another view")
	}
	const goal = 2 * time.Millisecond
	once := func(what string, c cost) Result {
		return result(what, "≤ "+took(goal)).got(took(c.per(repeat))).atMost(float64(c.per(repeat)), float64(goal))
	}
	return []Result{
		once(fmt.Sprintf("snapshot of a fold with 1,000 messages, %s bytes", grouped(int64(len(snapshot)))), c[0]),
		once("restore of it", c[1]),
	}, nil
}

// decoded is a stream's events.
func decoded(s *stream) ([]*agui.Event, error) {
	var d agui.Decoder
	out := make([]*agui.Event, len(s.events))
	for i, raw := range s.events {
		out[i] = new(agui.Event)
		if err := d.Decode(raw, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
