package pebblelog

import (
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// thread is the state of one thread in memory. It is entered in the cache
// before anything is written to the thread and stays there while anything is
// under way, so nobody else's copy can be older or newer.
type thread struct {
	key eventlog.ThreadKey

	// Of the cache, under its lock.
	pins       int
	weight     int
	prev, next *thread // among those without pins

	ready chan struct{} // closed once loaded
	err   error         // of loading

	// applied is the committer's: what has been handed to Pebble.
	applied applied

	// published is what readers see: all of it is durable.
	mu        sync.RWMutex
	published published
}

type applied struct {
	exists    bool
	ord       uint64
	created   int64
	position  uint64 // of the commit that created the thread
	updated   int64
	lastSeq   uint64
	epoch     uint64
	tracker   *agui.Tracker
	index     map[agui.RunKey]int
	info      []runInfo // beside the tracker's runs
	held      int       // how many runs have a writer
	expiring  int       // how many of those have a lease that expires
	companion uint64    // last seq of the companion stream
	lifecycle
	tips [chained]chainValue // of each stream: the chain value of its latest commit

	receipts uint64                // the number of the latest
	erased   *eventlog.ErasedError // nil: it was not erased
}

// runInfo is what the log knows of a run beside the tree.
type runInfo struct {
	started, ended int64
	origin         eventlog.Origin
	held           bool
	epoch          uint64
	owner          string
	digest         [16]byte
	term
	parent   uint32 // run ordinal of the parent
	appended int64  // time of the latest raw append to it; 0: none
}

type published struct {
	exists    bool
	ord       uint64
	created   int64
	updated   int64
	lastSeq   uint64
	companion uint64
	head      agui.RunKey
	runs      []eventlog.Run
	keys      []agui.RunKey // of runs; only appended to, so a prefix can be shared
	removed
}

// describe gives the published thread, and whether there is one.
func (t *thread) describe() (eventlog.Thread, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.published.describe(t.key), t.published.exists && t.published.erased == nil
}

func (p *published) describe(key eventlog.ThreadKey) eventlog.Thread {
	return eventlog.Thread{
		Key:          key,
		Created:      moment(p.created),
		Updated:      moment(p.updated),
		LastSeq:      p.lastSeq,
		Runs:         len(p.runs),
		Head:         p.head,
		CompanionSeq: p.companion,

		Generation: p.generation, FirstSeq: p.first(), Removals: p.receipts,
	}
}

// runOrdinal is the place of a run in its thread, from 1; 0 for no run.
func (a *applied) runOrdinal(k agui.RunKey) uint32 {
	if i, ok := a.index[k]; ok {
		return a.ordinal(i)
	}
	return 0
}

// row is the i-th run as the callers of the log see it.
func (a *applied) row(r agui.Run, i int) eventlog.Run {
	in := &a.info[i]
	row := eventlog.Run{
		Run: r, Started: moment(in.started), Origin: in.origin,
		Held: in.held, Epoch: in.epoch, Owner: in.owner, InputDigest: in.digest,
	}
	if in.ended != 0 {
		row.Ended = moment(in.ended)
	}
	return row
}

// owned reports whether a running run belongs to somebody: a writer, or a
// producer of raw appends that may still come back.
func (a *applied) owned(k agui.RunKey, now int64, lease time.Duration) bool {
	in := &a.info[a.index[k]]
	return in.held || (in.appended != 0 && now < in.appended+lease.Microseconds())
}

func moment(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// load reads a thread from the store. Nothing is under way for it.
func (t *thread) load(l *Log) error {
	d := newDecoder()
	t.applied = applied{tracker: agui.NewTracker(nil, agui.RunKey{}), index: make(map[agui.RunKey]int)}
	value, ok, err := l.get(nameKey(t.key))
	if err != nil || !ok {
		return err
	}
	a := &t.applied
	if a.ord, err = d.name(value); err != nil {
		return err
	}
	if value, ok, err = l.get(threadRowKey(a.ord)); err != nil {
		return err
	}
	if !ok {
		return errDamaged
	}
	row, err := d.thread(value)
	if err != nil {
		return err
	}
	if row.key != t.key {
		return errDamaged
	}
	a.exists, a.created, a.position, a.epoch, a.updated = true, row.created, row.position, row.epoch, row.created
	a.lifecycle = row.lifecycle
	if err := t.loadRemovals(l, d); err != nil || a.erased != nil {
		return err
	}
	if err := a.loadLast(l, d); err != nil {
		return err
	}
	if err := a.loadRuns(l, d, row); err != nil {
		return err
	}
	if err := a.loadLeases(l, d); err != nil {
		return err
	}
	if err := a.loadCompanion(l, d); err != nil {
		return err
	}
	l.watchLeases(t)
	t.publishAll()
	return nil
}

// loadLast finds the thread's last record.
func (a *applied) loadLast(l *Log, d *decoder) error {
	it, err := l.iterate(ordinalKey(prefixRecord, a.ord))
	if err != nil {
		return err
	}
	defer it.Close()
	if !it.Last() {
		if err := it.Error(); err != nil {
			return err
		}
		return a.loadTip(l, d, streamEvents, 0)
	}
	h, _, err := d.record(it.Value())
	if err != nil {
		return err
	}
	a.lastSeq, a.updated = max(a.lastSeq, recordSeq(it.Key())), max(a.updated, h.time)
	return a.loadTip(l, d, streamEvents, h.position)
}

func (a *applied) loadRuns(l *Log, d *decoder, row threadRow) error {
	var runs []agui.Run
	err := l.scanFrom(runRowKey(a.ord, a.firstRun+1), after(ordinalKey(prefixRun, a.ord)), func(_, value []byte) error {
		r, err := d.runRow(value)
		if err != nil {
			return err
		}
		if r.parent > 0 {
			parent, ok := a.place(r.parent, len(runs))
			if !ok {
				return errDamaged
			}
			r.run.Parent = runs[parent].Key
		}
		a.index[r.run.Key] = len(runs)
		runs = append(runs, r.run)
		a.info = append(a.info, runInfo{
			started: r.started, ended: r.ended, origin: r.origin, held: r.held,
			epoch: r.epoch, owner: r.owner, digest: r.digest, parent: r.parent,
		})
		if r.held {
			a.held++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if row.runs != len(runs) {
		return errDamaged
	}
	var head agui.RunKey
	if row.head > 0 {
		i, ok := a.place(row.head, len(runs))
		if !ok {
			return errDamaged
		}
		head = runs[i].Key
	}
	if err := a.countOpen(l, d, runs); err != nil {
		return err
	}
	a.tracker = agui.NewTracker(runs, head)
	return a.observeOpen(l, d, runs)
}

// countOpen brings the rows of running runs up to date, which are stored only
// when such a run starts and ends.
func (a *applied) countOpen(l *Log, d *decoder, runs []agui.Run) error {
	from := firstOpen(runs)
	if from == 0 {
		return nil
	}
	for i := range runs {
		if runs[i].Running() {
			runs[i].Events, runs[i].LastSeq = 0, 0
		}
	}
	err := a.scanRecords(l, d, from, func(seq uint64, h recordHeader, _ []byte) error {
		i, ok := a.place(h.run, len(runs))
		if !ok || !runs[i].Running() {
			return nil
		}
		r := &runs[i]
		r.Events++
		r.LastSeq = seq
		if h.origin == eventlog.OriginAppend {
			a.info[i].appended = h.time
		}
		return nil
	})
	for _, r := range runs {
		if err == nil && r.Running() && r.Events == 0 {
			err = errDamaged // a run begins with a record
		}
	}
	return err
}

// observeOpen tells the tracker what its running runs have open.
func (a *applied) observeOpen(l *Log, d *decoder, runs []agui.Run) error {
	from := firstOpen(runs)
	if from == 0 {
		return nil
	}
	return a.scanRecords(l, d, from, func(seq uint64, h recordHeader, event []byte) error {
		i, ok := a.place(h.run, len(runs))
		if !ok || !runs[i].Running() {
			return nil
		}
		var head agui.Header
		if err := agui.ReadHeader(event, &head); err != nil {
			return err
		}
		a.tracker.Observe(&head, runs[i].Key, seq)
		return nil
	})
}

// firstOpen is the seq at which the first running run started; 0: none runs.
func firstOpen(runs []agui.Run) uint64 {
	for _, r := range runs {
		if r.Running() {
			return r.FirstSeq
		}
	}
	return 0
}

func (a *applied) scanRecords(l *Log, d *decoder, from uint64, visit func(uint64, recordHeader, []byte) error) error {
	it, err := l.iterate(ordinalKey(prefixRecord, a.ord))
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.SeekGE(recordKey(a.ord, from)); ok; ok = it.Next() {
		h, event, err := d.record(it.Value())
		if err != nil {
			return err
		}
		if err := visit(recordSeq(it.Key()), h, event); err != nil {
			return err
		}
	}
	return it.Error()
}

// publishAll makes what was loaded visible to readers.
func (t *thread) publishAll() {
	a := &t.applied
	p := published{
		exists: a.exists, ord: a.ord, created: a.created, updated: a.updated,
		lastSeq: a.lastSeq, companion: a.companion, head: a.tracker.Head(), removed: a.removals(),
	}
	for i, r := range a.tracker.Runs() {
		p.runs = append(p.runs, a.row(r, i))
		p.keys = append(p.keys, r.Key)
	}
	t.mu.Lock()
	t.published = p
	t.mu.Unlock()
}

// get copies the value of a key.
func (l *Log) get(key []byte) ([]byte, bool, error) {
	value, closer, err := l.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	out := append([]byte(nil), value...)
	return out, true, closer.Close()
}

func (l *Log) iterate(prefix []byte) (*pebble.Iterator, error) {
	return l.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
}

// scan visits every key with the prefix. What visit gets is valid during the
// call only.
func (l *Log) scan(prefix []byte, visit func(key, value []byte) error) error {
	return l.scanFrom(prefix, after(prefix), visit)
}

// scanFrom visits every key from one up to another.
func (l *Log) scanFrom(from, to []byte, visit func(key, value []byte) error) error {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := visit(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	return it.Error()
}
