package pebblelog

import (
	"encoding/binary"
	"math"
)

// The forms of msgpack that stored values use, written by hand: a record is
// written and read too often for a library that works on any type. Integers
// have their shortest form, as docs/format.md says.
const (
	packNil   = 0xc0
	packFalse = 0xc2
	packTrue  = 0xc3
	packBin8  = 0xc4
	packBin16 = 0xc5
	packBin32 = 0xc6
	packU8    = 0xcc
	packU16   = 0xcd
	packU32   = 0xce
	packU64   = 0xcf
	packI8    = 0xd0
	packI16   = 0xd1
	packI32   = 0xd2
	packI64   = 0xd3
	packText8 = 0xd9
	packText  = 0xda // of 16 bits of length
	packTextL = 0xdb // of 32 bits

	packArray   = 0x90 // with the length in the lower four bits
	packArray16 = 0xdc
	packFixed   = 0xa0 // text with the length in the lower five
)

func appendArray(b []byte, n int) []byte {
	if n < 16 {
		return append(b, packArray|byte(n))
	}
	return binary.BigEndian.AppendUint16(append(b, packArray16), uint16(n))
}

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, packU8, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, packU16), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, packU32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, packU64), v)
}

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(b, uint64(v))
	case v >= -32:
		return append(b, byte(v))
	case v >= math.MinInt8:
		return append(b, packI8, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, packI16), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, packI32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, packI64), uint64(v))
}

func appendText(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, packFixed|byte(n))
	case n <= math.MaxUint8:
		b = append(b, packText8, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, packText), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, packTextL), uint32(n))
	}
	return append(b, s...)
}

func appendBytes(b, s []byte) []byte {
	switch n := len(s); {
	case n <= math.MaxUint8:
		b = append(b, packBin8, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, packBin16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, packBin32), uint32(n))
	}
	return append(b, s...)
}

// unpacker reads what the functions above wrote. After the first fault it stays
// failed and gives zeros.
type unpacker struct {
	rest   []byte
	failed bool
}

func (u *unpacker) fail() {
	u.failed = true
	u.rest = nil
}

// take gives the next n bytes; none, and a fault, if there are fewer.
func (u *unpacker) take(n uint64) []byte {
	if n > uint64(len(u.rest)) {
		u.fail()
		return nil
	}
	out := u.rest[:n]
	u.rest = u.rest[n:]
	return out
}

// number reads a big-endian number of n bytes.
func (u *unpacker) number(n int) (v uint64) {
	for _, c := range u.take(uint64(n)) {
		v = v<<8 | uint64(c)
	}
	return v
}

// code reads the byte that a value begins with; 0, and a fault, at the end.
func (u *unpacker) code() byte {
	if len(u.rest) == 0 {
		u.fail()
		return 0
	}
	c := u.rest[0]
	u.rest = u.rest[1:]
	return c
}

// peek is the next code; 0 at the end.
func (u *unpacker) peek() byte {
	if len(u.rest) == 0 {
		return 0
	}
	return u.rest[0]
}

// array reads how many fields follow.
func (u *unpacker) array() int {
	c := u.code()
	switch {
	case c&0xf0 == packArray:
		return int(c & 0x0f)
	case c == packArray16:
		return int(u.number(2))
	}
	u.fail()
	return -1
}

func (u *unpacker) uint() uint64 {
	c := u.code()
	switch {
	case c < 0x80:
		return uint64(c)
	case c >= packU8 && c <= packU64:
		return u.number(1 << (c - packU8))
	}
	u.fail()
	return 0
}

func (u *unpacker) int() int64 {
	switch c := u.peek(); {
	case c >= 0xe0:
		return int64(int8(u.code()))
	case c >= packI8 && c <= packI64:
		u.code()
		bytes := 1 << (c - packI8)
		unused := 64 - 8*bytes
		return int64(u.number(bytes)<<unused) >> unused
	}
	v := u.uint()
	if v > math.MaxInt64 {
		u.fail()
		return 0
	}
	return int64(v)
}

func (u *unpacker) bool() bool {
	c := u.code()
	if c != packTrue && c != packFalse {
		u.fail()
	}
	return c == packTrue
}

// isText reports whether text is next.
func (u *unpacker) isText() bool {
	c := u.peek()
	return c&0xe0 == packFixed || c >= packText8 && c <= packTextL
}

// text gives the bytes of a text, which alias what is read.
func (u *unpacker) text() []byte {
	c := u.code()
	switch {
	case c&0xe0 == packFixed:
		return u.take(uint64(c & 0x1f))
	case c >= packText8 && c <= packTextL:
		return u.take(u.number(1 << (c - packText8)))
	}
	u.fail()
	return nil
}

// bytes gives bytes, which alias what is read; nil is no bytes.
func (u *unpacker) bytes() []byte {
	c := u.code()
	switch {
	case c == packNil:
		return nil
	case c >= packBin8 && c <= packBin32:
		return u.take(u.number(1 << (c - packBin8)))
	}
	u.fail()
	return nil
}
