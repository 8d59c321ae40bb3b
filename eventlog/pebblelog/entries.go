package pebblelog

import "github.com/cockroachdb/pebble/v2"

// entries are keys with values on their way into a batch. A batch is cheaper to
// apply where its keys are in order: the engine goes on from the one before.
type entries struct {
	data  []byte
	sizes []entrySize
}

type entrySize struct{ key, value int }

// add copies a key and its value and gives the number of their bytes.
func (e *entries) add(key, value []byte) int {
	e.data = append(append(e.data, key...), value...)
	e.sizes = append(e.sizes, entrySize{len(key), len(value)})
	return len(key) + len(value)
}

// into writes all into a batch.
func (e *entries) into(b *pebble.Batch) {
	data := e.data
	for _, n := range e.sizes {
		// Writing into a batch in memory fails only for a batch that was applied.
		_ = b.Set(data[:n.key], data[n.key:n.key+n.value], nil)
		data = data[n.key+n.value:]
	}
}

// empty gives the room back.
func (e *entries) empty() entries { return entries{data: e.data[:0], sizes: e.sizes[:0]} }
