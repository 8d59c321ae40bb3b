package interop

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agstore/agstore/agui"
)

// number reads a count or a seed from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// readStreams reads the streams of a directory whose names end in .jsonl, the long ones left out.
func readStreams(t *testing.T, dir string) map[string]stream {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]stream{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s stream
		for line := range strings.Lines(string(raw)) {
			if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
				s = append(s, line)
			}
		}
		if len(s) > 0 && len(s) <= 60 && len(raw) <= 20_000 {
			out[filepath.Base(file)] = s
		}
	}
	if len(out) == 0 {
		t.Fatalf("no streams in %s", dir)
	}
	return out
}

// usualStreams is how many streams TestDifferential tries where these tests are required; beside others, and with
// -short, it is fewStreams. AGSTORE_DIFF is another number; a larger one asks for the long form of all tests here.
const usualStreams, fewStreams = 2000, 200

func streamsWanted(t *testing.T) uint64 {
	n := uint64(usualStreams)
	if testing.Short() || !required() {
		n = fewStreams
	}
	return number(t, "AGSTORE_DIFF", n)
}

// TestDifferential: random streams, valid and slightly invalid, in the profile Reference and in the official client,
// compared after every event. AGSTORE_DIFF_SEED is the seed of a run that is to be repeated.
func TestDifferential(t *testing.T) {
	needClient(t)
	n := streamsWanted(t)
	seed := number(t, "AGSTORE_DIFF_SEED", rand.Uint64())
	t.Logf("AGSTORE_DIFF_SEED=%d", seed)
	cases := readStreams(t, "../fold/testdata/oracle")
	var corpus []stream
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		corpus = append(corpus, cases[name])
	}

	const batch = 20
	var next atomic.Uint64
	c := newComparison(t)
	c.work(func(client *official) error {
		for {
			to := next.Add(batch)
			if to >= n+batch {
				return nil
			}
			var streams []stream
			for i := to - batch; i < min(to, n); i++ {
				streams = append(streams, streamOf(seed, i, corpus))
			}
			if _, err := c.compare(client, streams); err != nil {
				return err
			}
		}
	})
	c.finish()
	if n >= usualStreams {
		for _, kind := range agui.Types() {
			if c.applied[kind] == 0 {
				t.Errorf("no stream had a good %s", kind)
			}
		}
	}
}

// TestKnownStreams: the cases of the fold and what differences have left behind are what the client says of them, so
// is every way to write JSON, and every quirk that is excused is one that the client has.
func TestKnownStreams(t *testing.T) {
	needClient(t)
	c, client := newComparison(t), startOfficial(t)
	streams := []stream{shiftedMove, shiftedIntoList}
	for _, text := range spellings {
		streams = append(streams, stream{runStarted, `{"type":"STATE_SNAPSHOT","snapshot":` + text + `}`})
	}
	for _, dir := range []string{"../fold/testdata/oracle", "../fold/testdata/differential"} {
		streams = slices.AppendSeq(streams, maps.Values(readStreams(t, dir)))
	}
	if _, err := c.compare(client, streams); err != nil {
		t.Fatal(err)
	}
	c.finish()
	for _, q := range quirks {
		if c.refused[q] == 0 {
			t.Errorf("the client does not show it: %s", q)
		}
	}
}

// shiftedMove moves a list into what was behind it and is then in its place, a number.
var shiftedMove = stream{
	runStarted,
	`{"type":"STATE_SNAPSHOT","snapshot":{"l":[[1],5]}}`,
	`{"type":"STATE_DELTA","delta":[{"op":"move","from":"/l/0","path":"/l/0/0"}]}`,
}

// shiftedIntoList does the same to an object with a list behind it.
var shiftedIntoList = stream{
	runStarted,
	`{"type":"STATE_SNAPSHOT","snapshot":{"l":[{},[5]]}}`,
	`{"type":"STATE_DELTA","delta":[{"op":"move","from":"/l/0","path":"/l/0/y"}]}`,
}

// TestOnlyQuirksAreExcused: a difference before a quirk is found, and so is one behind it.
func TestOnlyQuirksAreExcused(t *testing.T) {
	needClient(t)
	client := startOfficial(t)
	s := slices.Concat(shiftedMove, stream{`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1}]}`})
	answers, err := client.fold(s)
	if err != nil {
		t.Fatal(err)
	}
	for wrong, want := range map[int]int{-1: -1, 0: 0, 1: 1, 3: 3} {
		own := ours(s)
		if wrong >= 0 {
			own[wrong] += "x"
		}
		at, quirks, err := unexplained(client, s, own, differ(answers[0], own))
		if err != nil || at != want || slices.Contains(quirks, shiftedAway) != (wrong < 0 || wrong > 2) {
			t.Errorf("wrong after event %d: found after %d with the quirks %q, %v", wrong, at, quirks, err)
		}
	}
}

// TestShrink: what does not matter goes.
func TestShrink(t *testing.T) {
	s := stream{`{"type":"A"}`, `not JSON`, `{"type":"B","x":1,"y":2}`, `{"type":"C"}`, `{"type":"D","z":[]}`, `{"type":"E"}`}
	got, err := shrink(s, func(s stream) (bool, error) {
		b := slices.IndexFunc(s, func(line string) bool { return strings.Contains(line, `"x"`) })
		d := slices.IndexFunc(s, func(line string) bool { return strings.Contains(line, `"D"`) })
		return b >= 0 && d > b, nil
	})
	if want := (stream{`{"x":1}`, `{"type":"D"}`}); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
