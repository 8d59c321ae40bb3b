package pebblelog

import (
	"slices"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// builder writes one commit of one thread into a group's batch.
type builder struct {
	log      *Log
	group    *group
	thread   *thread
	position uint64 // of the commit, if there will be one
	time     int64
	first    uint64
	count    int
	touched  []int // runs whose rows readers must see anew
	stored   []int // runs whose rows must be written
	unpin    int
	stream   stream
	row      bool // the thread's row must be written
	needed   bool // there is a commit even without records
	link     link
	removed  *removed // what readers must know of a removal
}

func (l *Log) build(g *group, t *thread) *builder {
	if g.batch == nil {
		g.batch = l.db.NewBatch()
	}
	b := l.builder
	l.builder = nil
	if b == nil {
		b = new(builder)
	}
	*b = builder{
		log: l, group: g, thread: t, touched: b.touched[:0], stored: b.stored[:0], link: b.link,
		position: l.position + 1, time: l.clock(), first: t.applied.lastSeq + 1,
	}
	b.link.reset()
	return b
}

// clock is the time of the next commit: commits never go back in time.
func (l *Log) clock() int64 { return max(l.lastTime, l.opts.Now().UnixMicro()) }

func (b *builder) seq() uint64 { return b.thread.applied.lastSeq }

func (b *builder) set(key, value []byte) {
	// Writing into a batch in memory fails only for a batch that was applied.
	_ = b.group.batch.Set(key, value, nil)
	b.group.bytes += len(key) + len(value)
}

// exist creates the thread, if need be.
func (b *builder) exist() {
	a := &b.thread.applied
	if a.exists {
		return
	}
	a.exists, a.ord, a.created, a.position, a.updated = true, b.log.nextOrd, b.time, b.position, b.time
	a.lifecycle = lifecycle{firstSeq: 1}
	b.log.nextOrd++
	b.set(nameKey(b.thread.key), b.log.enc.name(a.ord))
	b.row = true
}

// add writes one record and gives its seq.
func (b *builder) add(ev *event, claim agui.Claim, origin eventlog.Origin) uint64 {
	b.exist()
	head := &ev.head
	a := &b.thread.applied
	a.lastSeq++
	b.count++
	got := a.tracker.Assign(head, a.lastSeq, claim)
	if got.Started {
		b.started(got.Run, origin)
	}
	run := a.runOrdinal(got.Run)
	if run > 0 {
		b.counted(a.index[got.Run], got, origin)
	}
	h := recordHeader{position: b.position, time: b.time, run: run, typ: head.Type, origin: origin}
	if got.Echo {
		h.flags |= flagEcho
	}
	if got.UnknownParent {
		h.flags |= flagUnknownParent
	}
	b.link.record(&h, ev.digest)
	b.record(&h, ev.raw)
	return a.lastSeq
}

// record writes a record where it will lie in the batch.
func (b *builder) record(h *recordHeader, raw []byte) {
	a := &b.thread.applied
	head := b.log.enc.recordHead(h)
	op := b.group.batch.SetDeferred(recordKeyBytes, len(head)+len(raw))
	putRecordKey(op.Key, a.ord, a.lastSeq)
	copy(op.Value[copy(op.Value, head):], raw)
	sealRecord(op.Value)
	_ = op.Finish() // it fails only for batches that can be read
	b.group.bytes += len(op.Key) + len(op.Value)
}

func (b *builder) started(k agui.RunKey, origin eventlog.Origin) {
	a := &b.thread.applied
	r, _ := a.tracker.Run(k)
	a.index[k] = len(a.info)
	a.info = append(a.info, runInfo{started: b.time, origin: origin, parent: a.runOrdinal(r.Parent)})
	b.touch(a.index[k], true)
	b.row = true
}

// counted takes note of a record of a run.
func (b *builder) counted(i int, got agui.Assignment, origin eventlog.Origin) {
	a := &b.thread.applied
	in := &a.info[i]
	if origin == eventlog.OriginAppend {
		in.appended = b.time
	}
	if got.Ended {
		in.ended = b.time
		b.unhold(i)
	}
	// The row of a running run is stored when it starts and ends; between, it
	// follows from its records. What comes after its end must be counted.
	b.touch(i, in.ended != 0)
}

func (b *builder) touch(i int, store bool) {
	if !slices.Contains(b.touched, i) {
		b.touched = append(b.touched, i)
	}
	if store && !slices.Contains(b.stored, i) {
		b.stored = append(b.stored, i)
	}
}

// close ends a running run with the events that it lacks.
func (b *builder) close(k agui.RunKey, code, message string) {
	for _, raw := range b.thread.applied.tracker.Closing(k, code, message) {
		ev := event{raw: raw, digest: payloadDigest(raw)}
		// What the tracker writes is an event; a test of agui shows it.
		_ = agui.ReadHeader(raw, &ev.head)
		b.add(&ev, agui.Claim{Run: k}, eventlog.OriginStore)
	}
}

// key keeps the idempotency key of a call, whose answer is known.
func (b *builder) key(c *call) {
	b.exist()
	ord := b.thread.applied.ord
	name := keyName(ord, c.idem)
	k := idempotencyKey(ord, name)
	row := keyRow{first: c.res.First, last: c.res.Last, digest: c.digest, position: b.position, time: b.time}
	b.set(k, b.log.enc.key(row))
	b.set(keyTimeKey(b.time, ord, name), b.log.enc.empty())
	if b.group.keys == nil {
		b.group.keys = make(map[string]keyRow)
	}
	b.group.keys[string(k)] = row
}

// finish writes what the records have changed beside them. Without records, and
// if it is not needed, there is no commit.
func (b *builder) finish() {
	defer func() { b.log.builder = b }()
	if b.count == 0 && !b.needed {
		return
	}
	b.exist()
	l, a := b.log, &b.thread.applied
	if b.stream == streamEvents {
		a.updated = b.time
	}
	for _, i := range b.stored {
		b.storeRun(i)
	}
	row := commitRow{ord: a.ord, first: b.first, count: b.count, time: b.time, stream: b.stream}
	if b.count == 0 {
		row.first = 0
	}
	b.seal(&row)
	if b.row {
		b.set(threadRowKey(a.ord), l.enc.thread(threadRow{
			key: b.thread.key, created: a.created, position: a.position,
			runs: len(a.info), head: a.runOrdinal(a.tracker.Head()), epoch: a.epoch, lifecycle: a.lifecycle,
		}))
	}
	b.group.bytes += b.group.commit.add(commitKey(b.position), l.enc.commit(row))
	l.position, l.lastTime = b.position, b.time
	b.group.last = b.position
	b.group.commits++
	b.group.changes = append(b.group.changes, b.change())
}

func (b *builder) storeRun(i int) {
	a := &b.thread.applied
	in := &a.info[i]
	r := a.tracker.At(i)
	b.set(runRowKey(a.ord, a.ordinal(i)), b.log.enc.runRow(&runRow{
		run: r, parent: in.parent, started: in.started, ended: in.ended, origin: in.origin,
		held: in.held, epoch: in.epoch, owner: in.owner, digest: in.digest,
	}))
}

// change is what readers will see; the thread is pinned until then.
func (b *builder) change() change {
	a := &b.thread.applied
	b.log.cache.pin(b.thread)
	ch := change{
		thread: b.thread, ord: a.ord, created: a.created, updated: a.updated, lastSeq: a.lastSeq, companion: a.companion,
		head: a.headIndex(), unpin: b.unpin, removed: b.removed,
	}
	slices.Sort(b.touched)
	g := b.group
	from := len(g.touched)
	for _, i := range b.touched {
		g.touched = append(g.touched, rowChange{index: i, run: a.row(a.tracker.At(i), i)})
	}
	ch.rows = g.touched[from:len(g.touched):len(g.touched)]
	return ch
}
