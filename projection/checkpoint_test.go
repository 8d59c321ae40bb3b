package projection

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/agstore/agstore/fold"
)

// The rows of docs/format.md, "Stored views".
func TestRows(t *testing.T) {
	c := &checkpoint{place: place{7, 9}, parent: &place{1, 6}, depth: 1, since: 40, base: 300, rest: []byte{0x93}}
	c.lists[fold.ListRuns] = []piece{{0, 0, 1}, {2, 0, 1}}
	c.lists[fold.ListMessages] = []piece{{0, 0, 300}, {5, 1, 2}, {4, 0, 1}}
	if got, want := hex.EncodeToString(c.key()), "63"+"0000000000000007"+"0000000000000009"; got != want {
		t.Errorf("the key is %s, want %s", got, want)
	}
	value := c.encode(fold.Options{})
	want := "01" + "01" + hex.EncodeToString(value[2:6]) + // versions, options
		"01" + "01" + "06" + // parent
		"01" + "28" + "ac02" + // depth, since, base
		"01" + "93" + // rest
		"00" + // state
		"02" + "00" + "00" + "01" + "01" + "04" + "00" + "01" + // runs
		"03" + "00" + "00" + "ac02" + "01" + "0a" + "01" + "02" + "01" + "01" + "00" + "01" + // messages
		"00000000000000" // the others
	if got := hex.EncodeToString(value); got != want {
		t.Errorf("the row is\n%s, want\n%s", got, want)
	}
	back, err := decodeCheckpoint(c.place, value, fold.Options{})
	if err != nil || !reflect.DeepEqual(back, c) {
		t.Errorf("read back it is %+v, %v", back, err)
	}
	for _, other := range []fold.Options{{Profile: fold.Reference}, {NoVerify: true}, {Limits: fold.Limits{StateBytes: 5}}} {
		if _, err := decodeCheckpoint(c.place, value, other); err != errRow {
			t.Errorf("a row of a fold with other options: %v", err)
		}
	}
	if _, err := decodeCheckpoint(c.place, value, fold.Options{Limits: fold.Limits{}.WithDefaults()}); err != nil {
		t.Errorf("a row of the same limits, by number: %v", err)
	}
	entries := [][]byte{{1, 2}, {}, {3}}
	row := encodeBody(entries)
	if got, want := hex.EncodeToString(row), "01"+"03"+"020102"+"00"+"0103"; got != want {
		t.Errorf("the row of entries is %s, want %s", got, want)
	}
	if back, err := decodeBody(row); err != nil || len(back) != 3 || !bytes.Equal(back[0], entries[0]) || len(back[1]) != 0 {
		t.Errorf("read back it is %v, %v", back, err)
	}
	for n := range row {
		if _, err := decodeBody(row[:n]); err != errRow {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

// There are never many checkpoints on the way from one to its base.
func TestFewCheckpointsOnTheWayToABase(t *testing.T) {
	for _, c := range []struct{ depth, parent int }{{1, 0}, {7, 6}, {8, 0}, {9, 8}, {16, 8}, {64, 0}, {72, 64}, {128, 64}, {512, 0}} {
		if got := skipTo(c.depth); got != c.parent {
			t.Errorf("one of depth %d is told by one of %d, want %d", c.depth, got, c.parent)
		}
	}
	for depth := range 10_000 {
		steps := 0
		for at := depth; at > 0; at = skipTo(at) {
			steps++
		}
		if steps > 5*(fan-1) {
			t.Fatalf("%d steps from depth %d", steps, depth)
		}
	}
}

// Whatever a row holds, it is read or passed over.
func FuzzRows(f *testing.F) {
	c := &checkpoint{parent: &place{1, 6}, rest: []byte{0x93}}
	c.lists[fold.ListMessages] = []piece{{0, 0, 3}, {5, 1, 2}}
	f.Add(c.encode(fold.Options{}))
	f.Add(encodeBody([][]byte{{1}, {2, 3}}))
	f.Fuzz(func(t *testing.T, row []byte) {
		if c, err := decodeCheckpoint(place{9, 9}, row, fold.Options{}); err == nil && !bytes.Equal(c.encode(fold.Options{}), row) {
			again, err := decodeCheckpoint(place{9, 9}, c.encode(fold.Options{}), fold.Options{})
			if err != nil || !reflect.DeepEqual(again, c) {
				t.Fatalf("%x is read as %+v, and that as %+v", row, c, again)
			}
		}
		decodeBody(row)
	})
}
