package projection

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/agstore/agstore/fold"
)

// owner is whose rows stored views are (eventlog.Space).
const owner = "view"

// Rows are described in docs/format.md, "Stored views". Their keys begin with one
// of these.
const (
	checkpointRows = 'c' // first seq of the run, seq
	bodyRows       = 'b' // list, number
)

const rowVersion = 1

// errRow says that a row is not one that can be used here: of another version,
// of a fold with other options, or damaged. It is passed over.
var errRow = errors.New("no row of a stored view that can be used")

// place names a checkpoint of a thread: that of the lineage of a run, true at a
// seq. Run is the seq of the run's first record, 0 for what belongs to no run.
type place struct{ run, seq uint64 }

func (p place) key() []byte {
	key := binary.BigEndian.AppendUint64([]byte{checkpointRows}, p.run)
	return binary.BigEndian.AppendUint64(key, p.seq)
}

func placeOf(key []byte) (place, bool) {
	if len(key) != 17 || key[0] != checkpointRows {
		return place{}, false
	}
	return place{binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:])}, true
}

// body names a row of entries: those of each list are numbered from 1.
type body struct {
	list   fold.List
	number uint64
}

func (b body) key() []byte {
	return binary.BigEndian.AppendUint64([]byte{bodyRows, byte(b.list)}, b.number)
}

func bodyOf(key []byte) (body, bool) {
	if len(key) != 10 || key[0] != bodyRows {
		return body{}, false
	}
	return body{fold.List(key[1]), binary.BigEndian.Uint64(key[2:])}, true
}

// checkpoint is a fold at a place: its lists, told by those of the checkpoint
// before it and by rows of entries.
type checkpoint struct {
	place
	parent *place // nil: a base, that is told by rows alone
	// How many checkpoints there are since the last base, this one included, how
	// long they are together, and how long the base is.
	depth, since, base int
	rest               []byte // the entry of fold.ListRest
	lists              [fold.Lists][]piece
}

// piece is a part of a list: n entries from from on, of one of the list's rows, or
// of the list of the parent if row is 0.
type piece struct {
	row     uint64
	from, n int
}

// count is how many entries a list has.
func (c *checkpoint) count(l fold.List) int {
	n := 0
	for _, p := range c.lists[l] {
		n += p.n
	}
	return n
}

// optionsSum tells folds apart that come to different views.
func optionsSum(opts fold.Options) uint32 {
	l := opts.Limits.WithDefaults()
	verify := 1
	if opts.NoVerify {
		verify = 0
	}
	var b []byte
	for _, n := range [...]int{int(opts.Profile), verify, l.EventBytes, l.PatchOps, l.PatchCopied, l.StateBytes, l.Nesting} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return crc32.ChecksumIEEE(b)
}

// encode gives the value of a checkpoint's row.
func (c *checkpoint) encode(opts fold.Options) []byte {
	b := []byte{rowVersion, fold.EntriesVersion}
	if opts.Profile == fold.Reference {
		b[1] = fold.SnapshotVersion
	}
	b = binary.BigEndian.AppendUint32(b, optionsSum(opts))
	if c.parent == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = binary.AppendUvarint(b, c.parent.run)
		b = binary.AppendUvarint(b, c.parent.seq)
	}
	b = binary.AppendUvarint(b, uint64(c.depth))
	b = binary.AppendUvarint(b, uint64(c.since))
	b = binary.AppendUvarint(b, uint64(c.base))
	b = binary.AppendUvarint(b, uint64(len(c.rest)))
	b = append(b, c.rest...)
	for l, list := range c.lists {
		if fold.List(l) == fold.ListRest {
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(list)))
		last := uint64(0)
		for _, p := range list {
			if p.row == 0 {
				b = append(b, 0)
			} else {
				// Rows are mostly numbered in the order of the list: the differences are small.
				b = append(b, 1)
				b = binary.AppendVarint(b, int64(p.row-last))
				last = p.row
			}
			b = binary.AppendUvarint(b, uint64(p.from))
			b = binary.AppendUvarint(b, uint64(p.n))
		}
	}
	return b
}

// rowReader reads numbers; the first fault stays.
type rowReader struct {
	b   []byte
	bad bool
}

func (r *rowReader) uint() uint64 {
	n, used := binary.Uvarint(r.b)
	if used <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[used:]
	return n
}

func (r *rowReader) int() int64 {
	n, used := binary.Varint(r.b)
	if used <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[used:]
	return n
}

func (r *rowReader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

// number reads a number of things of which each takes a byte at least.
func (r *rowReader) number() int {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(n)
}

const maxCount = 1 << 40

func (r *rowReader) small() int {
	n := r.uint()
	if n > maxCount {
		r.bad = true
		return 0
	}
	return int(n)
}

func decodeCheckpoint(at place, value []byte, opts fold.Options) (*checkpoint, error) {
	c := &checkpoint{place: at}
	want := c.encode(opts)[:6]
	if len(value) < len(want) || string(value[:len(want)]) != string(want) {
		return nil, errRow
	}
	r := &rowReader{b: value[len(want):]}
	switch kind := r.bytes(1); {
	case r.bad || kind[0] > 1:
		return nil, errRow
	case kind[0] == 1:
		c.parent = &place{r.uint(), r.uint()}
	}
	c.depth, c.since, c.base = r.small(), r.small(), r.small()
	c.rest = r.bytes(r.number())
	for l := range c.lists {
		if fold.List(l) == fold.ListRest {
			continue
		}
		n := r.number()
		last := uint64(0)
		for range n {
			var p piece
			if kind := r.bytes(1); r.bad || kind[0] > 1 {
				return nil, errRow
			} else if kind[0] == 1 {
				last += uint64(r.int())
				p.row = last
			}
			p.from, p.n = r.small(), r.small()
			if p.n == 0 || p.row == 0 && c.parent == nil {
				return nil, errRow
			}
			c.lists[l] = append(c.lists[l], p)
		}
	}
	if r.bad || len(r.b) > 0 {
		return nil, errRow
	}
	return c, nil
}

// encodeBody gives the value of a row of entries.
func encodeBody(entries [][]byte) []byte {
	n := 1 + binary.MaxVarintLen32
	for _, e := range entries {
		n += binary.MaxVarintLen32 + len(e)
	}
	b := append(make([]byte, 0, n), rowVersion)
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		b = binary.AppendUvarint(b, uint64(len(e)))
		b = append(b, e...)
	}
	return b
}

func decodeBody(value []byte) ([][]byte, error) {
	if len(value) == 0 || value[0] != rowVersion {
		return nil, errRow
	}
	r := &rowReader{b: value[1:]}
	out := make([][]byte, r.number())
	for i := range out {
		out[i] = r.bytes(r.number())
	}
	if r.bad || len(r.b) > 0 {
		return nil, errRow
	}
	return out, nil
}
