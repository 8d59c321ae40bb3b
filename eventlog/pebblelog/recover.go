package pebblelog

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// recoverThreads is how many threads are recovered at once: that bounds what is
// in memory for it.
const recoverThreads = 256

// recover closes the runs that writers of a former process held (DESIGN
// invariant 8): per thread one commit, durable before it returns. A thread that
// was closed already is not found again, so recovery may be killed and repeated.
//
// Leases that expire outlive their process: they are watched, and closed now if
// their time has come.
//
// A thread that is damaged is passed by, and told of: its runs stay as they
// were left, and the others can be used.
func (l *Log) recover(ctx context.Context) error {
	dec := newDecoder()
	for from := []byte{prefixLease}; from != nil; {
		calls, next, err := l.recoverSome(dec, from)
		if err != nil {
			return err
		}
		for _, c := range calls {
			if _, err := c.wait(ctx); err != nil && !l.passBy(err) {
				return err
			}
		}
		from = next
	}
	return nil
}

// recoverSome has some threads recovered, beginning at the key of a lease, and
// says where to go on; nil: nowhere.
func (l *Log) recoverSome(dec *decoder, from []byte) (calls []*call, next []byte, err error) {
	err = l.reading("recover", eventlog.ThreadKey{}, func() error {
		calls, next, err = l.callRecovery(dec, from)
		return err
	})
	return calls, next, err
}

func (l *Log) callRecovery(dec *decoder, from []byte) (calls []*call, next []byte, err error) {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{prefixLease + 1}})
	if err != nil {
		return nil, nil, err
	}
	defer it.Close()
	now := l.opts.Now().UnixMicro()
	var ord, called uint64
	var key eventlog.ThreadKey
	var fault error // of the thread
	for ok := it.First(); ok; ok = it.Next() {
		if len(it.Key()) != leaseKeyBytes {
			l.passBy(unrecovered(eventlog.ThreadKey{}, 0, errDamaged))
			continue
		}
		if at := leaseOrd(it.Key()); at != ord {
			if len(calls) == recoverThreads {
				return calls, append([]byte(nil), it.Key()...), nil
			}
			ord = at
			if key, fault = l.threadKey(dec, ord); fault != nil && !l.passBy(unrecovered(key, ord, fault)) {
				return nil, nil, fault
			}
		}
		if fault != nil {
			continue
		}
		row, err := dec.lease(it.Value())
		if err != nil {
			l.passBy(unrecovered(key, ord, err))
			continue
		}
		if row.ttl != 0 && now < row.expires {
			l.due.watch(leaseID{ord, leaseRun(it.Key())}, key, row.expires)
			continue
		}
		if called == ord {
			continue
		}
		called = ord
		c := newCall(callRecover, "recover", key)
		calls = append(calls, c)
		l.queue.push(work{call: c})
	}
	return calls, nil, it.Error()
}

// passBy tells of what is damaged, and reports whether it is: then opening goes
// on without it.
func (l *Log) passBy(err error) bool {
	if !errors.Is(err, eventlog.ErrCorrupt) && !errors.Is(err, eventlog.ErrVersion) {
		return false
	}
	l.opts.Listener.EngineError(err)
	return true
}

// unrecovered is the fault of a thread that is passed by. One whose row cannot
// be read has no name here.
func unrecovered(key eventlog.ThreadKey, ord uint64, err error) error {
	if key.Thread == "" {
		err = fmt.Errorf("the thread of ordinal %d: %w", ord, err)
	}
	return &eventlog.Error{Op: "recover", Key: key, Err: damage(err), Hint: "it is as it was left; the others can be used; verify says what is damaged"}
}

// recoverThread closes what is held in a thread by a process that died. Leases
// that have expired were closed before it.
func (l *Log) recoverThread(g *group, t *thread) error {
	a := &t.applied
	if !a.exists {
		return errDamaged
	}
	b := l.build(g, t)
	for _, r := range a.tracker.OpenRuns() {
		if in := &a.info[a.index[r.Key]]; !in.held || in.ttl != 0 {
			continue
		}
		b.close(r.Key, agui.CodeAbandoned, "the process that wrote this run ended before it did")
		l.opts.Listener.RunRecovered(t.key, r.Key)
	}
	b.finish()
	return nil
}

// threadKey finds the thread with an ordinal.
func (l *Log) threadKey(d *decoder, ord uint64) (eventlog.ThreadKey, error) {
	value, ok, err := l.get(threadRowKey(ord))
	if err != nil {
		return eventlog.ThreadKey{}, err
	}
	if !ok {
		return eventlog.ThreadKey{}, errDamaged
	}
	row, err := d.thread(value)
	if err != nil {
		return eventlog.ThreadKey{}, err
	}
	return row.key, nil
}
