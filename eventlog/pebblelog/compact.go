package pebblelog

import (
	"context"

	"github.com/agstore/agstore/eventlog"
)

// Compact rewrites the engine's files so that they hold what the store has and
// nothing else, each key once and as small as it gets. It changes nothing that
// can be read. Appends go on meanwhile.
func (l *Log) Compact(ctx context.Context) error {
	return l.reading("compact", eventlog.ThreadKey{}, func() error {
		return l.db.Compact(ctx, []byte{0}, []byte{0xff}, true)
	})
}
