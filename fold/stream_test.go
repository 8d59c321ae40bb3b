package fold_test

import (
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/fold"
)

// samePrefixes checks that each prefix is what Stream makes of it.
func samePrefixes(t testing.TB, name string, stream [][]byte, opts fold.Options) {
	t.Helper()
	n := 0
	for v := range fold.Prefixes(slices.Values(stream), opts) {
		n++
		want := fold.Stream(slices.Values(stream), opts, uint64(n))
		if got, want := string(shownView(v)), string(shownView(want)); got != want {
			t.Fatalf("%s, the first %d:\n%s\nwant\n%s", name, n, got, want)
		}
	}
	if want := fold.Stream(slices.Values(stream), opts, 0).Seq; uint64(n) != want {
		t.Errorf("%s: %d prefixes, want %d", name, n, want)
	}
}

func shownView(v *fold.View) []byte { return v.AppendReferenceJSON(append(v.AppendJSON(nil), '\n')) }

func TestPrefixes(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.jsonl")
	if err != nil || len(files) < 400 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		if stream := readLines(t, file); len(stream) <= 60 {
			for _, p := range profiles {
				samePrefixes(t, file+", "+p.name, stream, p.opts)
			}
		}
	}
}

func TestPrefixesOfSoup(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { samePrefixes(t, "soup", soup(rt), fold.Options{}) })
}

// All prefixes together cost what the stream is long, if what is shown does not
// grow.
func TestPrefixesCost(t *testing.T) {
	linear(t, func(n int) func() {
		stream := append(times(n/2, `{"type":"STATE_SNAPSHOT","snapshot":%d}`), times(n/2, `{"type":"STATE_DELTA","delta":[{"op":"replace","path":"","value":%d}]}`)...)
		return func() {
			for range fold.Prefixes(lines(append([]string{started(0)}, stream...)), fold.Options{}) {
			}
		}
	})
}
