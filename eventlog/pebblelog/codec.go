package pebblelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// The versions of the whole store, one for each change of the format. A store is
// brought to the newest when it is opened, and never back. Values written before
// are read as they are.
const (
	FormatFirst     = 1 // records, runs, leases, commits, idempotency keys
	FormatLifecycle = 2 // generations, erasure, the chain of commits, leases that expire, companion entries
	FormatViews     = 3 // rows derived from the log; names in place of idempotency keys

	// FormatVersion is the version that this build writes.
	FormatVersion = FormatViews
)

// The first byte of a stored value is the version of its kind: valueVersion, or
// the newest of those that have changed.
const (
	valueVersion  = 1
	threadVersion = 2
	commitVersion = 2
	leaseVersion  = 2
	backupVersion = 3
)

// typeNumbers gives the types of AG-UI 1.0 their numbers in a record header,
// which is the place in this list. It is part of the format: numbers are never
// given anew, types are added at the end.
var typeNumbers = [...]agui.Type{
	0:  "",
	1:  agui.TypeTextMessageStart,
	2:  agui.TypeTextMessageContent,
	3:  agui.TypeTextMessageEnd,
	4:  agui.TypeTextMessageChunk,
	5:  agui.TypeToolCallStart,
	6:  agui.TypeToolCallArgs,
	7:  agui.TypeToolCallEnd,
	8:  agui.TypeToolCallChunk,
	9:  agui.TypeToolCallResult,
	10: agui.TypeStateSnapshot,
	11: agui.TypeStateDelta,
	12: agui.TypeMessagesSnapshot,
	13: agui.TypeActivitySnapshot,
	14: agui.TypeActivityDelta,
	15: agui.TypeRaw,
	16: agui.TypeCustom,
	17: agui.TypeRunStarted,
	18: agui.TypeRunFinished,
	19: agui.TypeRunError,
	20: agui.TypeStepStarted,
	21: agui.TypeStepFinished,
	22: agui.TypeReasoningStart,
	23: agui.TypeReasoningEnd,
	24: agui.TypeReasoningMessageStart,
	25: agui.TypeReasoningMessageContent,
	26: agui.TypeReasoningMessageEnd,
	27: agui.TypeReasoningMessageChunk,
	28: agui.TypeReasoningEncryptedValue,
	29: agui.TypeSubagentStarted,
	30: agui.TypeSubagentFinished,
	31: agui.TypeSubagentError,
}

func typeNumber(t agui.Type) int { return max(0, slices.Index(typeNumbers[:], t)) }

// Flags of a record.
const (
	flagEcho          = 1 << 0
	flagUnknownParent = 1 << 1
	flagRedacted      = 1 << 2 // the header has the digest of the event that was there
)

// state is where a thread is in its life.
type state uint8

const (
	stateLive     state = iota
	stateClearing       // what its generation had before is being removed
	stateErasing        // all that it has is being removed
	stateErased         // what is left is its tombstone
)

// stream is what the entries of a commit are.
type stream uint8

const (
	streamEvents    stream = iota // records
	streamCompanion               // entries of the companion stream
	streamControl                 // none: the commit is of the log's own doing
)

// Lengths of what the chain of commits needs.
const (
	chainKeyBytes = 32
	chainBytes    = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged: stored bytes are not a value that this package writes.
var errDamaged = errors.New("not what was written")

// errChecksum: the checksum of a value is wrong.
var errChecksum = fmt.Errorf("%w: wrong checksum", errDamaged)

// The stored values.
type (
	storeRow struct {
		format      uint64
		incarnation string
		created     int64
	}
	threadRow struct {
		key      eventlog.ThreadKey
		created  int64
		position uint64 // of the commit that created it
		runs     int
		head     uint32 // run ordinal, 0: none
		epoch    uint64 // of the latest lease
		lifecycle
	}
	// lifecycle is what a thread's row has since FormatLifecycle.
	lifecycle struct {
		generation uint64
		firstSeq   uint64 // of the generation: what was below it is gone
		firstRun   uint32 // run ordinal of the generation's first run, less 1
		state      state
		chainKey   []byte // 32 bytes; nil: no commit of it has a chain value
		chainStart uint64 // position of the first commit that has one
		chainBase  []byte // 16 bytes: what the first record that is left continues; nil: nothing
	}
	recordHeader struct {
		position uint64
		time     int64
		run      uint32 // run ordinal, 0: none
		typ      agui.Type
		origin   eventlog.Origin
		flags    uint8
		redacted [16]byte // with flagRedacted: the digest of the event that was there
	}
	runRow struct {
		run            agui.Run
		parent         uint32 // run ordinal, 0: none
		started, ended int64
		origin         eventlog.Origin
		held           bool
		epoch          uint64
		owner          string
		digest         [16]byte
	}
	commitRow struct {
		ord    uint64
		first  uint64
		count  int
		time   int64
		stream stream
		chain  []byte // 16 bytes; nil: its thread had no chain yet
	}
	leaseRow struct {
		ttl     int64 // microseconds; 0: the lease is this process's, and dies with it
		expires int64
	}
	backupRow struct {
		time     int64
		position uint64 // up to which everything is in it
		upTo     uint64 // up to which something may be in it; the highest: it was never completed
		dir      string
		// Of the log when it was made; a restored log is of another. Empty and 0:
		// not known, noted before version 3.
		incarnation string
		format      uint64
	}
	keyRow struct {
		first, last uint64
		digest      [16]byte
		position    uint64
		time        int64
	}
)

// encoder writes stored values. What it returns is valid until its next call.
type encoder struct{ buf []byte }

func newEncoder() *encoder { return new(encoder) }

func (e *encoder) begin(fields int) { e.beginVersion(valueVersion, fields) }

func (e *encoder) beginVersion(version byte, fields int) {
	e.buf = append(e.buf[:0], version)
	e.array(fields)
}

func (e *encoder) array(fields int) { e.buf = appendArray(e.buf, fields) }
func (e *encoder) uint(v uint64)    { e.buf = appendUint(e.buf, v) }
func (e *encoder) text(s string)    { e.buf = appendText(e.buf, s) }
func (e *encoder) bytes(b []byte)   { e.buf = appendBytes(e.buf, b) }
func (e *encoder) time(m int64)     { e.buf = appendInt(e.buf, m) }
func (e *encoder) bool(b bool) {
	if b {
		e.buf = append(e.buf, packTrue)
	} else {
		e.buf = append(e.buf, packFalse)
	}
}
func (e *encoder) finish() []byte  { return e.buf }
func (e *encoder) ordinal(n int)   { e.uint(uint64(n)) }
func (e *encoder) small(n uint8)   { e.uint(uint64(n)) }
func (e *encoder) run(ord uint32)  { e.uint(uint64(ord)) }
func (e *encoder) digest(d []byte) { e.bytes(d) }

func (e *encoder) store(r storeRow) []byte {
	e.begin(3)
	e.uint(r.format)
	e.text(r.incarnation)
	e.time(r.created)
	return e.finish()
}

func (e *encoder) name(ord uint64) []byte {
	e.begin(1)
	e.uint(ord)
	return e.finish()
}

func (e *encoder) thread(r threadRow) []byte {
	e.beginVersion(threadVersion, 14)
	e.text(r.key.Scope)
	e.text(r.key.Thread)
	e.time(r.created)
	e.uint(r.position)
	e.ordinal(r.runs)
	e.run(r.head)
	e.uint(r.epoch)
	e.uint(r.generation)
	e.uint(r.firstSeq)
	e.run(r.firstRun)
	e.small(uint8(r.state))
	e.digest(r.chainKey)
	e.uint(r.chainStart)
	e.digest(r.chainBase)
	return e.finish()
}

// record is: version, CRC-32C of all that follows, header, event.
func (e *encoder) record(h *recordHeader, event []byte) []byte {
	e.recordHead(h)
	e.buf = append(e.buf, event...)
	sealRecord(e.buf)
	return e.finish()
}

// recordHead is a record without its event, not yet sealed.
func (e *encoder) recordHead(h *recordHeader) []byte {
	e.buf = append(e.buf[:0], valueVersion, 0, 0, 0, 0)
	redacted := h.flags&flagRedacted != 0
	if redacted {
		e.array(7)
	} else {
		e.array(6)
	}
	e.uint(h.position)
	e.time(h.time)
	e.run(h.run)
	if n := typeNumber(h.typ); n > 0 {
		e.ordinal(n)
	} else {
		e.text(string(h.typ))
	}
	e.small(uint8(h.origin))
	e.small(h.flags)
	if redacted {
		e.digest(h.redacted[:])
	}
	return e.finish()
}

// sealRecord sets the checksum of a whole record, or entry.
func sealRecord(value []byte) {
	binary.BigEndian.PutUint32(value[1:], crc32.Checksum(value[5:], castagnoli))
}

func (e *encoder) runRow(r *runRow) []byte {
	e.begin(16)
	e.text(r.run.Key.ID)
	e.ordinal(r.run.Key.Attempt)
	e.run(r.parent)
	e.uint(r.run.ParentSeq)
	e.uint(r.run.FirstSeq)
	e.uint(r.run.LastSeq)
	e.uint(r.run.EndSeq)
	e.uint(r.run.Events)
	e.small(uint8(r.run.Status))
	e.time(r.started)
	e.time(r.ended)
	e.small(uint8(r.origin))
	e.bool(r.held)
	e.uint(r.epoch)
	e.text(r.owner)
	e.digest(r.digest[:])
	return e.finish()
}

func (e *encoder) commit(r commitRow) []byte {
	e.beginVersion(commitVersion, 6)
	e.uint(r.ord)
	e.uint(r.first)
	e.ordinal(r.count)
	e.time(r.time)
	e.small(uint8(r.stream))
	e.digest(r.chain)
	return e.finish()
}

func (e *encoder) lease(r leaseRow) []byte {
	e.beginVersion(leaseVersion, 2)
	e.time(r.ttl)
	e.time(r.expires)
	return e.finish()
}

func (e *encoder) backup(r backupRow) []byte {
	e.beginVersion(backupVersion, 6)
	e.time(r.time)
	e.uint(r.position)
	e.uint(r.upTo)
	e.text(r.dir)
	e.text(r.incarnation)
	e.uint(r.format)
	return e.finish()
}

func (e *encoder) key(r keyRow) []byte {
	e.begin(5)
	e.uint(r.first)
	e.uint(r.last)
	e.digest(r.digest[:])
	e.uint(r.position)
	e.time(r.time)
	return e.finish()
}

func (e *encoder) empty() []byte {
	e.begin(0)
	return e.finish()
}

// decoder reads stored values. The first fault stays in err, and all later
// fields read as zero.
type decoder struct {
	in  unpacker
	err error
}

func newDecoder() *decoder { return new(decoder) }

// begin starts a value whose kind has one version for each number of fields,
// the first for version 1, and gives the version.
func (d *decoder) begin(value []byte, fields ...int) (version byte) {
	d.err = nil
	if len(value) == 0 || value[0] == 0 {
		d.err = errDamaged
		return 0
	}
	version = value[0]
	if int(version) > len(fields) {
		d.err = &eventlog.VersionError{What: "value", Found: int(version), Known: len(fields)}
		return version
	}
	if n := d.reset(value[1:]); n != fields[version-1] {
		d.err = errDamaged
	}
	return version
}

// reset starts a body and gives its number of fields.
func (d *decoder) reset(body []byte) int {
	d.in = unpacker{rest: body}
	return d.in.array()
}

// fault is what has been wrong so far.
func (d *decoder) fault() error {
	if d.err == nil && d.in.failed {
		d.err = errDamaged
	}
	return d.err
}

// end is the fault of the value, which must have been read to its last byte.
func (d *decoder) end() error {
	if d.fault() == nil && len(d.in.rest) != 0 {
		d.err = errDamaged
	}
	return d.err
}

func (d *decoder) uint() uint64 { return d.in.uint() }
func (d *decoder) time() int64  { return d.in.int() }
func (d *decoder) text() string { return string(d.in.text()) }
func (d *decoder) bool() bool   { return d.in.bool() }

func (d *decoder) below(limit uint64) uint64 {
	v := d.in.uint()
	if v > limit {
		d.in.fail()
		return 0
	}
	return v
}

func (d *decoder) run() uint32  { return uint32(d.below(1<<32 - 1)) }
func (d *decoder) ordinal() int { return int(d.below(1<<62 - 1)) }
func (d *decoder) small() uint8 { return uint8(d.below(1<<8 - 1)) }
func (d *decoder) digest(to []byte) {
	b := d.in.bytes()
	if len(b) != len(to) {
		d.in.fail()
	}
	copy(to, b)
}

// optional reads bytes of a fixed length, or none: nil.
func (d *decoder) optional(length int) []byte {
	b := d.in.bytes()
	if len(b) != 0 && len(b) != length {
		d.in.fail()
		return nil
	}
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

func (d *decoder) store(value []byte) (r storeRow, err error) {
	d.begin(value, 3)
	r.format, r.incarnation, r.created = d.uint(), d.text(), d.time()
	return r, d.end()
}

func (d *decoder) name(value []byte) (ord uint64, err error) {
	d.begin(value, 1)
	ord = d.uint()
	return ord, d.end()
}

func (d *decoder) thread(value []byte) (r threadRow, err error) {
	version := d.begin(value, 7, 14)
	r.key.Scope, r.key.Thread = d.text(), d.text()
	r.created, r.position = d.time(), d.uint()
	r.runs, r.head, r.epoch = d.ordinal(), d.run(), d.uint()
	if version < threadVersion {
		r.firstSeq = 1
		return r, d.end()
	}
	r.generation, r.firstSeq, r.firstRun = d.uint(), d.uint(), d.run()
	r.state = state(d.small())
	r.chainKey, r.chainStart, r.chainBase = d.optional(chainKeyBytes), d.uint(), d.optional(chainBytes)
	return r, d.end()
}

// unsealed is what is wrong with a value that sealRecord has sealed.
func unsealed(value []byte) error {
	if len(value) < 5 {
		return errDamaged
	}
	if value[0] != valueVersion {
		return &eventlog.VersionError{What: "value", Found: int(value[0]), Known: valueVersion}
	}
	if crc32.Checksum(value[5:], castagnoli) != binary.BigEndian.Uint32(value[1:]) {
		return errChecksum
	}
	return nil
}

// record gives the header and the event, which aliases value.
func (d *decoder) record(value []byte) (h recordHeader, event []byte, err error) {
	d.err = nil
	if err := unsealed(value); err != nil {
		return h, nil, err
	}
	fields := d.reset(value[5:])
	h.position, h.time, h.run = d.uint(), d.time(), d.run()
	h.typ = d.typ()
	h.origin, h.flags = eventlog.Origin(d.small()), d.small()
	want := 6
	if h.flags&flagRedacted != 0 {
		d.digest(h.redacted[:])
		want = 7
	}
	if fields != want {
		d.in.fail()
	}
	return h, d.in.rest, d.fault()
}

func (d *decoder) typ() agui.Type {
	if d.in.isText() {
		return agui.Type(d.text())
	}
	n := d.uint()
	if n == 0 || n >= uint64(len(typeNumbers)) {
		d.in.fail()
		return ""
	}
	return typeNumbers[n]
}

func (d *decoder) runRow(value []byte) (r runRow, err error) {
	d.begin(value, 16)
	r.run.Key = agui.RunKey{ID: d.text(), Attempt: d.ordinal()}
	r.parent = d.run()
	r.run.ParentSeq, r.run.FirstSeq, r.run.LastSeq, r.run.EndSeq = d.uint(), d.uint(), d.uint(), d.uint()
	r.run.Events = d.uint()
	r.run.Status = agui.RunStatus(d.small())
	r.started, r.ended = d.time(), d.time()
	r.origin, r.held, r.epoch, r.owner = eventlog.Origin(d.small()), d.bool(), d.uint(), d.text()
	d.digest(r.digest[:])
	return r, d.end()
}

func (d *decoder) commit(value []byte) (r commitRow, err error) {
	version := d.begin(value, 4, 6)
	r.ord, r.first, r.count, r.time = d.uint(), d.uint(), d.ordinal(), d.time()
	if version >= commitVersion {
		r.stream, r.chain = stream(d.small()), d.optional(chainBytes)
	}
	return r, d.end()
}

func (d *decoder) lease(value []byte) (r leaseRow, err error) {
	if d.begin(value, 0, 2) >= leaseVersion {
		r.ttl, r.expires = d.time(), d.time()
	}
	return r, d.end()
}

func (d *decoder) backup(value []byte) (r backupRow, err error) {
	version := d.begin(value, 3, 4, 6)
	r.time, r.position, r.upTo = d.time(), d.uint(), math.MaxUint64
	if version >= 2 {
		r.upTo = d.uint()
	}
	r.dir = d.text()
	if version >= 3 {
		r.incarnation, r.format = d.text(), d.uint()
	}
	return r, d.end()
}

func (d *decoder) key(value []byte) (r keyRow, err error) {
	d.begin(value, 5)
	r.first, r.last = d.uint(), d.uint()
	d.digest(r.digest[:])
	r.position, r.time = d.uint(), d.time()
	return r, d.end()
}
