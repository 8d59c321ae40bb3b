package pebblelog

import (
	"context"
	"encoding/binary"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// recover closes the runs that writers of a former process held (DESIGN
// invariant 8): per thread one commit, durable before it returns. A thread that
// was closed already is not found again, so recovery may be killed and repeated.
func (l *Log) recover(ctx context.Context) error {
	var ords []uint64
	err := l.scan([]byte{prefixLease}, func(key, _ []byte) error {
		ord := binary.BigEndian.Uint64(key[1:])
		if len(ords) == 0 || ords[len(ords)-1] != ord {
			ords = append(ords, ord)
		}
		return nil
	})
	if err != nil {
		return err
	}
	dec := newDecoder()
	calls := make([]*call, 0, len(ords))
	for _, ord := range ords {
		key, err := l.threadKey(dec, ord)
		if err != nil {
			return err
		}
		c := newCall(callRecover, "recover", key)
		calls = append(calls, c)
		l.queue.push(work{call: c})
	}
	for _, c := range calls {
		if _, err := c.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// recoverThread closes what is held in a thread.
func (l *Log) recoverThread(g *group, t *thread) error {
	a := &t.applied
	if !a.exists {
		return errDamaged
	}
	b := l.build(g, t)
	for _, r := range a.tracker.OpenRuns() {
		if !a.info[a.index[r.Key]].held {
			continue
		}
		b.close(r.Key, agui.CodeAbandoned, "the process that wrote this run ended before it did")
		l.opts.Listener.RunRecovered(t.key, r.Key)
	}
	// The leases were taken by another process: nothing is pinned for them.
	b.unpin = 0
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
