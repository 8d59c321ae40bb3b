package pebblelog

import (
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

// WithEngine gives a test the last word on how the engine is opened.
func (o Options) WithEngine(f func(*pebble.Options)) Options {
	o.engine = f
	return o
}

// WithTicks gives the log a clock for its waits that ticks when the test says.
func (o Options) WithTicks(ticks <-chan time.Time) Options {
	o.After = func(time.Duration) (<-chan time.Time, func() bool) {
		return ticks, func() bool { return false }
	}
	return o
}

// Flush has the engine write what it has in memory to tables.
func (l *Log) Flush() error { return l.reading("flush", eventlog.ThreadKey{}, l.flushNow) }

// FinishRemovals waits until no removal that a former process has left is under
// way.
func (l *Log) FinishRemovals() {
	for {
		l.remover.mu.Lock()
		var t *task
		if len(l.remover.tasks) > 0 {
			t = l.remover.tasks[0]
		}
		l.remover.mu.Unlock()
		if t == nil {
			return
		}
		<-t.done
	}
}
