package fold

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// Without verification every case comes to what the official client's other
// stages make of it. testdata/noverify.json is the oracle's table of those where
// that is something else than with it.
func TestOracleWithoutVerification(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "noverify.json"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := jsonvalue.Parse(raw, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	differ := 0
	for _, c := range oracleCases(t, "testdata/oracle") {
		if slices.Contains(refused, c.name) {
			continue
		}
		want := table.Get(c.name)
		if want.Present() {
			differ++
		} else if want, err = jsonvalue.Parse(c.read(t, ".expect.json"), 1<<20); err != nil {
			t.Fatal(err)
		}
		f := New(Options{Profile: Reference, NoVerify: true})
		for i, raw := range c.events(t) {
			f.Apply(Record{Seq: uint64(i + 1), Raw: raw})
		}
		got, err := jsonvalue.Parse(f.View().AppendReferenceJSON(nil), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{"/messages", "/state", "/pendingInterrupts", "/error/at", "/error/stage"} {
			if x, y := got.Resolve(at), want.Resolve(at); string(x.AppendCanonical(nil)) != string(y.AppendCanonical(nil)) {
				t.Errorf("%s: %s is\n%s\nwant\n%s", c.name, at, x, y)
			}
		}
	}
	if differ < 50 {
		t.Errorf("only %d of the cases of the table are there", differ)
	}
}
