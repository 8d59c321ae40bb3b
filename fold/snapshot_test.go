package fold_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
)

var bothProfiles = []fold.Profile{fold.Durable, fold.Reference}

// tester is a test, of rapid or not.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// recordsOf makes the records of a file: of all its runs, whatever their
// lineage.
func recordsOf(lines [][]byte, profile fold.Profile) []fold.Record {
	tracker := agui.NewTracker(nil, agui.RunKey{})
	records := make([]fold.Record, len(lines))
	for i, line := range lines {
		r := fold.Record{Seq: uint64(i) + 1, Raw: line}
		var h agui.Header
		if agui.ReadHeader(line, &h) == nil {
			a := tracker.Assign(&h, r.Seq, agui.Claim{})
			r.Run, r.UnknownParent = a.Run, a.UnknownParent
			r.Echo = a.Echo && profile == fold.Durable
		}
		records[i] = r
	}
	return records
}

// shown is all that can be seen of a fold.
func shown(f *fold.Fold) []byte {
	v := f.View()
	out := v.AppendJSON(nil)
	if v.Reference != nil {
		out = v.AppendReferenceJSON(append(out, '\n'))
	}
	return out
}

// consistent wants the indexes of a fold to be right.
func consistent(t tester, f *fold.Fold, profile fold.Profile) {
	t.Helper()
	check := fold.CheckDurable
	if profile == fold.Reference {
		check = fold.CheckReference
	}
	if err := check(f); err != nil {
		t.Fatal(err)
	}
}

func restore(t tester, snapshot []byte, profile fold.Profile) *fold.Fold {
	t.Helper()
	f, err := fold.Restore(snapshot, fold.Options{Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	consistent(t, f, profile)
	return f
}

// equal wants two folds to show the same and to remember the same.
func equal(t tester, what string, got, want *fold.Fold) {
	t.Helper()
	if a, b := shown(got), shown(want); !bytes.Equal(a, b) {
		t.Fatalf("%s shows\n%s\nwant\n%s", what, a, b)
	}
	if a, b := got.Snapshot(nil), want.Snapshot(nil); !bytes.Equal(a, b) {
		t.Fatalf("%s remembers\n%q\nwant\n%q", what, a, b)
	}
}

// checkpoints folds records once as a whole, and once more from a snapshot
// taken after each k for which at says so.
func checkpoints(t tester, records []fold.Record, profile fold.Profile, at func(k int) bool) {
	t.Helper()
	var snapshots [][]byte
	whole := fold.New(fold.Options{Profile: profile})
	for k := 0; ; k++ {
		var snapshot []byte
		if at(k) {
			snapshot = whole.Snapshot(nil)
			equal(t, "a fold restored", restore(t, snapshot, profile), whole)
		}
		snapshots = append(snapshots, snapshot)
		if k == len(records) {
			break
		}
		whole.Apply(records[k])
	}
	for k, snapshot := range snapshots {
		if snapshot == nil {
			continue
		}
		f := restore(t, snapshot, profile)
		for _, r := range records[k:] {
			f.Apply(r)
		}
		consistent(t, f, profile)
		equal(t, "a fold restored after some records and gone on", f, whole)
	}
}

func caseFiles(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"oracle", "durable"} {
		found, err := filepath.Glob(filepath.Join("testdata", dir, "*.jsonl"))
		if err != nil || len(found) < 30 {
			t.Fatalf("%d cases in %s, error %v", len(found), dir, err)
		}
		files = append(files, found...)
	}
	return files
}

// Fold on from any point and it is folding from the beginning (issue 3, must
// hold 2): every case, both profiles, every prefix; of long cases only some, unless
// AGSTORE_LONG is set.
func TestSnapshotCases(t *testing.T) {
	for _, file := range caseFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			lines := readLines(t, file)
			step := 1
			if len(lines) > 200 && os.Getenv("AGSTORE_LONG") == "" {
				step = len(lines)/12 + 1
			}
			for _, profile := range bothProfiles {
				t.Run(profile.String(), func(t *testing.T) {
					checkpoints(t, recordsOf(lines, profile), profile, func(k int) bool { return k%step == 0 })
				})
			}
		})
	}
}

// The same fold gives the same bytes each time, and so does one that another
// way led to (field-lessons L31).
func TestSnapshotIsDeterministic(t *testing.T) {
	for _, file := range caseFiles(t) {
		lines := readLines(t, file)
		if len(lines) > 500 {
			continue
		}
		for _, profile := range bothProfiles {
			f := fold.New(fold.Options{Profile: profile})
			for _, r := range recordsOf(lines, profile) {
				f.Apply(r)
			}
			want := f.Snapshot(nil)
			for i := range 50 {
				if i == 25 {
					f.View() // which remembers what it has shown
					f = restore(t, want, profile)
				}
				if !bytes.Equal(f.Snapshot(nil), want) {
					t.Fatalf("%s, %s: snapshot %d is another one", file, profile, i)
				}
			}
		}
	}
}

func TestSnapshotOfSoup(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		records := recordsOf(soup(rt), fold.Durable)
		checkpoints(rt, records, fold.Durable, func(int) bool { return true })
	})
}

// The official client stops at the first event out of order, so a soup for
// Reference leaves out, but for the last, what would end it.
func TestSnapshotOfLegalSoup(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var legal [][]byte
		f := fold.New(fold.Options{Profile: fold.Reference})
		for i := 0; len(legal) < 40 && i < 400; i++ {
			line := []byte(soupEvent(rt))
			try := restore(rt, f.Snapshot(nil), fold.Reference)
			try.Apply(fold.Record{Seq: uint64(len(legal)) + 1, Raw: line})
			if v := try.View(); v.Reference.Error == nil {
				legal, f = append(legal, line), try
			} else if i == 399 {
				legal = append(legal, line)
			}
		}
		checkpoints(rt, recordsOf(legal, fold.Reference), fold.Reference, func(int) bool { return true })
	})
}

// Snapshot appends, and Restore keeps no hold on what it was given.
func TestSnapshotAppends(t *testing.T) {
	f, apply := long(3)
	apply(`{"type":"TEXT_MESSAGE_START","messageId":"m"}`)
	apply(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ud83c"}`)
	apply(`{"type":"STATE_SNAPSHOT","snapshot":{"a":[1.0,9007199254740993]}}`)
	want := f.Snapshot(nil)
	got := f.Snapshot([]byte("before"))
	if string(got[:6]) != "before" || !bytes.Equal(got[6:], want) {
		t.Fatalf("%q is not what is appended to %q", want, got)
	}
	g := restore(t, got[6:], fold.Durable)
	clear(got)
	equal(t, "a fold whose snapshot is gone", g, f)
}

// A surrogate pair whose halves come before and after a snapshot is one
// character in both profiles; without the second half the first one stays.
func TestSnapshotBetweenSurrogates(t *testing.T) {
	for _, profile := range bothProfiles {
		f := fold.New(fold.Options{Profile: profile})
		key := agui.RunKey{ID: "r", Attempt: 1}
		for i, raw := range []string{
			`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"\ud83c"}`,
			`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f\ud83c","parentMessageId":"m"}`,
			`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"\ud83c"}`,
		} {
			f.Apply(fold.Record{Seq: uint64(i) + 1, Run: key, Raw: []byte(raw)})
		}
		g := restore(t, f.Snapshot(nil), profile)
		g.Apply(fold.Record{Seq: 5, Run: key, Raw: []byte(`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"\udf45"}`)})
		want := `{"id":"m","role":"assistant","content":"\ud83c","toolCalls":[{"id":"c","type":"function","function":{"name":"f\ud83c","arguments":"🍅"}}]}`
		if got := string(g.View().Messages[0].AppendJSON(nil)); got != want {
			t.Errorf("%s: %s, want %s", profile, got, want)
		}
	}
}

// The limits of a fold are those it was restored with.
func TestRestoreTakesLimits(t *testing.T) {
	for _, profile := range bothProfiles {
		f := fold.New(fold.Options{Profile: profile})
		key := agui.RunKey{ID: "r", Attempt: 1}
		f.Apply(fold.Record{Seq: 1, Run: key, Raw: []byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)})
		f.Apply(fold.Record{Seq: 2, Run: key, Raw: []byte(`{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}`)})
		g, err := fold.Restore(f.Snapshot(nil), fold.Options{Profile: profile, Limits: fold.Limits{PatchOps: 1}})
		if err != nil {
			t.Fatal(err)
		}
		g.Apply(fold.Record{Seq: 3, Run: key, Raw: []byte(`{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/a"},{"op":"add","path":"/b","value":2}]}`)})
		if got := string(g.View().State); got != `{"a":1}` {
			t.Errorf("%s: the state is %s", profile, got)
		}
	}
}

// fixture is a stream in two parts, in testdata: what a snapshot was taken of,
// and what follows.
func fixture(t testing.TB, profile fold.Profile) (before, after []fold.Record) {
	t.Helper()
	file := filepath.Join("testdata", "snapshot-v2", profile.String())
	lines := readLines(t, file+".before.jsonl")
	n := len(lines)
	records := recordsOf(append(lines, readLines(t, file+".after.jsonl")...), profile)
	return records[:n], records[n:]
}

// A fold that verifies nothing stays one, and none becomes one.
func TestSnapshotWithoutVerification(t *testing.T) {
	lax := fold.Options{Profile: fold.Reference, NoVerify: true}
	f := fold.New(lax)
	f.Apply(fold.Record{Seq: 1, Raw: []byte(`{"type":"TEXT_MESSAGE_START","messageId":"m"}`)})
	if _, err := fold.Restore(f.Snapshot(nil), fold.Options{Profile: fold.Reference}); !errors.Is(err, fold.ErrSnapshot) {
		t.Errorf("restored with verification: error %v", err)
	}
	if _, err := fold.Restore(sample(t, fold.Reference).Snapshot(nil), lax); !errors.Is(err, fold.ErrSnapshot) {
		t.Errorf("restored without verification: error %v", err)
	}
	g, err := fold.Restore(f.Snapshot(nil), lax)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*fold.Fold{f, g} {
		f.Apply(fold.Record{Seq: 2, Raw: []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}`)})
	}
	equal(t, "a fold that verifies nothing", g, f)
}

// sample is a fold that remembers something of every kind.
func sample(t testing.TB, profile fold.Profile) *fold.Fold {
	t.Helper()
	f := fold.New(fold.Options{Profile: profile})
	before, _ := fixture(t, profile)
	for _, r := range before {
		f.Apply(r)
	}
	return f
}

func TestSnapshotOfTheFixtures(t *testing.T) {
	for _, profile := range bothProfiles {
		before, after := fixture(t, profile)
		checkpoints(t, append(before, after...), profile, func(int) bool { return true })
	}
}

// What version 1 wrote is refused as such: who has the records folds them anew.
func TestSnapshotsOfVersion1(t *testing.T) {
	for _, profile := range bothProfiles {
		snapshot, err := os.ReadFile(filepath.Join("testdata", "snapshot-v1", profile.String()+".snapshot"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = fold.Restore(snapshot, fold.Options{Profile: profile})
		if refused, ok := errors.AsType[*fold.SnapshotError](err); !ok || refused.Version != 1 {
			t.Errorf("%s: error %v", profile, err)
		}
	}
}

var update = flag.Bool("update", false, "write the stored snapshots anew")

// A snapshot that version 2 once wrote can be restored, shows what it showed and
// goes on as it did. As long as 2 is the version, it is also what is written.
func TestStoredSnapshots(t *testing.T) {
	for _, profile := range bothProfiles {
		_, after := fixture(t, profile)
		stored := func(suffix string, now []byte) []byte {
			name := filepath.Join("testdata", "snapshot-v2", profile.String()+suffix)
			if *update {
				if err := os.WriteFile(name, now, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			out, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		f := sample(t, profile)
		snapshot := stored(".snapshot", f.Snapshot(nil))
		if !bytes.Equal(snapshot, f.Snapshot(nil)) {
			t.Errorf("%s: a snapshot is now\n%q\nit was\n%q", profile, f.Snapshot(nil), snapshot)
		}
		g := restore(t, snapshot, profile)
		for _, r := range after {
			f.Apply(r)
		}
		for _, r := range after {
			g.Apply(r)
		}
		if got, want := shown(g), stored(".after.json", shown(f)); !bytes.Equal(got, want) {
			t.Errorf("%s: it comes to\n%s\nwant\n%s", profile, got, want)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	for _, profile := range bothProfiles {
		whole := sample(t, profile).Snapshot(nil)
		refused := func(what string, snapshot []byte, profile fold.Profile) {
			t.Helper()
			f, err := fold.Restore(snapshot, fold.Options{Profile: profile})
			e, ok := errors.AsType[*fold.SnapshotError](err)
			if f != nil || !ok || !errors.Is(err, fold.ErrSnapshot) {
				t.Fatalf("%s: error %v", what, err)
			}
			if len(snapshot) > 0 && e.Version != int(snapshot[0]) || e.Offset < 0 || e.Offset > len(snapshot) || e.Reason == "" {
				t.Errorf("%s: %+v", what, e)
			}
		}
		refused("another profile", whole, 1-profile)
		for n := range whole {
			refused("cut off", whole[:n], profile)
			refused("cut off and sealed", fold.Reseal(whole[:n]), profile)
		}
		refused("longer", append(slices.Clone(whole), 0), profile)
		refused("longer and sealed", fold.Reseal(append(slices.Clone(whole), 0)), profile)
		for i := range whole {
			for _, flip := range []byte{1, 0x80} {
				damaged := slices.Clone(whole)
				damaged[i] ^= flip
				refused("a byte that is another one", damaged, profile)
			}
		}
	}
}

// usable wants whatever was restored to go on: anything may be folded and shown
// without a panic.
func usable(t testing.TB, f *fold.Fold) {
	t.Helper()
	parse(t, f.View().AppendJSON(nil))
	for i, raw := range soupSampler {
		for _, key := range []agui.RunKey{{ID: "r", Attempt: 1}, {ID: "q", Attempt: 1}, {ID: "r", Attempt: 2}} {
			f.Apply(fold.Record{Seq: 1000 + uint64(i), Run: key, Raw: []byte(raw)})
		}
	}
	parse(t, f.View().AppendJSON(nil))
	f.Snapshot(nil)
}

// A snapshot that says something else with the right checksum is refused, or
// makes a fold that goes on without a panic.
func TestRestoreOfLies(t *testing.T) {
	restored, refused := 0, 0
	for _, profile := range bothProfiles {
		whole := sample(t, profile).Snapshot(nil)
		for i := range whole {
			for _, value := range []byte{whole[i] ^ 1, 2, 0xc0} {
				lie := slices.Clone(whole)
				lie[i] = value
				g, err := fold.Restore(fold.Reseal(lie), fold.Options{Profile: profile})
				if err != nil {
					refused++
					continue
				}
				restored++
				usable(t, g)
			}
		}
	}
	if restored < 500 || refused < 500 {
		t.Errorf("%d lies were restored, %d refused", restored, refused)
	}
}

// soupSampler goes once over everything that may be open.
var soupSampler = []string{
	`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
	`{"type":"TOOL_CALL_CHUNK","delta":"d"}`,
	`{"type":"TEXT_MESSAGE_CHUNK","delta":"d"}`,
	`{"type":"REASONING_MESSAGE_CHUNK","delta":"d","subagentRunId":"s"}`,
	`{"type":"TEXT_MESSAGE_CONTENT","messageId":"x","delta":"d"}`,
	`{"type":"CUSTOM","name":"on_interrupt","value":1}`,
	`{"type":"TOOL_CALL_ARGS","toolCallId":"x","delta":"d"}`,
	`{"type":"TOOL_CALL_START","toolCallId":"x","toolCallName":"f","parentMessageId":"y"}`,
	`{"type":"TOOL_CALL_END","toolCallId":"x"}`,
	`{"type":"TOOL_CALL_RESULT","messageId":"y","toolCallId":"x","content":"d"}`,
	`{"type":"ACTIVITY_DELTA","messageId":"x","activityType":"A","patch":[{"op":"add","path":"/a","value":1}]}`,
	`{"type":"ACTIVITY_SNAPSHOT","messageId":"y","activityType":"A","content":{}}`,
	`{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"x","encryptedValue":"e"}`,
	`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1}]}`,
	`{"type":"STEP_FINISHED","stepName":"s"}`,
	`{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}`,
	`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"x","role":"assistant","content":"d"}]}`,
	`{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
	`{"type":"RUN_ERROR","message":"m"}`,
}

// FuzzRestore: no bytes panic, sealed or not, and what can be restored goes on.
func FuzzRestore(f *testing.F) {
	for _, profile := range bothProfiles {
		f.Add(sample(f, profile).Snapshot(nil))
		f.Add(fold.New(fold.Options{Profile: profile}).Snapshot(nil))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, profile := range bothProfiles {
			for _, snapshot := range [][]byte{raw, fold.Reseal(raw)} {
				g, err := fold.Restore(snapshot, fold.Options{Profile: profile})
				if (err == nil) == (g == nil) || err != nil && !errors.Is(err, fold.ErrSnapshot) {
					t.Fatalf("fold %v, error %v", g, err)
				}
				if err == nil {
					usable(t, g)
				}
			}
		}
	})
}

// thousand is a fold with 1,000 messages.
func thousand(b *testing.B, profile fold.Profile) *fold.Fold {
	b.Helper()
	f := fold.New(fold.Options{Profile: profile})
	seq := uint64(0)
	apply := func(key agui.RunKey, format string, args ...any) {
		seq++
		f.Apply(fold.Record{Seq: seq, Run: key, Raw: fmt.Appendf(nil, format, args...)})
	}
	text := strings.Repeat("some words of an answer ", 20)
	for n := range 250 {
		key := agui.RunKey{ID: fmt.Sprintf("run-%08d-0000-4000-8000-000000000000", n), Attempt: 1}
		apply(key, `{"type":"RUN_STARTED","threadId":"t","runId":%q,"input":{"threadId":"t","runId":%[1]q,"messages":[{"id":"u%[2]d","role":"user","content":"What now?"}],"tools":[],"context":[]}}`, key.ID, n)
		apply(key, `{"type":"TOOL_CALL_START","toolCallId":"call_%d","toolCallName":"search","parentMessageId":"a%[1]d"}`, n)
		apply(key, `{"type":"TOOL_CALL_ARGS","toolCallId":"call_%d","delta":"{\"query\":\"now\"}"}`, n)
		apply(key, `{"type":"TOOL_CALL_END","toolCallId":"call_%d"}`, n)
		apply(key, `{"type":"TOOL_CALL_RESULT","messageId":"t%d","toolCallId":"call_%[1]d","content":"%s"}`, n, text)
		apply(key, `{"type":"TEXT_MESSAGE_START","messageId":"b%d","metadata":{"model":"m"}}`, n)
		apply(key, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"b%d","delta":"%s"}`, n, text)
		apply(key, `{"type":"TEXT_MESSAGE_END","messageId":"b%d"}`, n)
		apply(key, `{"type":"STATE_SNAPSHOT","snapshot":{"turn":%d,"list":[1,2,3,{"a":"b"}]}}`, n)
		if n < 249 {
			apply(key, `{"type":"RUN_FINISHED","threadId":"t","runId":%q}`, key.ID)
		}
	}
	v := f.View()
	if len(v.Messages) != 1000 || v.Reference != nil && v.Reference.Error != nil {
		b.Fatalf("%d messages, %+v", len(v.Messages), v.Reference)
	}
	return f
}

// Speed row P-F6: at most 2 ms each.
func BenchmarkSnapshot(b *testing.B) {
	for _, profile := range bothProfiles {
		b.Run(profile.String(), func(b *testing.B) {
			f := thousand(b, profile)
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst = f.Snapshot(dst[:0])
			}
			b.ReportMetric(float64(len(dst)), "bytes")
		})
	}
}

func BenchmarkRestore(b *testing.B) {
	for _, profile := range bothProfiles {
		b.Run(profile.String(), func(b *testing.B) {
			snapshot := thousand(b, profile).Snapshot(nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := fold.Restore(snapshot, fold.Options{Profile: profile}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
