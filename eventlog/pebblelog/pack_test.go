package pebblelog

import (
	"bytes"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// What is written by hand is what a msgpack library writes, and the library's
// is read by hand.
func TestPackIsMsgpack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var buf bytes.Buffer
		enc := msgpack.NewEncoder(&buf)
		bits := rapid.IntRange(0, 64)
		u := rapid.Uint64().Draw(rt, "u") >> bits.Draw(rt, "shift")
		i := rapid.Int64().Draw(rt, "i") >> min(63, bits.Draw(rt, "shift"))
		n := rapid.SampledFrom([]int{0, 1, 31, 32, 255, 256, 65535, 65536, 70000}).Draw(rt, "length")
		s := string(bytes.Repeat([]byte{'x'}, n))
		fields := rapid.IntRange(0, 40).Draw(rt, "fields")
		truth := rapid.Bool().Draw(rt, "bool")
		for _, err := range []error{
			enc.EncodeArrayLen(fields), enc.EncodeUint(u), enc.EncodeInt(i), enc.EncodeString(s), enc.EncodeBytes([]byte(s)), enc.EncodeBool(truth),
		} {
			if err != nil {
				rt.Fatal(err)
			}
		}
		e := newEncoder()
		e.array(fields)
		e.uint(u)
		e.time(i)
		e.text(s)
		e.bytes([]byte(s))
		e.bool(truth)
		if !bytes.Equal(e.finish(), buf.Bytes()) {
			rt.Fatalf("%x, the library %x", e.finish(), buf.Bytes())
		}
		d := unpacker{rest: buf.Bytes()}
		gotFields, gotU, gotI, isText, gotS, gotB, gotTruth := d.array(), d.uint(), d.int(), d.isText(), d.text(), d.bytes(), d.bool()
		if d.failed || gotFields != fields || gotU != u || gotI != i || !isText || string(gotS) != s || string(gotB) != s || gotTruth != truth || len(d.rest) != 0 {
			rt.Fatalf("%d %d %d %v %v, failed %v, %d left", gotFields, gotU, gotI, isText, gotTruth, d.failed, len(d.rest))
		}
	})
}

// FuzzUnpack: what is read by hand the library reads alike, and nothing is read
// behind the end.
func FuzzUnpack(f *testing.F) {
	e := newEncoder()
	e.commit(commitRow{ord: 300, first: 70_000, count: 1, time: 1 << 50, chain: make([]byte, chainBytes)})
	f.Add(e.finish()[1:])
	e.recordHead(&recordHeader{position: 9, typ: "OTHER"})
	f.Add(e.finish()[5:])
	f.Fuzz(func(t *testing.T, in []byte) {
		u := unpacker{rest: in}
		lib := msgpack.NewDecoder(bytes.NewReader(in))
		n := u.array()
		if u.failed {
			return
		}
		if got, err := lib.DecodeArrayLen(); err != nil || got != n {
			t.Fatalf("array of %d; the library %d, %v", n, got, err)
		}
		for range n {
			var what, want any
			var err error
			switch c := u.peek(); {
			case u.isText():
				what = string(u.text())
				want, err = lib.DecodeString()
			case c >= packBin8 && c <= packBin32:
				what = string(u.bytes())
				var b []byte
				b, err = lib.DecodeBytes()
				want = string(b)
			case c == packTrue || c == packFalse:
				what = u.bool()
				want, err = lib.DecodeBool()
			default:
				what = u.int()
				want, err = lib.DecodeInt64()
			}
			if u.failed {
				return
			}
			if err != nil || what != want {
				t.Fatalf("%v; the library %v, %v", what, want, err)
			}
		}
	})
}
