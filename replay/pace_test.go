package replay_test

import (
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/replay"
)

// A replay takes the time that lay between the records, divided by the speed, and
// no pause is over the limit. Time is the test's own.
func TestPaceTakesItsTime(t *testing.T) {
	for _, c := range []struct {
		gap, limit, want time.Duration
		speed            float64
	}{
		{200 * time.Millisecond, 2 * time.Second, 200 * time.Millisecond, 1},
		{300 * time.Millisecond, 2 * time.Second, 100 * time.Millisecond, 3},
		{time.Hour, 2 * time.Second, 2 * time.Second, 1},
		{time.Hour, 0, 360 * time.Millisecond, 10000},
		{time.Hour, 0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			records := func(yield func(eventlog.Record, error) bool) {
				_ = yield(eventlog.Record{Seq: 1, Time: began}, nil) &&
					yield(eventlog.Record{}, &eventlog.GapError{From: 2, To: 2, Reason: eventlog.RemovalClear}) &&
					yield(eventlog.Record{Seq: 3, Time: began.Add(c.gap)}, nil)
			}
			start, seen, gaps := time.Now(), 0, 0
			for _, err := range replay.Pace(t.Context(), iter.Seq2[eventlog.Record, error](records), c.speed, c.limit) {
				switch {
				case errors.Is(err, eventlog.ErrGap):
					gaps++
				case err != nil:
					t.Fatal(err)
				default:
					seen++
				}
			}
			if took := time.Since(start); took != c.want || seen != 2 || gaps != 1 {
				t.Errorf("gap %v at speed %v, limit %v: %d records and %d gaps in %v, want %v", c.gap, c.speed, c.limit, seen, gaps, took, c.want)
			}
		})
	}
}
