package feed

import (
	"context"
	"errors"
	"iter"
	"math"
	"sync"

	"github.com/agstore/agstore/eventlog"
)

// Source is what a hub needs of a log.
type Source interface {
	Thread(ctx context.Context, thread eventlog.ThreadKey) (eventlog.Thread, error)
	Read(ctx context.Context, thread eventlog.ThreadKey, opts eventlog.ReadOptions) iter.Seq2[eventlog.Record, error]
	Commits(ctx context.Context, from uint64) iter.Seq2[eventlog.Commit, error]
	Watermark() uint64
	Wait(ctx context.Context, position uint64) (uint64, error)
}

// Hub tells the followers of threads when there is more to read. It holds no
// records: each follower reads the log at its own pace. It is safe for
// concurrent use.
type Hub struct {
	log    Source
	cancel context.CancelFunc
	ended  chan struct{} // closed when the hub has stopped watching

	mu     sync.Mutex
	topics map[eventlog.ThreadKey]*topic
}

// topic is one followed thread.
type topic struct {
	followers int
	more      chan struct{} // closed, and replaced, at every commit to the thread
}

// NewHub watches log until Close.
func NewHub(log Source) *Hub {
	ctx, cancel := context.WithCancel(context.Background())
	h := &Hub{
		log:    log,
		cancel: cancel,
		ended:  make(chan struct{}),
		topics: make(map[eventlog.ThreadKey]*topic),
	}
	go h.watch(ctx, log.Watermark())
	return h
}

// Close stops the hub and ends all followers with ErrClosed.
func (h *Hub) Close() error {
	h.cancel()
	<-h.ended
	return nil
}

// watch wakes the followers of every thread that is written to.
func (h *Hub) watch(ctx context.Context, seen uint64) {
	defer close(h.ended)
	for {
		mark, err := h.log.Wait(ctx, seen+1)
		if err != nil {
			return // closed: the hub, or the log
		}
		if h.followed() {
			for c, err := range h.log.Commits(ctx, seen+1) {
				if err != nil {
					// Which threads have more cannot be told: all may have.
					h.wakeAll()
					break
				}
				if c.Stream != eventlog.StreamCompanion {
					h.wake(c.Thread)
				}
				mark = max(mark, c.Position)
			}
		}
		seen = mark
	}
}

// followed reports whether anybody follows anything. Who begins after this was
// asked reads what was durable by then from the log.
func (h *Hub) followed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics) > 0
}

func (h *Hub) wake(thread eventlog.ThreadKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[thread]; t != nil {
		t.wake()
	}
}

func (h *Hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		t.wake()
	}
}

func (t *topic) wake() {
	close(t.more)
	t.more = make(chan struct{})
}

// Follow yields the records of a thread with seq above after: those stored,
// then those to come. A thread that does not exist yet is waited for.
//
// The sequence ends when the caller stops, or with an error: that of the
// context, [eventlog.ErrClosed] when hub or log are closed, [eventlog.ErrErased]
// when the thread was erased, or that of a failed read. One error is no end: an
// [eventlog.GapError] says that what came after the follower's last record, or
// all that it has had, was removed; what is there comes behind it.
func (h *Hub) Follow(ctx context.Context, thread eventlog.ThreadKey, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		h.join(thread)
		defer h.leave(thread)
		f := follower{after: after}
		for {
			// The signal is taken before reading: what is committed while we
			// read closes it.
			more := h.signal(thread)
			for record, err := range f.read(ctx, h.log, thread) {
				if errors.Is(err, eventlog.ErrThreadNotFound) {
					break
				}
				if !yield(record, err) || err != nil && !f.gap(err) {
					return
				}
				if err == nil {
					f.after = record.Seq
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(eventlog.Record{}, followError(thread, context.Cause(ctx)))
				return
			case <-h.ended:
				yield(eventlog.Record{}, followError(thread, eventlog.ErrClosed))
				return
			}
		}
	}
}

// follower is where one follower is.
type follower struct {
	after uint64
	told  uint64 // the last seq of the gaps that it was told of
}

// read yields what a follower has not had.
func (f *follower) read(ctx context.Context, log Source, thread eventlog.ThreadKey) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		info, err := log.Thread(ctx, thread)
		if err != nil {
			yield(eventlog.Record{}, err)
			return
		}
		// Whoever has anything of before the first seq has what was removed.
		if last := info.FirstSeq - 1; f.after > 0 && f.after <= last && last > f.told {
			gap := &eventlog.GapError{From: min(f.after+1, last), To: last, Reason: eventlog.RemovalClear}
			if !yield(eventlog.Record{}, followError(thread, gap)) {
				return
			}
		}
		opts := eventlog.ReadOptions{From: f.after + 1}
		switch f.after {
		case math.MaxUint64:
			return // no seq is above it
		case 0:
			opts.From = 0
		}
		log.Read(ctx, thread, opts)(yield)
	}
}

// gap takes note of a gap; false if err is another error.
func (f *follower) gap(err error) bool {
	var gap *eventlog.GapError
	if !errors.As(err, &gap) {
		return false
	}
	f.told = max(f.told, gap.To)
	f.after = max(f.after, gap.To)
	return true
}

func followError(thread eventlog.ThreadKey, cause error) error {
	return &eventlog.Error{Op: "follow", Key: thread, Err: cause}
}

func (h *Hub) join(thread eventlog.ThreadKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[thread]
	if t == nil {
		t = &topic{more: make(chan struct{})}
		h.topics[thread] = t
	}
	t.followers++
}

func (h *Hub) leave(thread eventlog.ThreadKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[thread]
	if t.followers--; t.followers == 0 {
		delete(h.topics, thread)
	}
}

func (h *Hub) signal(thread eventlog.ThreadKey) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[thread].more
}
