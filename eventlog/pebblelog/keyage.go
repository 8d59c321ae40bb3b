package pebblelog

import (
	"encoding/binary"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Old idempotency keys are removed now and then, some at a time.
const (
	pruneEvery = time.Minute
	pruneItems = 1000
)

// prune removes keys past their age with a group that is written anyway. A
// failure to read them is no failure of the group.
func (l *Log) prune(g *group) {
	now := l.clock()
	if g.last == 0 || now-l.pruned < pruneEvery.Microseconds() {
		return
	}
	l.pruned = now
	it, err := l.db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{prefixKeyTime},
		UpperBound: ordinalKey(prefixKeyTime, uint64(max(0, now-l.opts.KeyAge.Microseconds()))),
	})
	if err != nil {
		return
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok && n < pruneItems; ok = it.Next() {
		n++
		l.pruneKey(g, it.Key())
	}
}

// pruneKey removes one entry of the time index, and the key itself unless it
// was used anew since.
func (l *Log) pruneKey(g *group, entry []byte) {
	micros, ord := int64(binary.BigEndian.Uint64(entry[1:])), binary.BigEndian.Uint64(entry[9:])
	k := idempotencyKey(ord, keyTimeName(entry))
	_ = g.batch.Delete(entry, nil)
	if row, ok := g.keys[string(k)]; ok && row.time != micros {
		return
	}
	value, ok, err := l.get(k)
	if err != nil || !ok {
		return
	}
	if row, err := l.dec.key(value); err == nil && row.time == micros {
		_ = g.batch.Delete(k, nil)
	}
}
