package fold

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// snapshotWriter writes the fields of a snapshot. Writing into memory cannot
// fail, so the encoder's errors are always nil.
type snapshotWriter struct {
	buf  *bytes.Buffer
	enc  *msgpack.Encoder
	json []byte // a value as text
}

func newSnapshotWriter(dst []byte) *snapshotWriter {
	buf := bytes.NewBuffer(dst)
	return &snapshotWriter{buf: buf, enc: msgpack.NewEncoder(buf)}
}

// begin writes what stands before the body, the checksum still 0.
func (w *snapshotWriter) begin() {
	w.buf.WriteByte(SnapshotVersion)
	w.list(2)
	_ = w.enc.EncodeUint32(0)
}

func (w *snapshotWriter) null()         { _ = w.enc.EncodeNil() }
func (w *snapshotWriter) list(n int)    { _ = w.enc.EncodeArrayLen(n) }
func (w *snapshotWriter) uint(n uint64) { _ = w.enc.EncodeUint(n) }
func (w *snapshotWriter) bool(b bool)   { _ = w.enc.EncodeBool(b) }

// number writes a number that is never negative.
func (w *snapshotWriter) number(n int) { w.uint(uint64(n)) }

// text writes WTF-8, which msgpack's strings need not be, but may.
func (w *snapshotWriter) text(s string) { _ = w.enc.EncodeString(s) }

func (w *snapshotWriter) opt(s agui.Opt[string]) {
	if s.Set {
		w.text(s.V)
	} else {
		w.null()
	}
}

func (w *snapshotWriter) optInt(n agui.Opt[int64]) {
	if n.Set {
		_ = w.enc.EncodeInt(n.V)
	} else {
		w.null()
	}
}

func (w *snapshotWriter) texts(list []string) {
	w.list(len(list))
	for _, s := range list {
		w.text(s)
	}
}

// value writes a JSON value as its text.
func (w *snapshotWriter) value(v agui.Value) {
	if !v.Present() {
		w.null()
		return
	}
	w.json = v.AppendJSON(w.json[:0])
	w.bytes(w.json)
}

func (w *snapshotWriter) bytes(b []byte) {
	_ = w.enc.EncodeBytesLen(len(b))
	w.buf.Write(b)
}

func (w *snapshotWriter) document(d *jsonvalue.Document) {
	if d == nil || !d.Present() {
		w.null()
		return
	}
	w.json = d.AppendJSON(w.json[:0])
	w.bytes(w.json)
}

// writeList writes a list of structures.
func writeList[T any](w *snapshotWriter, list []T, one func(*snapshotWriter, *T)) {
	w.list(len(list))
	for i := range list {
		one(w, &list[i])
	}
}

// snapshotReader reads what a snapshotWriter has written. The first fault stays
// in err, and whatever is read after it is zero.
type snapshotReader struct {
	body    []byte // the whole snapshot
	in      bytes.Reader
	dec     *msgpack.Decoder
	nesting int
	err     error
}

// newSnapshotReader returns a reader of the body, if version and checksum are
// what they must be.
func newSnapshotReader(snapshot []byte, opts Options) (*snapshotReader, error) {
	r := &snapshotReader{body: snapshot, nesting: max(opts.Limits.Nesting, agui.MaxNesting)}
	r.in.Reset(snapshot)
	r.dec = newDecoder(&r.in)
	if version, err := r.in.ReadByte(); err != nil {
		r.fail("it is empty")
	} else if version != SnapshotVersion {
		r.fail("an unknown version")
	}
	r.fields(2)
	if r.err == nil && (len(snapshot) < snapshotHead || snapshot[2] != msgpcode.Uint32) {
		r.fail("no checksum")
	}
	if r.err != nil {
		return nil, r.err
	}
	r.uint()
	if binary.BigEndian.Uint32(snapshot[3:]) != crc32.Checksum(snapshot[snapshotHead:], castagnoli) {
		r.fail("the checksum is another one")
	}
	return r, r.err
}

// fail notes the first fault.
func (r *snapshotReader) fail(reason string) {
	if r.err != nil {
		return
	}
	e := &SnapshotError{Offset: len(r.body) - r.in.Len(), Reason: reason}
	if len(r.body) > 0 {
		e.Version = int(r.body[0])
	}
	r.err = e
}

// check notes a fault unless what must be so is so.
func (r *snapshotReader) check(ok bool, reason string) {
	if !ok {
		r.fail(reason)
	}
}

// field reads one field with a function of the decoder.
func field[T any](r *snapshotReader, read func() (T, error)) (v T) {
	if r.err != nil {
		return v
	}
	v, err := read()
	if err != nil {
		r.fail(err.Error())
		var none T
		return none
	}
	return v
}

func (r *snapshotReader) uint() uint64 { return field(r, r.dec.DecodeUint64) }
func (r *snapshotReader) bool() bool   { return field(r, r.dec.DecodeBool) }

// number reads a number from 0 to most.
func (r *snapshotReader) number(most int) int {
	n := r.uint()
	if n > uint64(most) {
		r.fail("a number that is too large")
		return 0
	}
	return int(n)
}

// int reads a number that may be any int but a negative one.
func (r *snapshotReader) int() int { return r.number(math.MaxInt) }

// index reads the number of one of n things, from 0. If there is none, r has
// failed.
func (r *snapshotReader) index(n int) (i int, ok bool) {
	i = r.int()
	r.check(i < n, "a number of something that is not there")
	return i, r.err == nil
}

func newDecoder(in *bytes.Reader) *msgpack.Decoder { return msgpack.NewDecoder(in) }

func isList(code byte) bool {
	return msgpcode.IsFixedArray(code) || code == msgpcode.Array16 || code == msgpcode.Array32
}

func isNumber(code byte) bool {
	return msgpcode.IsFixedNum(code) || code >= msgpcode.Uint8 && code <= msgpcode.Uint64
}

// isNull reports whether the next field is nil, and skips it then.
func (r *snapshotReader) isNull() bool {
	if field(r, r.dec.PeekCode) != msgpcode.Nil || r.err != nil {
		return r.err != nil
	}
	return r.dec.DecodeNil() == nil
}

// fields reads the head of a list that has just n elements.
func (r *snapshotReader) fields(n int) {
	if got := field(r, r.dec.DecodeArrayLen); got != n {
		r.fail("another number of fields")
	}
}

// list reads the head of a list whose elements take so many bytes at least: one
// that says it is longer than what is there costs nothing.
func (r *snapshotReader) list(bytesEach int) int {
	n := field(r, r.dec.DecodeArrayLen)
	if r.err != nil {
		return 0
	}
	if n < 0 || n > r.in.Len()/bytesEach {
		r.fail("no list, or one that is cut off")
		return 0
	}
	return n
}

// piece reads a string or bytes: a piece of the snapshot. ok is false for nil.
func (r *snapshotReader) piece() (b []byte, ok bool) {
	n := field(r, r.dec.DecodeBytesLen)
	if r.err != nil || n < 0 {
		return nil, false
	}
	if n > r.in.Len() {
		r.fail("cut off")
		return nil, false
	}
	at := len(r.body) - r.in.Len()
	if _, err := r.in.Seek(int64(n), io.SeekCurrent); err != nil {
		r.fail(err.Error())
		return nil, false
	}
	return r.body[at : at+n], true
}

// must is piece where there must be one.
func (r *snapshotReader) must() []byte {
	b, ok := r.piece()
	r.check(ok, "nothing where a text must be")
	return b
}

func (r *snapshotReader) text() string { return string(r.must()) }

// growing reads a text that goes on.
func (r *snapshotReader) growing() *jsonvalue.Text {
	t := new(jsonvalue.Text)
	t.AppendBytes(r.must())
	return t
}

func (r *snapshotReader) opt() agui.Opt[string] {
	b, ok := r.piece()
	return agui.Opt[string]{V: string(b), Set: ok}
}

// role reads a role: one of the usual ones takes no memory of its own.
func (r *snapshotReader) role() agui.Role {
	b := r.must()
	for _, role := range [...]agui.Role{agui.RoleAssistant, agui.RoleUser, agui.RoleTool, agui.RoleReasoning, agui.RoleActivity} {
		if string(b) == string(role) {
			return role
		}
	}
	return agui.Role(b)
}

func (r *snapshotReader) optInt() agui.Opt[int64] {
	if r.isNull() {
		return agui.Opt[int64]{}
	}
	return agui.Some(field(r, r.dec.DecodeInt64))
}

// texts reads a list of texts; an empty one is nil.
func (r *snapshotReader) texts() []string {
	var out []string
	for range r.list(1) {
		out = append(out, r.text())
	}
	return out
}

func (r *snapshotReader) value() agui.Value {
	b, ok := r.piece()
	if !ok {
		return agui.Value{}
	}
	v, err := jsonvalue.Parse(b, r.nesting)
	if err != nil {
		r.fail(err.Error())
		return agui.Value{}
	}
	return v
}

// document reads a document that may be nil.
func (r *snapshotReader) document() *jsonvalue.Document {
	if v := r.value(); v.Present() {
		return jsonvalue.NewDocument(v)
	}
	return nil
}

// readList reads a list of structures of so many fields.
func readList[T any](r *snapshotReader, fields int, one func(*snapshotReader, *T)) []T {
	n := r.list(fields + 1)
	if n == 0 {
		return nil
	}
	out := make([]T, n)
	for i := range out {
		if r.err != nil {
			return nil
		}
		r.fields(fields)
		one(r, &out[i])
	}
	return out
}
