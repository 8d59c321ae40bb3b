package fold

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/cputime"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// refused are the quirk cases whose patches the profile Reference refuses on
// purpose, because RFC 6901 or 6902 forbids them (docs/fold.md).
var refused = []string{
	"delta-array-odd-indexes", "delta-inherited-names", "delta-move-copy-past-end", "delta-on-scalar-state",
	"number-overflow-after-patch", "quirk-copy-inherited-fatal", "quirk-copy-missing-to-root",
	"quirk-falsy-state-skips-checks", "quirk-move-list-length", "quirk-move-root-into-child",
	"quirk-move-root-then-snapshot", "quirk-string-state",
}

// oracleCase is a case of the oracle: a stream, and what the official client
// holds after it.
type oracleCase struct {
	name string
	core bool
	dir  string
}

// oracleCases reads the index of a directory of cases.
func oracleCases(t *testing.T, dir string) []oracleCase {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(dir, "INDEX.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []oracleCase
	for line := range strings.Lines(string(index)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		name, class := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[3])
		if class != "core" && class != "quirk" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, name+".jsonl")); err != nil {
			continue
		}
		out = append(out, oracleCase{name, class == "core", dir})
	}
	return out
}

func (c oracleCase) read(t *testing.T, suffix string) []byte {
	t.Helper()
	out, err := os.ReadFile(filepath.Join(c.dir, c.name+suffix))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c oracleCase) events(t *testing.T) [][]byte {
	t.Helper()
	var out [][]byte
	for line := range bytes.Lines(c.read(t, ".jsonl")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

// The cases in testdata are the oracle's own, but for gen-20k, which is large,
// and activity-content-cloned, where a member has another name and there are no
// digests.
func TestOracleCases(t *testing.T) {
	testOracle(t, "testdata/oracle", 380)
}

func TestOracleCasesOfSharedDirectory(t *testing.T) {
	shared := os.Getenv("AGSTORE_SHARED")
	if shared == "" {
		t.Skip("AGSTORE_SHARED does not name a directory with more cases")
	}
	testOracle(t, filepath.Join(shared, "oracle", "cases"), 380)
}

func testOracle(t *testing.T, dir string, atLeast int) {
	cases := oracleCases(t, dir)
	if len(cases) < atLeast {
		t.Fatalf("%s has %d cases, at least %d are expected", dir, len(cases), atLeast)
	}
	for _, c := range cases {
		if slices.Contains(refused, c.name) && !c.core {
			t.Run(c.name, func(t *testing.T) { c.testRefused(t) })
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.test(t) })
	}
}

// testRefused folds a case whose answer is not the official client's, on
// purpose: if it has become so, the list of refused cases is out of date.
func (c oracleCase) testRefused(t *testing.T) {
	want, err := jsonvalue.Parse(c.read(t, ".expect.json"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	f := New(Options{Profile: Reference})
	for i, raw := range c.events(t) {
		f.Apply(Record{Seq: uint64(i + 1), Raw: raw})
	}
	got, err := jsonvalue.Parse(f.View().AppendReferenceJSON(nil), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range compared {
		if !jsonvalue.Equal(got.Resolve(at), want.Resolve(at)) {
			return
		}
	}
	if slices.Equal(warningsOf(got), warningsOf(want)) {
		t.Error("the answer is the official client's")
	}
}

// compared are the places of an answer that must be the official client's.
var compared = []string{"/messages", "/state", "/pendingInterrupts", "/appliedEvents", "/error/at", "/error/stage"}

// test folds the case and compares the result and, where there are any, the
// digests after each event.
func (c oracleCase) test(t *testing.T) {
	want, err := jsonvalue.Parse(c.read(t, ".expect.json"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	f := New(Options{Profile: Reference})
	events := c.events(t)
	var prefixes *bufio.Scanner
	if file, err := os.Open(filepath.Join(c.dir, c.name+".prefix.txt")); err == nil {
		defer file.Close()
		prefixes = bufio.NewScanner(file)
	}
	for i, raw := range events {
		f.Apply(Record{Seq: uint64(i + 1), Raw: raw})
		if prefixes != nil && prefixes.Scan() {
			if got := string(f.View().AppendDigests(nil, i+1)); got != prefixes.Text() {
				t.Fatalf("after event %d, %s:\n%s\nwant\n%s", i+1, raw, got, prefixes.Text())
			}
		}
	}
	got, err := jsonvalue.Parse(f.View().AppendReferenceJSON(nil), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range compared {
		if x, y := got.Resolve(at), want.Resolve(at); string(x.AppendCanonical(nil)) != string(y.AppendCanonical(nil)) {
			t.Errorf("%s is\n%s\nwant\n%s", at, x, y)
		}
	}
	if x, y := warningsOf(got), warningsOf(want); !slices.Equal(x, y) {
		t.Errorf("warnings\n%v\nwant\n%v", x, y)
	}
}

// warningsOf lists the warnings as "event code", sorted: the client's order
// within one event is its own.
func warningsOf(result agui.Value) []string {
	var out []string
	for _, w := range result.Get("warnings").Items() {
		// A fatal event may still have warned (P-2); that is an accident.
		if jsonvalue.Equal(w.Get("at"), result.Resolve("/error/at")) {
			continue
		}
		out = append(out, fmt.Sprintf("%6v %v %v", w.Get("at"), w.Get("stage"), w.Get("code")))
	}
	slices.Sort(out)
	return out
}

func apply(f *Fold, raw string) { f.Apply(Record{Raw: []byte(raw)}) }

// A view stays what it was while folding goes on, and a fatal event changes
// nothing but the error (P-2).
func TestReferenceViewsStay(t *testing.T) {
	for _, c := range oracleCases(t, "testdata/oracle") {
		events := c.events(t)
		if len(events) > 500 {
			continue
		}
		f := New(Options{Profile: Reference})
		var views []*View
		var were [][]byte
		for i, raw := range events {
			f.Apply(Record{Seq: uint64(i + 1), Raw: raw})
			v := f.View()
			views, were = append(views, v), append(were, v.AppendReferenceJSON(nil))
			if i > 0 && v.Reference.Error != nil {
				before := views[i-1]
				messages, state, pending := v.held()
				m, s, p := before.held()
				if !jsonvalue.Equal(messages, m) || !jsonvalue.Equal(state, s) || !jsonvalue.Equal(pending, p) {
					t.Errorf("%s: event %d is fatal and changed something", c.name, i+1)
				}
			}
		}
		for i, v := range views {
			if got := v.AppendReferenceJSON(nil); !bytes.Equal(got, were[i]) {
				t.Errorf("%s: the view after event %d became\n%s\nfrom\n%s", c.name, i+1, got, were[i])
				break
			}
		}
	}
}

// Of two places that a snapshot made one message (R-MSNAP-4), text shows in
// both, but an activity that changes is another message from then on.
func TestReferenceSharedActivities(t *testing.T) {
	f := New(Options{Profile: Reference})
	for _, raw := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"activity","activityType":"P","content":{}},{"id":"a","role":"activity","activityType":"P","content":{}}]}`,
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"activity","activityType":"P","content":{"v":0}}]}`,
		`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"P","patch":[{"op":"remove","path":"/zz"}],"metadata":{"both":1}}`,
		`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"Q","patch":[{"op":"replace","path":"/v","value":1}],"metadata":{"too":1}}`,
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"Q","content":{"v":2},"metadata":{"first":1}}`,
	} {
		apply(f, raw)
	}
	v := f.View()
	if v.Reference.Error != nil || len(v.Messages) != 2 {
		t.Fatalf("%d messages, error %v", len(v.Messages), v.Reference.Error)
	}
	for i, want := range []string{
		`{"id":"a","role":"activity","activityType":"Q","content":{"v":2},"metadata":{"both":1,"too":1,"first":1}}`,
		`{"id":"a","role":"activity","activityType":"P","content":{"v":0},"metadata":{"both":1,"too":1}}`,
	} {
		if got := string(v.Messages[i].AppendJSON(nil)); got != want {
			t.Errorf("message %d is %s, want %s", i, got, want)
		}
	}
}

// A patch of an activity whose content is null begins with an empty object; if
// it fails, the content is still null.
func TestReferenceNullActivity(t *testing.T) {
	f := New(Options{Profile: Reference})
	for _, raw := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"P","content":{}}`,
		`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"P","patch":[{"op":"remove","path":""}]}`,
		`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"P","patch":[{"op":"remove","path":"/zz"}]}`,
	} {
		apply(f, raw)
	}
	if got := f.View().Messages[0].Content.Object; !got.IsNull() {
		t.Errorf("content %s", got)
	}
}

// Views may be read anywhere while folding goes on (a test for -race).
func TestReferenceViewsAreReadElsewhere(t *testing.T) {
	f := New(Options{Profile: Reference})
	views, read := make(chan *View), make(chan int)
	go func() {
		n := 0
		for v := range views {
			n += len(v.AppendReferenceJSON(nil))
		}
		read <- n
	}()
	c := oracleCase{name: "gen-small-a", dir: "testdata/oracle"}
	want := 0
	for i, raw := range c.events(t) {
		f.Apply(Record{Seq: uint64(i + 1), Raw: raw})
		v := f.View()
		want += len(v.AppendReferenceJSON(nil))
		views <- v
	}
	close(views)
	if got := <-read; got != want {
		t.Errorf("the views had %d bytes elsewhere, %d here", got, want)
	}
}

func TestReferenceErrorsAreTyped(t *testing.T) {
	const start = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
	for _, c := range []struct {
		raw   string
		stage Stage
		err   error
	}{
		{`[]`, StageTransport, agui.ErrInvalidEvent},
		{`{"type":"STATE_SNAPSHOT"}`, StageEnforce, agui.ErrMalformed},
		{`{"type":"TEXT_MESSAGE_CHUNK","delta":"d"}`, StageChunks, agui.ErrChunk},
		{`{"type":"TEXT_MESSAGE_END","messageId":"m"}`, StageVerify, agui.ErrViolation},
	} {
		f := New(Options{Profile: Reference})
		apply(f, start)
		apply(f, c.raw)
		apply(f, `{"type":"STATE_SNAPSHOT","snapshot":1}`)
		r := f.View().Reference
		if r.Error == nil || r.Error.At != 2 || r.Error.Stage != c.stage || !errors.Is(r.Error, c.err) || r.AppliedEvents != 1 {
			t.Errorf("%s: %+v", c.raw, r)
		}
		if got := string(f.View().State); got != `{}` {
			t.Errorf("%s: an event after the fatal one made the state %s", c.raw, got)
		}
	}
}

func TestReferenceLeavesOutEchoes(t *testing.T) {
	f := New(Options{Profile: Reference})
	start := []byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)
	key := agui.RunKey{ID: "r", Attempt: 1}
	f.Apply(Record{Seq: 1, Run: key, Raw: start})
	f.Apply(Record{Seq: 2, Run: key, Raw: start, Echo: true})
	f.Apply(Record{Seq: 3, Run: key, Raw: []byte(`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}`)})
	v := f.View()
	if v.Reference.Error != nil || v.Reference.AppliedEvents != 2 || v.Seq != 3 || v.Run != key || v.Status != agui.RunCancelled || len(v.Runs) != 1 {
		t.Errorf("view %+v, %+v", v, v.Reference)
	}
}

func TestReferenceLimits(t *testing.T) {
	f := New(Options{Profile: Reference, Limits: Limits{EventBytes: 200, PatchOps: 1}})
	apply(f, `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)
	apply(f, `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1},{"op":"add","path":"/b","value":1}]}`)
	apply(f, `{"type":"STATE_SNAPSHOT","snapshot":"`+strings.Repeat("x", 200)+`"}`)
	v := f.View()
	if got := string(v.State); got != `{}` || v.Reference.Error == nil || v.Reference.Error.At != 3 || len(v.Reference.Warnings) != 1 {
		t.Errorf("state %s, %+v", got, v.Reference)
	}
}

// What an event costs does not grow with the transcript: long texts, many
// calls with their results, results that come twice, one row of many results,
// many subagents that stream chunks at once.
func TestReferenceCostPerEvent(t *testing.T) {
	loads := map[string]func(i int) string{
		"text": func(int) string { return `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"some more words"}` },
		"messages": func(i int) string {
			return fmt.Sprintf(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"n%d","delta":"d"}`, i)
		},
		"results in one row": func(i int) string {
			return fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":"t%d","toolCallId":"c","content":"r"}`, i)
		},
		"results twice": func(i int) string {
			return fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":"t%d","toolCallId":"c","content":"r"}`, i/2)
		},
		"lanes": func(i int) string {
			return fmt.Sprintf(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"l%d","subagentRunId":"s%d","delta":"d"}`, i, i)
		},
		"metadata": func(i int) string {
			return fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"","metadata":{"k%d":1}}`, i)
		},
		"state": func(i int) string {
			return fmt.Sprintf(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/k%d","value":[1]},{"op":"replace","path":"/k0","value":%d}]}`, i, i)
		},
	}
	for name, event := range loads {
		t.Run(name, func(t *testing.T) {
			// Growing maps and buffers cost a constant factor; looking at each
			// message once per event would cost tens of microseconds. Another
			// process may disturb a measurement, but not five of them.
			var small, large int64
			for range 5 {
				small, large = costPerEvent(t, 2000, event), costPerEvent(t, 40_000, event)
				if large <= 4*small+1000 {
					return
				}
			}
			t.Errorf("an event costs %d ns in a short stream, %d ns in one twenty times as long", small, large)
		})
	}
}

// costPerEvent folds n events and returns the nanoseconds each took.
func costPerEvent(t *testing.T, n int, event func(i int) string) int64 {
	f := New(Options{Profile: Reference})
	apply(f, `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)
	apply(f, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`)
	apply(f, `{"type":"TEXT_MESSAGE_START","messageId":"m"}`)
	took := cputime.Of(func() {
		for i := range n {
			apply(f, event(i))
		}
	}).Nanoseconds() / int64(n)
	if r := f.View().Reference; r.Error != nil {
		t.Fatal(r.Error)
	}
	return took
}

// FuzzReference: no stream panics, and each answer is one JSON text whose
// messages can be read.
func FuzzReference(f *testing.F) {
	for _, name := range []string{"all-31-event-types", "chunk-lanes", "story-legacy-server", "messages-snapshot-duplicates-collapse-later", "tool-parent-not-assistant-clash"} {
		raw, err := os.ReadFile(filepath.Join("testdata/oracle", name+".jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		fold := New(Options{Profile: Reference, Limits: Limits{EventBytes: 1 << 16, PatchCopied: 1 << 16, StateBytes: 1 << 18, Nesting: 200}})
		for line := range bytes.Lines(stream) {
			fold.Apply(Record{Raw: line})
		}
		v := fold.View()
		if _, err := jsonvalue.Parse(v.AppendReferenceJSON(nil), 1000); err != nil {
			t.Fatal(err)
		}
		for i := range v.Messages {
			m := &v.Messages[i]
			if m.Role == agui.RoleActivity {
				// Its content may have become anything (B-10).
				continue
			}
			if _, err := agui.DecodeMessage(m.AppendJSON(nil)); err != nil {
				t.Fatalf("message %s: %v", m.AppendJSON(nil), err)
			}
		}
	})
}

func BenchmarkReferenceTokens(b *testing.B) {
	f := New(Options{Profile: Reference})
	apply(f, `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)
	apply(f, `{"type":"TEXT_MESSAGE_START","messageId":"m"}`)
	token := []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"token "}`)
	b.ReportAllocs()
	for b.Loop() {
		f.Apply(Record{Raw: token})
	}
}
