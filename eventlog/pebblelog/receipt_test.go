package pebblelog

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/eventlog"
)

func TestReceiptRoundTrips(t *testing.T) {
	e, d := newEncoder(), newDecoder()
	rapid.Check(t, func(rt *rapid.T) {
		want := receiptRow{
			removal: eventlog.Removal(rapid.Byte().Draw(rt, "removal")), position: rapid.Uint64().Draw(rt, "position"),
			time: rapid.Int64().Draw(rt, "time"), reason: rapid.String().Draw(rt, "reason"), actor: rapid.String().Draw(rt, "actor"),
			created: rapid.Int64().Draw(rt, "created"), generation: rapid.Uint64().Draw(rt, "generation"), message: rapid.String().Draw(rt, "message"),
			first: rapid.Uint64().Draw(rt, "first"), last: rapid.Uint64().Draw(rt, "last"),
			firstPosition: rapid.Uint64().Draw(rt, "firstPosition"), lastPosition: rapid.Uint64().Draw(rt, "lastPosition"),
			firstRun: rapid.Uint32().Draw(rt, "firstRun"), lastRun: rapid.Uint32().Draw(rt, "lastRun"),
			removed: rapid.Bool().Draw(rt, "removed"), gone: rapid.Int64().Draw(rt, "gone"), diskBytes: rapid.Uint64().Draw(rt, "diskBytes"),
		}
		for range rapid.IntRange(0, 20).Draw(rt, "places") {
			want.places = append(want.places, eventlog.Place{Name: rapid.String().Draw(rt, "name"), Count: rapid.Uint64().Draw(rt, "count"), Bytes: rapid.Uint64().Draw(rt, "bytes")})
		}
		for range rapid.IntRange(0, 20).Draw(rt, "holders") {
			want.holders = append(want.holders, rapid.String().Draw(rt, "holder"))
		}
		value := append([]byte(nil), e.receipt(&want)...)
		got, err := d.receipt(value)
		if err != nil || !reflect.DeepEqual(got, want) {
			rt.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		cut := rapid.IntRange(0, len(value)-1).Draw(rt, "cut")
		if _, err := d.receipt(value[:cut]); !errors.Is(err, errDamaged) {
			rt.Fatalf("cut at %d of %d: %v", cut, len(value), err)
		}
	})
}
