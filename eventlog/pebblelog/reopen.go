package pebblelog

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// How a log comes back after a write error. The committer does all of it: it
// alone writes, so nothing is under way but what it has sent, and it waits for
// that first. Readers are kept out for as long as the engine is closed.

// Bounds of coming back. The wait doubles after each attempt that failed, and
// begins anew once the log has lived for a while.
const (
	retryFirst = 50 * time.Millisecond
	retryLast  = 2 * time.Second
	retryCalm  = time.Minute
	probeBytes = 64 << 10
	probeFile  = "probe"
)

// comeback is how far a log has come since its first write error. It is the
// committer's.
type comeback struct {
	tick   <-chan time.Time // of the next attempt; nil: nothing is to be attempted
	wait   time.Duration
	since  time.Time // the failure
	opened time.Time // when the engine was last opened after one
}

// debts are what groups that were refused leave behind. They are the one's who
// settles, and the committer's while no group is under way.
type debts struct {
	changes []change  // their threads are pinned
	renewed []*thread // leases of these count as longer than is stored
	leases  map[owedID]*owedEnd
}

type owedID struct {
	thread *thread
	run    agui.RunKey
	epoch  uint64
}

// owedEnd is a lease that nobody holds any more, but perhaps the store: its
// writer was refused the end of it, or was never handed out.
type owedEnd struct {
	index         int
	code, message string
}

// owe takes note of leases that end as soon as the log can write: of a writer
// that was told to end, and of one that was never given to its caller.
func (l *Log) owe(c *call) {
	w := c.writer
	if w == nil || c.err == nil || !errors.Is(c.err, eventlog.ErrUnavailable) {
		return
	}
	id := owedID{w.thread, w.lease.Run, w.lease.Epoch}
	if l.debts.leases == nil {
		l.debts.leases = make(map[owedID]*owedEnd)
	}
	switch c.kind {
	case callEnd:
		if l.debts.leases[id] == nil {
			l.debts.leases[id] = &owedEnd{index: w.index, code: c.code, message: c.message}
		}
	case callBegin, callTake:
		l.debts.leases[id] = &owedEnd{
			index: w.index, code: agui.CodeAbandoned,
			message: "the disk failed when this run was to be written, and nobody was given it",
		}
	}
}

// revive is called by the committer whenever it has failed and has a moment:
// after the failure, and at each tick.
func (l *Log) revive(ticked bool) {
	if l.failure.get() == nil || l.life.closing() {
		return
	}
	b := &l.comeback
	if b.tick != nil && !ticked {
		return
	}
	now := b.tick != nil
	if b.tick == nil {
		b.since = time.Now()
		if now = time.Since(b.opened) > retryCalm; now {
			b.wait = retryFirst
		}
	}
	b.tick = nil
	if !now || !l.attempt() {
		b.tick, _ = l.opts.After(b.wait)
	}
	b.wait = min(2*b.wait, retryLast)
}

// attempt tries to have an engine that writes. Without one, it leaves the best
// for reading that there is.
func (l *Log) attempt() bool {
	l.drain()
	err := l.probe()
	if err != nil && l.db != nil && !l.gate.restless() {
		return false
	}
	l.gate.release()
	l.life.exchange()
	l.closeEngine()
	if err == nil {
		err = l.resume()
	}
	if err != nil {
		l.failure.again(unavailable(err))
		if l.openEngine(true) != nil {
			l.life.exchanged(l.failure.get())
			return false
		}
		l.life.exchanged(nil)
		return false
	}
	l.comeback.opened = time.Now()
	l.failure.clear()
	l.lives.Add(1)
	l.life.exchanged(nil)
	l.opts.Listener.Reopened(l.position, time.Since(l.comeback.since))
	l.endLeases()
	l.remover.again()
	// A removal of unknown outcome may have been found. What cannot be listed now
	// is finished by the next open.
	_ = l.resumeRemovals()
	return true
}

// drain waits until nothing is under way.
func (l *Log) drain() {
	done := make(chan struct{})
	l.inFlight <- &group{drained: done}
	<-done
}

// probe reports whether the directory can be written to.
func (l *Log) probe() error {
	fs := l.opts.FS
	name := fs.PathJoin(l.dir, probeFile)
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return named("create", name, err)
	}
	_, err = f.Write(make([]byte, probeBytes))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if e := fs.Remove(name); err == nil && e != nil {
		err = e
	}
	if err != nil {
		return named("write", name, err)
	}
	d, err := fs.OpenDir(l.dir)
	if err != nil {
		return named("open", l.dir, err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// resume opens the engine for writing and takes up what it holds.
func (l *Log) resume() error {
	if err := l.openEngine(false); err != nil {
		return err
	}
	if err := l.reload(); err != nil {
		l.gate.release()
		l.closeEngine()
		return err
	}
	l.gate.letGo()
	return nil
}

// reload makes what is kept beside the engine agree with it. What the groups
// that were refused have left is there or not; if it is, opening has made it
// durable, and it is published now.
func (l *Log) reload() error {
	if err := l.latest(); err != nil {
		return err
	}
	if mark := l.mark.get(); l.position < mark {
		return fmt.Errorf("%w: position %d, and %d was durable", errShort, l.position, mark)
	}
	pins := make(map[*thread]int)
	for _, ch := range l.debts.changes {
		pins[ch.thread] += 1 + ch.unpin
	}
	for t, n := range pins {
		l.reloadThread(t, n)
	}
	for _, t := range l.debts.renewed {
		for i := range t.applied.info {
			t.applied.info[i].stored = 0 // the next renewal is written
		}
	}
	l.debts.changes, l.debts.renewed = nil, nil
	if l.position > l.mark.get() {
		l.mark.advance(l.position)
	}
	return nil
}

// reloadThread reads a thread anew, and exchanges its pins: those of refused
// groups, and of leases as they were, for one for each lease that there is.
func (l *Log) reloadThread(t *thread, pins int) {
	for i := range t.applied.info {
		if t.applied.info[i].pinned {
			pins++
		}
	}
	t.err = t.load(l)
	for i := range t.applied.info {
		if in := &t.applied.info[i]; in.held {
			in.pinned = true
			l.cache.pin(t)
		}
	}
	for range pins {
		l.cache.release(t)
	}
}

// holds reports whether a lease is in force.
func (a *applied) holds(index int, id owedID) bool {
	i, ok := a.index[id.run]
	return ok && i == index && a.info[i].held && a.info[i].epoch == id.epoch
}

// endLeases ends what is owed. What fails again is owed again.
func (l *Log) endLeases() {
	g := l.newGroup()
	for id, owed := range l.debts.leases {
		if id.thread.err != nil || !id.thread.applied.holds(owed.index, id) {
			delete(l.debts.leases, id)
			continue
		}
		b := l.build(g, id.thread)
		b.close(id.run, owed.code, owed.message)
		b.finish()
		if g.bytes >= groupBytes {
			l.send(g)
			g = l.newGroup()
		}
	}
	l.send(g)
}

// openEngine opens the engine of the directory.
func (l *Log) openEngine(readOnly bool) (err error) {
	g := newGate(freshLogs{l.opts.FS, &l.remover.fresh}, l.dir, l.poison)
	if readOnly {
		g.phase = gateReadOnly
	} else if err := undamaged(l.opts.FS, l.dir, l.witness); err != nil {
		return err
	}
	defer func() {
		// What a damaged file makes the engine do must not end the process.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the engine broke off: %v", errDamaged, p)
		}
	}()
	t := newTraffic()
	own, _ := l.lock.(*pebble.Lock)
	o := engineOptions(l.opts, own, g, t, l.poison)
	o.ReadOnly = readOnly
	l.remover.listen(o.EventListener)
	if l.opts.engine != nil {
		l.opts.engine(o)
	}
	db, err := pebble.Open(l.dir, o)
	if err != nil {
		err = ofFiles(err)
	}
	if err == nil && !readOnly {
		t.opened(db)
		if err = g.arm(); err != nil {
			g.release()
			_ = db.Close() // of what has failed nothing else is to be learnt
		}
	}
	if err != nil {
		return g.kill(err)
	}
	l.db, l.gate, l.traffic, l.readOnly = db, g, t, readOnly
	return nil
}

// closeEngine closes an engine that has failed, if there is one.
func (l *Log) closeEngine() {
	if l.db != nil {
		_ = l.db.Close()
		l.db = nil
	}
}

// shutEngine ends an engine's life for good, with nothing left for the next open
// to replay. One that has failed has said why.
func (l *Log) shutEngine() error {
	if l.failure.get() != nil {
		l.gate.release()
		l.closeEngine()
		return nil
	}
	var err error
	if !l.opts.readOnly {
		err = l.flushNow()
	}
	l.gate.release()
	err = errors.Join(err, l.db.Close())
	l.db = nil
	return err
}

// flushNow has the engine write its memory to tables; it does not wait for a disk
// that fails.
func (l *Log) flushNow() error {
	failed := l.failure.happened()
	done, err := l.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-failed:
		return l.failure.last()
	}
}
