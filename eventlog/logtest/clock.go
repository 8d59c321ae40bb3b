package logtest

import (
	"sync"
	"time"
)

// clock is a time that only tests move.
type clock struct {
	mu     sync.Mutex
	at     time.Time
	timers map[chan time.Time]time.Time
}

func newClock() *clock { return &clock{at: time.Date(2030, 1, 2, 3, 4, 5, 678_000, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	for fired, at := range c.timers {
		if !c.at.Before(at) {
			fired <- c.at
			delete(c.timers, fired)
		}
	}
}

// after is a timer of this clock.
func (c *clock) after(d time.Duration) (<-chan time.Time, func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fired := make(chan time.Time, 1)
	if c.timers == nil {
		c.timers = make(map[chan time.Time]time.Time)
	}
	c.timers[fired] = c.at.Add(d)
	return fired, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.timers[fired]
		delete(c.timers, fired)
		return waits
	}
}
