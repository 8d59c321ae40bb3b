package pebblelog

import (
	"context"

	"github.com/agstore/agstore/eventlog"
)

// Compact rewrites the engine's files so that they hold what the store has and
// nothing else, each key once and as small as it gets. It changes nothing that
// can be read, and appends go on meanwhile.
func (l *Log) Compact(ctx context.Context) error {
	// The engine leaves a table of the last level as it is if there is nothing to
	// merge with it, however badly it was packed when it came there. The removal
	// of two keys that nobody has, before and behind all others, is something to
	// merge with all of them.
	first, last, end := []byte{0}, []byte{0xff}, []byte{0xff, 0}
	err := l.writeRows(ctx, func(put func(key, value []byte)) error {
		put(first, nil)
		put(last, nil)
		return nil
	})
	if err != nil {
		return err
	}
	ctx, stop := l.whileSound(ctx) // an engine that fails never ends a compaction
	defer stop()
	if err := l.compact(ctx, keyRange{from: first, to: end}); err != nil {
		err = damage(err)
		return &eventlog.Error{Op: "compact", Err: err, Hint: l.advice(err)}
	}
	return nil
}
