package pebblelog

import (
	"context"

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
func (l *Log) recover(ctx context.Context) error {
	dec := newDecoder()
	for from := []byte{prefixLease}; from != nil; {
		calls, next, err := l.recoverSome(dec, from)
		if err != nil {
			return err
		}
		for _, c := range calls {
			if _, err := c.wait(ctx); err != nil {
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
	for ok := it.First(); ok; ok = it.Next() {
		if at := leaseOrd(it.Key()); at != ord {
			if len(calls) == recoverThreads {
				return calls, append([]byte(nil), it.Key()...), nil
			}
			ord = at
			if key, err = l.threadKey(dec, ord); err != nil {
				return nil, nil, err
			}
		}
		row, err := dec.lease(it.Value())
		if err != nil {
			return nil, nil, err
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
	return row.key, err
}
