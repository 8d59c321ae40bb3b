package pebblelog

import (
	"context"

	"github.com/agstore/agstore/eventlog"
)

// Clear implements [eventlog.Log]. The companion stream of the thread stays.
func (l *Log) Clear(ctx context.Context, key eventlog.ThreadKey, opts eventlog.RemoveOptions) (eventlog.Receipt, error) {
	return l.remove(ctx, removal{kind: eventlog.RemovalClear, op: "clear", key: key, opts: opts})
}
