package pebblelog

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// threads looks at all threads, each as it is at one moment.
func (v *verifier) threads() error {
	for ord := uint64(1); ord <= v.lastOrd; ord++ {
		if err := v.thread(ord); err != nil {
			return err
		}
	}
	return nil
}

// threadCheck looks at one thread: first its streams, commit by commit, and at
// the moment of the last record at all that must agree with them.
type threadCheck struct {
	v   *verifier
	ord uint64
	row threadRow

	records, entries *streamCheck
	from             []byte // where the walk goes on

	// What the records say of the runs. It is not complete if partial.
	tracker *agui.Tracker
	info    []runInfo
	partial bool
	remains int

	derivedRows derivedCheck
}

func (v *verifier) thread(ord uint64) error {
	t := &threadCheck{v: v, ord: ord}
	again := true
	for again {
		again = false
		ok := false
		if err := v.each(func(r pebble.Reader) bool {
			ok = t.begin(r)
			return true
		}); err != nil || !ok {
			return err
		}
		for _, part := range []func(r pebble.Reader) bool{t.companion, t.log} {
			t.from = nil
			if err := v.each(func(r pebble.Reader) bool {
				if t.changed(r) {
					again = true
					return true
				}
				return part(r)
			}); err != nil {
				return err
			}
			if again {
				break
			}
		}
	}
	for _, part := range []func(r pebble.Reader) bool{t.keys, t.receipts, t.spaces} {
		t.from = nil
		if err := v.each(part); err != nil {
			return err
		}
	}
	v.done.Threads++
	return nil
}

// begin reads the thread's row; false: there is nothing that could be looked at.
func (t *threadCheck) begin(r pebble.Reader) bool {
	v := t.v
	value, ok, missing := v.get(r, threadRowKey(t.ord))
	if !ok {
		if missing && t.inUse(r) {
			v.fault(eventlog.Fault{Kind: eventlog.FaultThread, Place: place(threadRowKey(t.ord)), Detail: "the row of a thread that has records, or a name, is missing"})
		}
		return false
	}
	row, err := v.dec.thread(value)
	if err != nil {
		v.fault(undecodable(err, eventlog.Fault{Place: place(threadRowKey(t.ord))}))
		return false
	}
	*t = threadCheck{v: v, ord: t.ord, row: row, tracker: agui.NewTracker(nil, agui.RunKey{})}
	t.records, t.entries = &streamCheck{t: t, of: streamEvents, next: max(1, row.firstSeq)}, &streamCheck{t: t, of: streamCompanion, next: 1}
	copy(t.records.tip[:], row.chainBase)
	t.records.link.reset()
	t.entries.link.reset()
	return true
}

// inUse reports whether anything is stored under the ordinal.
func (t *threadCheck) inUse(r pebble.Reader) (used bool) {
	for _, prefix := range ofThread {
		p := ordinalKey(prefix, t.ord)
		t.v.walk(r, p, after(p), func(_, _ []byte) bool {
			used = true
			return false
		})
	}
	return used || t.v.nameOf(r, t.ord) != nil
}

// ofThread are the prefixes of keys that go by a thread's ordinal.
var ofThread = []byte{prefixRecord, prefixRun, prefixLease, prefixKey, prefixCompanion, prefixReceipt, prefixPending, prefixDerived}

// changed reports whether the thread was cleared or erased since it was begun.
func (t *threadCheck) changed(r pebble.Reader) bool {
	value, ok, _ := t.v.get(r, threadRowKey(t.ord))
	if !ok {
		return false
	}
	row, err := t.v.dec.thread(value)
	return err == nil && (row.generation != t.row.generation || row.firstSeq != t.row.firstSeq || row.state != t.row.state)
}

// moving: content is being removed just now, so that nothing need agree.
func (t *threadCheck) moving() bool {
	return t.row.state == stateClearing || t.row.state == stateErasing
}

// told is a fault of this thread.
func (t *threadCheck) told(kind eventlog.FaultKind, f eventlog.Fault, detail string, args ...any) eventlog.Fault {
	f.Kind, f.Thread, f.Detail = kind, t.row.key, fmt.Sprintf(detail, args...)
	return f
}

func (t *threadCheck) fault(kind eventlog.FaultKind, f eventlog.Fault, detail string, args ...any) {
	t.v.fault(t.told(kind, f, detail, args...))
}

// log walks the records, and when it has come to their end looks at what must
// agree with them.
func (t *threadCheck) log(r pebble.Reader) (done bool) {
	v := t.v
	prefix := ordinalKey(prefixRecord, t.ord)
	if t.from == nil {
		t.from = prefix
	}
	if t.from = v.walk(r, t.from, after(prefix), func(key, value []byte) bool {
		t.record(r, key, value)
		return true
	}); t.from != nil {
		return false
	}
	t.records.end(r)
	if t.remains > 0 {
		t.fault(eventlog.FaultRemains, eventlog.Fault{Seq: 1, To: t.row.firstSeq - 1}, "%d records are still stored that were removed", t.remains)
	}
	t.rows(r)
	return true
}

func (t *threadCheck) record(r pebble.Reader, key, value []byte) {
	v := t.v
	if len(key) != 17 {
		v.strange(key)
		return
	}
	v.done.Records++
	v.done.Bytes += uint64(len(value))
	seq := recordSeq(key)
	if t.row.state == stateErased || seq < t.row.firstSeq || seq == 0 {
		if !t.moving() {
			t.remains++
		}
		return
	}
	s := t.records
	s.upTo(seq)
	h, event, err := v.dec.record(value)
	if err != nil {
		f := undecodable(err, eventlog.Fault{Thread: t.row.key, Seq: seq, Place: place(key)})
		v.fault(f)
		s.hole()
		return
	}
	s.entry(r, seq, h.position, h.time)
	digest := h.redacted
	if h.flags&flagRedacted == 0 {
		digest = payloadDigest(event)
	}
	s.link.record(&h, digest)
	t.follow(r, seq, &h, event)
}

// follow takes note of what a record says of its run.
func (t *threadCheck) follow(r pebble.Reader, seq uint64, h *recordHeader, event []byte) {
	at := eventlog.Fault{Seq: seq, Position: h.position}
	var head agui.Header
	if err := agui.ReadHeader(event, &head); err != nil {
		t.fault(eventlog.FaultRecord, at, "its payload is no event: %v", err)
		t.partial = true
		return
	}
	if head.Type != h.typ {
		t.fault(eventlog.FaultRecord, at, "it is stored as a %s, and its payload is a %s", h.typ, head.Type)
		t.partial = true
		return
	}
	if t.partial {
		return
	}
	starts := h.typ == agui.TypeRunStarted && h.flags&flagEcho == 0
	n := uint32(t.tracker.Len()) + t.row.firstRun
	switch {
	case starts && h.run != n+1:
		t.fault(eventlog.FaultRecord, at, "it starts run %d of the thread, and is stored as of run %d", n+1, h.run)
		t.partial = true
	case !starts && h.run > n, h.run != 0 && h.run <= t.row.firstRun:
		t.fault(eventlog.FaultRecord, at, "it is of run %d, which has not started", h.run)
		t.partial = true
	case !starts && h.run == 0 && n > t.row.firstRun:
		t.fault(eventlog.FaultRecord, at, "it is of no run, though one has started before it")
		t.partial = true
	case starts:
		got := t.tracker.Assign(&head, seq, t.claim(r, h.run, seq))
		t.info = append(t.info, runInfo{started: h.time, origin: h.origin, parent: t.ordinalOf(t.parentOf(got.Run))})
	case h.run > 0:
		i := int(h.run - t.row.firstRun - 1)
		got := t.tracker.Assign(&head, seq, agui.Claim{Run: t.tracker.At(i).Key, Leased: h.flags&flagEcho != 0})
		if got.Ended {
			t.info[i].ended = h.time
		}
	}
}

func (t *threadCheck) parentOf(k agui.RunKey) agui.RunKey {
	r, _ := t.tracker.Run(k)
	return r.Parent
}

// ordinalOf is the place of a run in its thread, 0: none.
func (t *threadCheck) ordinalOf(k agui.RunKey) uint32 {
	if k.IsZero() {
		return 0
	}
	// Parents are mostly the run before.
	for i := t.tracker.Len() - 1; i >= 0; i-- {
		if t.tracker.At(i).Key == k {
			return t.row.firstRun + uint32(i) + 1
		}
	}
	return 0
}

// claim is what the writer of a start knew beside it: the parent, where the
// stored row has one that can be. Without a row that can be read, or for a run
// that overlaps others, it is what the event itself says.
func (t *threadCheck) claim(r pebble.Reader, run uint32, seq uint64) agui.Claim {
	value, ok, _ := t.v.get(r, runRowKey(t.ord, run))
	if !ok {
		return agui.Claim{}
	}
	row, err := t.v.dec.runRow(value)
	if err != nil || row.parent >= run || (row.parent != 0) != (row.run.ParentSeq == seq-1 && seq > 1) {
		return agui.Claim{}
	}
	var parent agui.RunKey
	if row.parent > t.row.firstRun {
		parent = t.tracker.At(int(row.parent - t.row.firstRun - 1)).Key
	}
	if p, ok := t.tracker.Run(parent); ok && p.Running() {
		return agui.Claim{}
	}
	return agui.Claim{Parent: &parent}
}

// companion walks the entries of the companion stream.
func (t *threadCheck) companion(r pebble.Reader) (done bool) {
	v := t.v
	prefix := ordinalKey(prefixCompanion, t.ord)
	if t.from == nil {
		t.from = prefix
	}
	remains := 0
	if t.from = v.walk(r, t.from, after(prefix), func(key, value []byte) bool {
		switch {
		case len(key) != 17:
			v.strange(key)
		case t.row.state == stateErased:
			remains++
		case !t.moving():
			t.entry(r, key, value)
		}
		return true
	}); t.from != nil {
		return false
	}
	t.entries.end(r)
	if remains > 0 {
		t.fault(eventlog.FaultRemains, eventlog.Fault{Companion: true}, "%d companion entries are still stored that were removed", remains)
	}
	return true
}

func (t *threadCheck) entry(r pebble.Reader, key, value []byte) {
	v, s, seq := t.v, t.entries, recordSeq(key)
	v.done.Bytes += uint64(len(value))
	s.upTo(seq)
	h, body, err := v.dec.entry(value)
	if err != nil {
		v.fault(undecodable(err, eventlog.Fault{Thread: t.row.key, Seq: seq, Companion: true, Place: place(key)}))
		s.hole()
		return
	}
	s.entry(r, seq, h.position, h.time)
	s.link.entry(h.kind, body)
}

// receipts looks at what is kept of removals.
func (t *threadCheck) receipts(r pebble.Reader) (done bool) {
	v, prefix := t.v, ordinalKey(prefixReceipt, t.ord)
	if t.from == nil {
		t.from = prefix
	}
	t.from = v.walk(r, t.from, after(prefix), func(key, value []byte) bool {
		if len(key) != 17 {
			v.strange(key)
		} else if _, err := v.dec.receipt(value); err != nil {
			v.fault(undecodable(err, eventlog.Fault{Thread: t.row.key, Place: place(key)}))
		}
		return true
	})
	return t.from == nil
}

// keys looks at the idempotency keys of the thread.
func (t *threadCheck) keys(r pebble.Reader) (done bool) {
	prefix := ordinalKey(prefixKey, t.ord)
	if t.from == nil {
		t.from = prefix
	}
	t.from = t.v.walk(r, t.from, after(prefix), func(key, value []byte) bool {
		t.key(r, key, value)
		return true
	})
	return t.from == nil
}

func (t *threadCheck) key(r pebble.Reader, key, value []byte) {
	v := t.v
	at := eventlog.Fault{Thread: t.row.key, Place: place(key)}
	row, err := v.dec.key(value)
	if err != nil {
		v.fault(undecodable(err, at))
		return
	}
	at.Position = row.position
	if commit, ok := v.commit(r, row.position); ok {
		if commit.ord != t.ord || row.first != 0 && (row.first < commit.first || row.last >= commit.first+uint64(commit.count)) {
			t.fault(eventlog.FaultIdempotency, at, "it answers for seq %d to %d, which its commit did not write", row.first, row.last)
		}
	}
	entry := keyTimeKey(row.time, t.ord, string(key[9:]))
	if _, _, missing := v.get(r, entry); missing {
		v.fault(t.told(eventlog.FaultIdempotencyTime, at, "the index by time does not have it"), fix{entry, append([]byte(nil), v.enc.empty()...)})
	}
}

// commit reads a commit's row; false: it is missing or damaged, which is told
// where the commits are looked at.
func (v *verifier) commit(r pebble.Reader, position uint64) (commitRow, bool) {
	value, ok, _ := v.get(r, commitKey(position))
	if !ok {
		return commitRow{}, false
	}
	row, err := v.dec.commit(value)
	return row, err == nil
}

// streamCheck follows one stream of a thread, commit by commit.
type streamCheck struct {
	t    *threadCheck
	of   stream
	next uint64 // the seq that must come

	// The commit whose entries come just now.
	position uint64 // 0: none
	first    uint64
	count    int
	time     int64
	holed    bool // not all of its entries can be read
	link     link

	behind bool       // of the next commit the first entries cannot be read
	tip    chainValue // what the next commit continues
	loose  bool       // tip is not known
}

func (s *streamCheck) at(seq uint64) eventlog.Fault {
	return eventlog.Fault{Seq: seq, Position: s.position, Companion: s.of == streamCompanion}
}

// upTo takes note of the seq that comes, and of those that do not.
func (s *streamCheck) upTo(seq uint64) {
	if seq > s.next {
		f := s.at(s.next)
		f.To, f.Position = seq-1, 0
		s.t.fault(eventlog.FaultMissing, f, "%d are missing", seq-s.next)
		s.hole()
	}
	s.next = seq + 1
}

// hole takes note that something cannot be read here.
func (s *streamCheck) hole() {
	s.holed, s.behind, s.t.partial = true, true, true
}

// entry takes an entry of a commit.
func (s *streamCheck) entry(r pebble.Reader, seq, position uint64, time int64) {
	if position != s.position || s.count == 0 {
		before := s.position
		s.end(r)
		s.position, s.first, s.count, s.time, s.holed = position, seq, 0, time, s.behind
		s.link.reset()
		if position < before {
			s.t.fault(eventlog.FaultRecord, s.at(seq), "it is of commit %d, behind one of commit %d", position, before)
		}
	} else if time != s.time {
		s.t.fault(eventlog.FaultRecord, s.at(seq), "its time is not that of the others of its commit")
	}
	s.behind = false
	s.count++
}

// end compares a commit with its row.
func (s *streamCheck) end(r pebble.Reader) {
	if s.count == 0 {
		return
	}
	t, v := s.t, s.t.v
	at := s.at(s.first)
	at.To = s.first + uint64(s.count) - 1
	v.seen.add(s.position)
	own := commitRow{ord: t.ord, first: s.first, count: s.count, time: s.time, stream: s.of}
	value, ok, missing := v.get(r, commitKey(s.position))
	if missing {
		t.fault(eventlog.FaultStray, at, "there is no commit %d", s.position)
	}
	row, err := commitRow{}, error(nil)
	if ok {
		row, err = v.dec.commit(value)
	}
	if !ok || err != nil {
		// What is wrong with it is told where the commits are looked at.
		s.goOn(&own)
		return
	}
	whole := row.first == own.first && row.count == own.count
	if row.ord != own.ord || row.time != own.time || row.stream != own.stream || !whole && !s.holed {
		t.partial = true
		t.fault(eventlog.FaultCommit, at, "the commit says: thread %d, %d from seq %d, time %d, stream %d; its records say: thread %d, %d from seq %d, time %d, stream %d",
			row.ord, row.count, row.first, row.time, row.stream, own.ord, own.count, own.first, own.time, own.stream)
	}
	s.chain(at, &row, whole)
}

// goOn continues the chain behind a commit without a row.
func (s *streamCheck) goOn(own *commitRow) {
	if s.holed || s.loose || s.t.row.chainKey == nil || s.position < s.t.row.chainStart {
		s.loose = s.loose || s.holed
		return
	}
	s.tip = s.link.sum(s.t.row.chainKey, s.tip, s.position, own)
}

// chain compares the chain value of a commit with what its records yield.
func (s *streamCheck) chain(at eventlog.Fault, row *commitRow, whole bool) {
	t := s.t
	known := t.row.chainKey != nil
	switch {
	case !known || s.position < t.row.chainStart:
		return // of format 1, or of before the thread was cleared
	case row.chain == nil:
		t.fault(eventlog.FaultChain, at, "the commit has no chain value")
		s.loose = true
		return
	case whole && !s.loose && !s.holed:
		if got := s.link.sum(t.row.chainKey, s.tip, s.position, row); got != chainValue(row.chain) {
			t.fault(eventlog.FaultChain, at, "the chain value is % x, and by its records it should be % x: they, or the order of commits, were changed", row.chain, got)
		}
	}
	s.tip, s.loose = chainValue(row.chain), false
}

// rows looks at all that must agree with the records.
func (t *threadCheck) rows(r pebble.Reader) {
	if value, ok, _ := t.v.get(r, threadRowKey(t.ord)); ok {
		if row, err := t.v.dec.thread(value); err == nil {
			t.row = row // of the same moment as the last record
		}
	}
	t.name(r)
	t.created(r)
	if t.moving() {
		return
	}
	leases := t.leases(r)
	t.tail(r)
	stored := t.runs(r, leases)
	t.counts(stored)
}

// name compares the thread with the index of names.
func (t *threadCheck) name(r pebble.Reader) {
	v, key := t.v, nameKey(t.row.key)
	value, ok, missing := v.get(r, key)
	if !ok && !missing {
		return
	}
	if ok {
		ord, err := v.dec.name(value)
		if err == nil && ord == t.ord {
			return
		}
		if err == nil && v.named(r, ord, t.row.key) {
			t.fault(eventlog.FaultName, eventlog.Fault{Place: place(key)}, "threads %d and %d say that they have the same name", ord, t.ord)
			return
		}
	}
	f := t.told(eventlog.FaultName, eventlog.Fault{Place: place(key)}, "the name does not lead to thread %d", t.ord)
	if other := v.nameOf(r, t.ord); other != nil && string(other) != string(key) {
		f.Detail = fmt.Sprintf("another name leads to thread %d than its row says: which of them is right cannot be known", t.ord)
		v.fault(f)
		return
	}
	v.fault(f, fix{key, append([]byte(nil), v.enc.name(t.ord)...)})
}

// named reports whether a thread's row has that name.
func (v *verifier) named(r pebble.Reader, ord uint64, name eventlog.ThreadKey) bool {
	value, ok, _ := v.get(r, threadRowKey(ord))
	if !ok {
		return false
	}
	row, err := v.dec.thread(value)
	return err == nil && row.key == name
}

// nameOf finds the name that leads to a thread; nil: none does.
func (v *verifier) nameOf(r pebble.Reader, ord uint64) (key []byte) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixName}, UpperBound: []byte{prefixName + 1}})
	if err != nil {
		return nil
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if got, err := v.dec.name(it.Value()); err == nil && got == ord {
			return append([]byte(nil), it.Key()...)
		}
	}
	return nil
}

// created compares the row with the commit that created the thread.
func (t *threadCheck) created(r pebble.Reader) {
	commit, ok := t.v.commit(r, t.row.position)
	if ok && (commit.ord != t.ord || commit.time != t.row.created) {
		t.fault(eventlog.FaultThread, eventlog.Fault{Position: t.row.position}, "it was created by a commit of thread %d at %d, and says at %d", commit.ord, commit.time, t.row.created)
	}
}

// leases gives the runs that have a lease.
func (t *threadCheck) leases(r pebble.Reader) map[uint32]bool {
	v, prefix := t.v, ordinalKey(prefixLease, t.ord)
	out := make(map[uint32]bool)
	for from := prefix; from != nil; {
		v.items, v.bytes = 0, 0
		from = v.walk(r, from, after(prefix), func(key, value []byte) bool {
			if len(key) != 13 {
				v.strange(key)
				return true
			}
			run := binary.BigEndian.Uint32(key[9:])
			out[run] = true
			if _, err := v.dec.lease(value); err != nil {
				f := undecodable(err, eventlog.Fault{Thread: t.row.key, Place: place(key)})
				v.fault(f, fix{append([]byte(nil), key...), append([]byte(nil), v.enc.lease(leaseRow{})...)})
			}
			return true
		})
		if v.ctx.Err() != nil || v.closing() {
			break
		}
	}
	return out
}
