package pebblelog

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

var _ eventlog.Verifier = (*Log)(nil)

// Verify implements [eventlog.Verifier]. It needs one bit of memory for each
// commit, and what the runs of one thread need.
func (l *Log) Verify(ctx context.Context, opts eventlog.VerifyOptions) iter.Seq2[eventlog.Fault, error] {
	const op = "verify"
	return func(yield func(eventlog.Fault, error) bool) {
		v := newVerifier(ctx, opts)
		v.mark, v.witness = l.mark.get(), l.testimony()
		v.read = func(do func(pebble.Reader) error) error {
			return l.reading(op, eventlog.ThreadKey{}, func() error {
				snap := l.db.NewSnapshot()
				return errors.Join(do(snap), snap.Close())
			})
		}
		v.files = func(each func(name string, err error, of *pebble.SSTableInfo)) error {
			return l.reading(op, eventlog.ThreadKey{}, func() error { return checkTables(l.db, l.opts.FS, l.dir, each) })
		}
		v.closing = l.life.closing
		v.yield = func(f finding) bool { return yield(f.fault, nil) }
		if err := v.run(); err != nil && !errors.Is(err, errStopped) {
			var e *eventlog.Error
			if !errors.As(err, &e) {
				err = &eventlog.Error{Op: op, Err: err}
			}
			yield(eventlog.Fault{}, err)
		}
	}
}

// errStopped: who looks for faults wants no more.
var errStopped = errors.New("stopped")

// Bounds of what is done between two moments in which nothing of the engine is
// held.
const (
	verifyItems = 2048
	verifyBytes = 4 << 20
	verifyFinds = 256
)

// finding is a fault, and what would mend it.
type finding struct {
	fault eventlog.Fault
	fixes []fix
}

// fix is a row to write, or to remove: a nil value.
type fix struct{ key, value []byte }

// verifier looks for faults. It holds nothing of the engine while it hands on
// what it has found: each step looks at one moment of the store, and a thread
// that goes on in between is looked at as it is by then.
type verifier struct {
	ctx     context.Context
	opts    eventlog.VerifyOptions
	read    func(func(pebble.Reader) error) error
	files   func(func(name string, err error, of *pebble.SSTableInfo)) error
	closing func() bool
	yield   func(finding) bool

	mark        uint64 // what is above it may have come since
	witness     witness
	incarnation string
	dec         *decoder
	enc         *encoder
	only        uint64 // the ordinal of the only thread to look at; 0: all
	lastOrd     uint64
	seen        positions
	blocks      map[string]bool // faults of files, told once each
	found       []finding
	done        eventlog.VerifyProgress
	items       int // in this step
	bytes       int
}

func newVerifier(ctx context.Context, opts eventlog.VerifyOptions) *verifier {
	return &verifier{
		ctx: ctx, opts: opts, dec: newDecoder(), enc: newEncoder(),
		seen: make(positions), blocks: make(map[string]bool), closing: func() bool { return false },
	}
}

// run looks at everything, or at one thread.
func (v *verifier) run() error {
	if v.opts.Thread != nil {
		if err := v.find(*v.opts.Thread); err != nil || v.only == 0 {
			return err
		}
		if err := v.thread(v.only); err != nil {
			return err
		}
		return v.commits()
	}
	for _, part := range []func() error{v.tables, v.store, v.threadRows, v.threads, v.names, v.commits, v.keyTimes, v.ofScopes, v.strangers} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// each repeats a step until it is done. Between two of them nothing is held, and
// what was found is handed on.
func (v *verifier) each(step func(r pebble.Reader) (done bool)) error {
	for done := false; !done; {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		v.items, v.bytes = 0, 0
		if err := v.read(func(r pebble.Reader) error {
			done = step(r)
			return nil
		}); err != nil {
			return err
		}
		if err := v.hand(); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) hand() error {
	found := v.found
	v.found = nil
	for _, f := range found {
		if !v.yield(f) {
			return errStopped
		}
	}
	if v.opts.Progress != nil {
		v.opts.Progress(v.done)
	}
	return nil
}

// full reports whether a step has done enough.
func (v *verifier) full() bool {
	return v.items >= verifyItems || v.bytes >= verifyBytes || len(v.found) >= verifyFinds || v.closing() || v.ctx.Err() != nil
}

func (v *verifier) fault(f eventlog.Fault, fixes ...fix) {
	f.Derived = len(fixes) > 0
	v.found = append(v.found, finding{f, fixes})
}

// undecodable is the fault of a value with that error.
func undecodable(err error, f eventlog.Fault) eventlog.Fault {
	f.Kind, f.Detail = eventlog.FaultValue, err.Error()
	switch {
	case errors.Is(err, eventlog.ErrVersion):
		f.Kind = eventlog.FaultVersion
	case errors.Is(err, errChecksum):
		f.Kind = eventlog.FaultChecksum
	}
	return f
}

// get looks up one value. What cannot be read is told; then ok is false, and
// missing is too.
func (v *verifier) get(r pebble.Reader, key []byte) (value []byte, ok, missing bool) {
	got, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, true
	}
	if err != nil {
		v.unreadable(err, key, nil)
		return nil, false, false
	}
	value = append(make([]byte, 0, len(got)), got...)
	if err := closer.Close(); err != nil {
		v.unreadable(err, key, nil)
		return nil, false, false
	}
	return value, true, false
}

// unreadable tells of a part of a file, once.
func (v *verifier) unreadable(err error, from, to []byte) {
	if v.blocks[err.Error()] {
		return
	}
	v.blocks[err.Error()] = true
	place := "key " + hex.EncodeToString(from)
	if to != nil {
		place = "keys " + hex.EncodeToString(from) + " to " + hex.EncodeToString(to)
	}
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		place = info.Path + ", " + place
	}
	v.fault(eventlog.Fault{Kind: eventlog.FaultBlock, Place: place, Detail: wording(err)})
}

// wording is the first line of an error's text: what the engine adds behind it is
// for programs.
func wording(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// walk visits the keys from one to an end, until visit says that it is enough,
// and gives where to go on; nil: nowhere. It steps over what cannot be read.
func (v *verifier) walk(r pebble.Reader, from, end []byte, visit func(key, value []byte) (more bool)) (next []byte) {
	lower := from
	if len(lower) == 0 {
		lower = nil // an empty bound breaks off an engine built with -race, which checks itself
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: end})
	if err != nil {
		v.unreadable(err, from, end)
		return nil
	}
	defer it.Close()
	last := append([]byte(nil), from...)
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			v.unreadable(err, it.Key(), nil)
			return append(append([]byte(nil), it.Key()...), 0)
		}
		last = append(last[:0], it.Key()...)
		v.items++
		v.bytes += len(value)
		if !visit(last, value) || v.full() {
			return append(last, 0)
		}
	}
	if err := it.Error(); err != nil {
		next = behind(it, last, end)
		to := next
		if to == nil {
			to = end
		}
		v.unreadable(err, last, to)
	}
	return next
}

// behind finds a key behind which can be read on, where an iterator fails behind
// last; nil: there is none before end. Keys are taken as numbers: it goes on by
// growing steps until a key can be sought, and then back to the first such.
func behind(it *pebble.Iterator, last, end []byte) []byte {
	const most = 24 // bytes of a key that are looked at
	base := make([]byte, min(max(len(last), 9), most))
	copy(base, last)
	n := new(big.Int).SetBytes(base)
	at := func(step *big.Int) []byte {
		sum := new(big.Int).Add(n, step)
		if sum.BitLen() > 8*len(base) {
			return nil
		}
		return sum.FillBytes(make([]byte, len(base)))
	}
	readable := func(key []byte) bool {
		it.SeekGE(key)
		return it.Error() == nil
	}
	bad, good := new(big.Int), (*big.Int)(nil)
	for i := range uint(8 * len(base)) {
		step := new(big.Int).Lsh(big.NewInt(1), i)
		key := at(step)
		if key == nil || (end != nil && string(key) >= string(end)) {
			break
		}
		if readable(key) {
			good = step
			break
		}
		bad = step
	}
	if good == nil {
		return nil
	}
	for {
		middle := new(big.Int).Add(bad, good)
		middle.Rsh(middle, 1)
		if middle.Cmp(bad) == 0 {
			return at(good)
		}
		if readable(at(middle)) {
			good = middle
		} else {
			bad = middle
		}
	}
}

// positions is a set of positions, one bit each.
type positions map[uint64]*[1024]uint64

func (p positions) add(n uint64) {
	page := p[n>>16]
	if page == nil {
		page = new([1024]uint64)
		p[n>>16] = page
	}
	page[n>>6&1023] |= 1 << (n & 63)
}

func (p positions) has(n uint64) bool {
	page := p[n>>16]
	return page != nil && page[n>>6&1023]&(1<<(n&63)) != 0
}

// find looks for the thread that is to be looked at.
func (v *verifier) find(key eventlog.ThreadKey) error {
	missing := false
	err := v.each(func(r pebble.Reader) bool {
		value, ok, none := v.get(r, nameKey(key))
		if missing = none; !ok {
			return true
		}
		ord, err := v.dec.name(value)
		if err != nil {
			missing = true
			return true
		}
		v.only, v.lastOrd = ord, ord
		return true
	})
	if err != nil || !missing {
		return err
	}
	// Its name may be what is damaged.
	next := []byte{prefixThread}
	if err := v.each(func(r pebble.Reader) bool {
		next = v.walk(r, next, after([]byte{prefixThread}), func(k, value []byte) bool {
			if row, err := v.dec.thread(value); err == nil && row.key == key && len(k) == 9 {
				v.only = commitPosition(k)
				v.lastOrd = v.only
				return false
			}
			return true
		})
		return next == nil || v.only != 0
	}); err != nil {
		return err
	}
	if v.only == 0 {
		return &eventlog.Error{Op: "verify", Key: key, Err: eventlog.ErrThreadNotFound}
	}
	return nil
}

// place names a key.
func place(key []byte) string { return "key " + hex.EncodeToString(key) }

func differs[T comparable](what string, found, want T) string {
	if found == want {
		return ""
	}
	return fmt.Sprintf("%s is %v, not %v", what, found, want)
}
