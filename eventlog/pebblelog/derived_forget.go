package pebblelog

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

// Bounds of one step of forgetting an owner.
const (
	forgetSpaces = 256 // spaces looked at
	forgetKeys   = 64  // keys of a space that are deleted one by one; more go by range
)

// DerivedForget implements [eventlog.Derived].
func (l *Log) DerivedForget(ctx context.Context, owner string) error {
	const op = "forget derived rows"
	for _, prefix := range []byte{prefixDerived, prefixOfScope} {
		for from := []byte{prefix}; from != nil; {
			if err := ctx.Err(); err != nil {
				return &eventlog.Error{Op: op, Err: err}
			}
			err := l.changeSpace(op, eventlog.Space{Owner: owner}, func(_ derivedPlace, batch *pebble.Batch) (err error) {
				from, err = l.forget(batch, from, owner)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// forget deletes the rows of an owner in some threads or scopes, and says where to
// go on; nil: nowhere.
func (l *Log) forget(batch *pebble.Batch, from []byte, owner string) (next []byte, err error) {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{from[0] + 1}})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for n, ok := 0, it.First(); ok; n++ {
		base := baseOf(it.Key())
		if base == nil {
			ok = it.Next() // verify tells of it
			continue
		}
		if n == forgetSpaces {
			return base, nil
		}
		prefix := appendOwner(base, owner)
		keys := 0
		for ok = it.SeekGE(prefix); ok && bytes.HasPrefix(it.Key(), prefix); ok = it.Next() {
			if keys++; keys > forgetKeys {
				_ = batch.DeleteRange(prefix, after(prefix), nil)
				break
			}
			_ = batch.Delete(it.Key(), nil)
		}
		end := after(base)
		if end == nil {
			break
		}
		ok = it.SeekGE(end)
	}
	return nil, it.Error()
}

// baseOf is the part of a derived row's key before the owner; nil: it is no such
// key.
func baseOf(key []byte) []byte {
	n := 9
	if key[0] == prefixOfScope {
		if len(key) < 3 {
			return nil
		}
		n = 3 + int(binary.BigEndian.Uint16(key[1:]))
	}
	if len(key) < n {
		return nil
	}
	return bytes.Clone(key[:n])
}
