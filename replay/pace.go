package replay

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/agstore/agstore/eventlog"
)

// Pace yields records with the pauses that lay between them when they were
// committed, speed times as fast; a speed of 0 or less: without pauses. A pause
// is at most limit long; 0: no limit. Time that passed anyway, while a record was
// waited for or made use of, is part of the pause: so records that come live come
// without delay. It ends with the context's error; an [eventlog.GapError] among
// the records is passed on, and is no end.
func Pace(ctx context.Context, records iter.Seq2[eventlog.Record, error], speed float64, limit time.Duration) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		var last, given time.Time
		for r, err := range records {
			if err == nil && speed > 0 && !last.IsZero() {
				err = pause(ctx, time.Until(given.Add(pauseFor(r.Time.Sub(last), speed, limit))))
			}
			if errors.Is(err, eventlog.ErrGap) { // no end, and no record
				if !yield(r, err) {
					return
				}
				continue
			}
			last, given = r.Time, time.Now()
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func pauseFor(gap time.Duration, speed float64, limit time.Duration) time.Duration {
	d := time.Duration(float64(gap) / speed)
	if limit > 0 {
		d = min(d, limit)
	}
	return d
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func formatSeq(n uint64) string { return strconv.FormatUint(n, 10) }
