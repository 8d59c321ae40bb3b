package pebblelog

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

// store looks at what belongs to no thread.
func (v *verifier) store() error {
	next := []byte{}
	first := true
	return v.each(func(r pebble.Reader) bool {
		if first {
			first = false
			v.storeRow(r)
		}
		next = v.walk(r, next, []byte{prefixName}, func(key, value []byte) bool {
			if !ofStore(key) {
				v.strange(key)
			}
			return true
		})
		return next == nil
	})
}

func (v *verifier) storeRow(r pebble.Reader) {
	at := eventlog.Fault{Kind: eventlog.FaultStore, Place: place(storeKey())}
	value, ok, missing := v.get(r, storeKey())
	if missing {
		at.Detail = "it is missing"
		v.fault(at)
	}
	if !ok {
		return
	}
	row, err := v.dec.store(value)
	if err != nil {
		v.fault(undecodable(err, at))
		return
	}
	v.incarnation = row.incarnation
	if row.format < FormatFirst || row.format > FormatVersion {
		v.fault(undecodable(&eventlog.VersionError{What: "store", Found: int(row.format), Known: FormatVersion}, at))
	}
}

// threadRows finds the ordinals that are in use, and keys of threads' rows that
// are none.
func (v *verifier) threadRows() error {
	next := []byte{prefixThread}
	if err := v.each(func(r pebble.Reader) bool {
		next = v.walk(r, next, after([]byte{prefixThread}), func(key, _ []byte) bool {
			if len(key) != 9 {
				v.strange(key)
				return true
			}
			v.lastOrd = max(v.lastOrd, commitPosition(key))
			return true
		})
		return next == nil
	}); err != nil {
		return err
	}
	return v.each(func(r pebble.Reader) bool {
		for _, prefix := range ofThread {
			it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
			if err != nil {
				continue
			}
			// A thread of which only this is left. Its row cannot be far away.
			if it.Last() && len(it.Key()) >= 9 {
				if ord := commitPosition(it.Key()); ord <= v.lastOrd+1<<20 {
					v.lastOrd = max(v.lastOrd, ord)
				} else {
					v.strange(it.Key())
				}
			}
			it.Close()
		}
		return true
	})
}

// names looks at the index of names.
func (v *verifier) names() error {
	next := []byte{prefixName}
	return v.each(func(r pebble.Reader) bool {
		next = v.walk(r, next, after([]byte{prefixName}), func(key, value []byte) bool {
			v.nameEntry(r, key, value)
			return true
		})
		return next == nil
	})
}

func (v *verifier) nameEntry(r pebble.Reader, key, value []byte) {
	name, ok := nameOfKey(key)
	if !ok {
		v.strange(key)
		return
	}
	at := eventlog.Fault{Kind: eventlog.FaultName, Thread: name, Place: place(key)}
	ord, err := v.dec.name(value)
	if err != nil {
		// If a thread has this name, that was told with the thread.
		v.fault(undecodable(err, at))
		return
	}
	row, ok, missing := v.get(r, threadRowKey(ord))
	if missing {
		at.Detail = "it leads to a thread that is not stored"
		v.fault(at)
	}
	if !ok {
		return
	}
	th, err := v.dec.thread(row)
	if err != nil || th.key == name {
		return
	}
	at.Detail = "it leads to a thread that says it has another name"
	if own, ok, _ := v.get(r, nameKey(th.key)); ok {
		if other, err := v.dec.name(own); err == nil && other == ord {
			v.fault(at, fix{append([]byte(nil), key...), nil})
			return
		}
	}
	v.fault(at)
}

// nameOfKey is the thread whose name a key is.
func nameOfKey(key []byte) (out eventlog.ThreadKey, ok bool) {
	if len(key) < 3 {
		return out, false
	}
	n := int(binary.BigEndian.Uint16(key[1:]))
	if n == 0 || len(key) <= 3+n {
		return out, false
	}
	return eventlog.ThreadKey{Scope: string(key[3 : 3+n]), Thread: string(key[3+n:])}, true
}

// commits looks at the positions, and for commits whose entries are gone.
func (v *verifier) commits() error {
	next := []byte{prefixCommit}
	want, last := uint64(1), int64(0)
	if err := v.each(func(r pebble.Reader) bool {
		next = v.walk(r, next, after([]byte{prefixCommit}), func(key, value []byte) bool {
			if len(key) != 9 {
				v.strange(key)
				return true
			}
			v.done.Commits++
			position := commitPosition(key)
			if position > want && v.only == 0 {
				v.fault(eventlog.Fault{Kind: eventlog.FaultMissingCommit, Position: want, PositionTo: position - 1, Detail: "there is no such commit"})
			}
			want = position + 1
			v.commitRow(r, position, value, &last)
			return true
		})
		return next == nil
	}); err != nil || v.only != 0 {
		return err
	}
	return v.each(func(pebble.Reader) bool {
		if want <= v.mark {
			v.fault(eventlog.Fault{Kind: eventlog.FaultMissingCommit, Position: want, PositionTo: v.mark, Detail: "there is no such commit"})
		}
		if f := v.witness.short(v.incarnation, want-1); f != nil {
			v.fault(*f)
		}
		return true
	})
}

func (v *verifier) commitRow(r pebble.Reader, position uint64, value []byte, last *int64) {
	at := eventlog.Fault{Position: position, Place: place(commitKey(position))}
	row, err := v.dec.commit(value)
	if err != nil {
		if v.only == 0 {
			v.fault(undecodable(err, at))
		}
		return
	}
	if v.only != 0 && v.only != row.ord {
		return
	}
	if row.time < *last {
		at.Kind, at.Detail = eventlog.FaultCommit, "it is said to be older than the commit before it"
		v.fault(at)
	}
	*last = row.time
	if row.count == 0 || position > v.mark || v.seen.has(position) {
		return
	}
	v.empty(r, position, &row)
}

// empty tells of a commit none of whose entries was found, unless they were
// removed.
func (v *verifier) empty(r pebble.Reader, position uint64, row *commitRow) {
	at := eventlog.Fault{
		Kind: eventlog.FaultEmptyCommit, Seq: row.first, To: row.first + uint64(row.count) - 1, Position: position,
		Companion: row.stream == streamCompanion, Detail: "none of its records is stored",
	}
	value, ok, missing := v.get(r, threadRowKey(row.ord))
	if missing {
		at.Detail = "it is of a thread that is not stored"
		v.fault(at)
	}
	if !ok {
		return
	}
	th, err := v.dec.thread(value)
	if err != nil {
		return
	}
	at.Thread = th.key
	removed := th.state != stateLive || row.stream == streamEvents && at.To < th.firstSeq
	if !removed {
		v.fault(at)
	}
}

// keyTimes looks at the index by which old idempotency keys are found.
func (v *verifier) keyTimes() error {
	next := []byte{prefixKeyTime}
	return v.each(func(r pebble.Reader) bool {
		next = v.walk(r, next, after([]byte{prefixKeyTime}), func(key, _ []byte) bool {
			if len(key) < 17 {
				v.strange(key)
				return true
			}
			at := eventlog.Fault{Kind: eventlog.FaultIdempotencyTime, Place: place(key)}
			value, ok, missing := v.get(r, idempotencyKey(binary.BigEndian.Uint64(key[9:]), keyTimeName(key)))
			if missing {
				at.Detail = "there is no such key"
				v.fault(at, fix{append([]byte(nil), key...), nil})
			}
			if !ok {
				return true
			}
			// An older entry is of an earlier use of the key: it goes with its age.
			if row, err := v.dec.key(value); err == nil && int64(binary.BigEndian.Uint64(key[1:])) > row.time {
				at.Detail = "the key was used at another time"
				v.fault(at, fix{append([]byte(nil), key...), nil})
			}
			return true
		})
		return next == nil
	})
}

// strangers looks for keys behind those of the last kind.
func (v *verifier) strangers() error {
	next := []byte{lastPrefix + 1}
	return v.each(func(r pebble.Reader) bool {
		next = v.walk(r, next, nil, func(key, _ []byte) bool {
			v.strange(key)
			return true
		})
		return next == nil
	})
}

// strange tells of a key that no version writes.
func (v *verifier) strange(key []byte) {
	v.fault(eventlog.Fault{Kind: eventlog.FaultUnknownKey, Place: place(key), Detail: "agstore writes no such key"})
}
