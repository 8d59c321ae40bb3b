package pebblelog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// The chain (DESIGN decision 12): every commit that has records, or entries of
// the companion stream, carries a keyed hash over them and over the chain value
// of its thread's commit before, in the same stream. It shows a record that was
// changed, removed, put in or moved by somebody who could also make its checksum
// right, and did not have the thread's key.
//
// The hash is HMAC-SHA-256, shortened to 16 bytes. Its bytes are described in
// docs/format.md. It is computed from digests of the payloads, which the callers
// have computed side by side: for the committer a record costs some 28 bytes of
// SHA-256.

// chained are the streams whose commits have a chain value.
const chained = 2

// chainValue is the chain value of a commit. All zero: there is none.
type chainValue [chainBytes]byte

// Sizes within the hashed message.
const (
	chainPad  = sha256.BlockSize       // the key, as HMAC pads it
	chainHead = chainBytes + 5*8       // what is said of the commit
	chainKeep = 1 << 20                // a buffer beyond it is not kept
	chainFrom = chainPad + chainHead   // where the records begin
	chainSum  = chainPad + sha256.Size // of the outer hash
)

// payloadDigest is what the chain knows of a payload: the first 16 bytes of its
// SHA-256.
func payloadDigest(payload []byte) (d [chainBytes]byte) {
	sum := sha256.Sum256(payload)
	copy(d[:], sum[:])
	return d
}

// link collects what a commit's chain value is computed from. The zero link is
// empty. Its memory is kept from one commit to the next.
type link struct {
	buf []byte
}

// reset empties the link.
func (k *link) reset() {
	if cap(k.buf) < chainFrom || cap(k.buf) > chainKeep {
		k.buf = make([]byte, chainFrom, 4096)
	}
	k.buf = k.buf[:chainFrom]
}

// record adds a record; digest is that of its event, or of the one that was
// there before it was redacted.
func (k *link) record(h *recordHeader, digest [chainBytes]byte) {
	b := binary.BigEndian.AppendUint64(k.buf, uint64(h.run))
	n := typeNumber(h.typ)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	if n == 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(len(h.typ)))
		b = append(b, h.typ...)
	}
	b = append(b, byte(h.origin), h.flags&^flagRedacted)
	k.buf = append(b, digest[:]...)
}

// entry adds an entry of the companion stream.
func (k *link) entry(kind string, body []byte) {
	digest := payloadDigest(body)
	b := binary.BigEndian.AppendUint32(k.buf, uint32(len(kind)))
	b = append(b, kind...)
	k.buf = append(b, digest[:]...)
}

// sum is the chain value of the commit, which continues before.
func (k *link) sum(key []byte, before chainValue, position uint64, row *commitRow) (out chainValue) {
	head := append(k.buf[chainPad:chainPad], before[:]...)
	for _, v := range [...]uint64{position, row.first, uint64(row.count), uint64(row.time), uint64(row.stream)} {
		head = binary.BigEndian.AppendUint64(head, v)
	}
	var outer [chainSum]byte
	for i := range chainPad {
		var b byte
		if i < len(key) {
			b = key[i]
		}
		k.buf[i], outer[i] = b^0x36, b^0x5c
	}
	inner := sha256.Sum256(k.buf)
	copy(outer[chainPad:], inner[:])
	sum := sha256.Sum256(outer[:])
	copy(out[:], sum[:])
	return out
}

// seal gives a commit its chain value, and the thread its key if it has none.
// Commits without records and entries have none.
func (b *builder) seal(row *commitRow) {
	a := &b.thread.applied
	if a.chainKey == nil && a.state < stateErasing {
		key := make([]byte, chainKeyBytes)
		b.log.opts.random(key)
		a.chainKey, a.chainStart, a.chainBase, a.tips = key, b.position, nil, [chained]chainValue{}
		b.row = true
	}
	if a.chainKey == nil || row.count == 0 || row.stream >= chained {
		return
	}
	tip := &a.tips[row.stream]
	*tip = b.link.sum(a.chainKey, *tip, b.position, row)
	row.chain = tip[:]
}

// loadTip reads the chain value from which a stream goes on: that of its latest
// commit; 0: what it had is gone, or it never had any. Where the row is damaged
// the chain begins anew, and verify says so.
func (a *applied) loadTip(l *Log, d *decoder, of stream, position uint64) error {
	tip := &a.tips[of]
	*tip = chainValue{}
	if of == streamEvents {
		copy(tip[:], a.chainBase)
	}
	if position == 0 || a.chainKey == nil || position < a.chainStart {
		return nil
	}
	value, closer, err := l.db.Get(commitKey(position))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	row, err := d.commit(value)
	if err == nil {
		copy(tip[:], row.chain)
	}
	return closer.Close()
}
