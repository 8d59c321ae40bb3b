package fold_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
)

// kept is a fold and its entries as somebody has stored them who was told of the
// changes alone.
type kept struct {
	fold    *fold.Fold
	entries *fold.Entries
}

// store takes what has changed. The entries must be those that a fold gives that
// is asked for the first time: no change has been missed.
func (k *kept) store(t tester) {
	t.Helper()
	changes := k.fold.Changes()
	for l, list := range changes {
		for _, s := range list {
			if s.New == nil && (s.From >= s.To || s.To > len(k.entries[l])) {
				t.Fatalf("%s: entries %d to %d of %d", fold.List(l), s.From, s.To, len(k.entries[l]))
			}
		}
	}
	k.entries = k.entries.Apply(changes)
}

// restored gives a fold of the entries, which must be what the first one is, and
// of which all entries are what they are.
func (k *kept) restored(t tester, profile fold.Profile) *fold.Fold {
	t.Helper()
	f, err := fold.RestoreEntries(k.entries, fold.Options{Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	consistent(t, f, profile)
	equal(t, "a fold of entries", f, k.fold)
	return f
}

// keep folds records and stores what changes after each for which at says so.
// Sometimes it goes on with the fold of the entries.
func keep(t tester, records []fold.Record, profile fold.Profile, at func(k int) bool, again func(k int) bool) {
	t.Helper()
	k := &kept{fold.New(fold.Options{Profile: profile}), new(fold.Entries)}
	whole := fold.New(fold.Options{Profile: profile})
	for i := 0; ; i++ {
		if at(i) {
			k.store(t)
			f := k.restored(t, profile)
			unchanged(t, f, k.entries)
			if profile == fold.Durable {
				part(t, k.entries, k.fold.View(), len(k.entries[fold.ListMessages])/2)
			}
			if again(i) {
				k.fold, _ = fold.RestoreEntries(k.entries, fold.Options{Profile: profile})
			}
		}
		if i == len(records) {
			break
		}
		whole.Apply(records[i])
		k.fold.Apply(records[i])
	}
	equal(t, "a fold that was stored now and then", k.fold, whole)
}

// part compares the view made of some entries, from message from on, with the
// whole one.
func part(t tester, e *fold.Entries, whole *fold.View, from int) {
	t.Helper()
	rest, err := fold.RestOf(e[fold.ListRest][0])
	if err != nil {
		t.Fatal(err)
	}
	some := &fold.Entries{fold.ListRest: e[fold.ListRest], fold.ListState: e[fold.ListState], fold.ListMessages: e[fold.ListMessages][from:]}
	if n := len(e[fold.ListRuns]); n > 0 {
		some[fold.ListRuns] = e[fold.ListRuns][n-1:]
	}
	for _, i := range rest.Interrupts {
		some[fold.ListInterrupts] = append(some[fold.ListInterrupts], e[fold.ListInterrupts][i])
	}
	got, err := fold.ViewOf(some, fold.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &fold.View{
		Seq: whole.Seq, Run: whole.Run, Status: whole.Status, Messages: whole.Messages[from:], State: whole.State,
		PendingInterrupts: whole.PendingInterrupts, PendingToolCalls: whole.PendingToolCalls,
	}
	if a, b := string(got.AppendJSON(nil)), string(want.AppendJSON(nil)); a != b || rest.Messages != len(whole.Messages) {
		t.Fatalf("a part of the view (of %d messages) is\n%s\nwant\n%s", rest.Messages, a, b)
	}
}

// unchanged wants a fold that has just been made of entries to tell of none but
// the rest.
func unchanged(t tester, f *fold.Fold, e *fold.Entries) {
	t.Helper()
	for l, list := range f.Changes() {
		if fold.List(l) == fold.ListRest {
			continue
		}
		if len(e[l]) == 0 && len(list) == 0 {
			continue
		}
		if len(list) != 1 || list[0].New != nil || list[0].From != 0 || list[0].To != len(e[l]) {
			t.Fatalf("nothing has happened, but %s have changed: %v, there were %d", fold.List(l), list, len(e[l]))
		}
	}
}

func TestEntriesOfCases(t *testing.T) {
	for _, file := range caseFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			lines := readLines(t, file)
			step := 1
			switch {
			case len(lines) > 200:
				step = len(lines)/12 + 1
			case testing.Short():
				step = 3
			}
			for _, profile := range bothProfiles {
				records := recordsOf(lines, profile)
				keep(t, records, profile, func(k int) bool { return k%step == 0 }, func(k int) bool { return k%(2*step) == 0 })
			}
		})
	}
}

func TestEntriesOfSoup(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		step := rapid.IntRange(1, 5).Draw(rt, "step")
		again := rapid.IntRange(1, 4).Draw(rt, "again")
		keep(rt, recordsOf(soup(rt), fold.Durable), fold.Durable,
			func(k int) bool { return k%step == 0 }, func(k int) bool { return k%(step*again) == 0 })
	})
}

// What has not changed is not told again.
func TestEntriesTellOnlyWhatChanged(t *testing.T) {
	key := agui.RunKey{ID: "r", Attempt: 1}
	f := fold.New(fold.Options{})
	seq := uint64(0)
	apply := func(events ...string) {
		for _, e := range events {
			seq++
			f.Apply(fold.Record{Seq: seq, Run: key, Raw: []byte(e)})
		}
	}
	apply(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, `{"type":"STATE_SNAPSHOT","snapshot":{"text":"`+strings.Repeat("s", 500)+`"}}`)
	for i := range 100 {
		apply(fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`, i), fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"%s"}`, i, strings.Repeat("x", 100)),
			fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":"m%d"}`, i))
	}
	f.Changes()
	for _, c := range []struct {
		name, event string
		list        fold.List
		want        string
	}{
		{"nothing", `{"type":"NEWS"}`, fold.ListMessages, "[0:100]"},
		{"a delta to an old message", `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m98","delta":"y"}`, fold.ListMessages, "[0:98 1 99:100]"},
		{"a new message", `{"type":"TEXT_MESSAGE_START","messageId":"n"}`, fold.ListMessages, "[0:100 1]"},
		{"a call of an old message", `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m50"}`, fold.ListMessages, "[0:50 1 51:101]"},
		{"its result", `{"type":"TOOL_CALL_RESULT","messageId":"res","toolCallId":"c","content":"ok"}`, fold.ListMessages, "[0:50 2 51:101]"},
		{"the end of a call", `{"type":"TOOL_CALL_END","toolCallId":"c"}`, fold.ListMessages, "[0:102]"},
		{"a snapshot of two that are known", `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m1","role":"assistant","content":"` + strings.Repeat("x", 100) + `"},{"id":"m0","role":"assistant","content":"` + strings.Repeat("x", 100) + `"}]}`, fold.ListMessages, "[1:2 101:102 0:1]"},
		{"a patch", `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1}]}`, fold.ListState, "[0:1 1]"},
		{"another", `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":2}]}`, fold.ListState, "[0:2 1]"},
		{"a state that is the same", `{"type":"STATE_SNAPSHOT","snapshot":{"text":"` + strings.Repeat("s", 500) + `"}}`, fold.ListState, "[0:1]"},
		{"a large patch", `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/b","value":"` + strings.Repeat("z", 600) + `"}]}`, fold.ListState, "[1]"},
	} {
		apply(c.event)
		if got := sketch(f.Changes()[c.list]); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// sketch is what segments look like: old ranges, and numbers of new entries.
func sketch(list []fold.Segment) string {
	var out []string
	for _, s := range list {
		if s.New != nil {
			out = append(out, fmt.Sprint(len(s.New)))
		} else {
			out = append(out, fmt.Sprintf("%d:%d", s.From, s.To))
		}
	}
	return "[" + strings.Join(out, " ") + "]"
}

// Whatever is given for entries, the answer is a fold or an error.
func FuzzRestoreEntries(f *testing.F) {
	seed := fold.New(fold.Options{})
	for i, e := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"x"}`, `{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"q"}]}}`,
	} {
		seed.Apply(fold.Record{Seq: uint64(i) + 1, Run: agui.RunKey{ID: "r", Attempt: 1}, Raw: []byte(e)})
	}
	all := new(fold.Entries).Apply(seed.Changes())
	for l, list := range all {
		for i, entry := range list {
			f.Add(l, i, entry)
		}
	}
	f.Fuzz(func(t *testing.T, list, at int, entry []byte) {
		e := *all
		if list < 0 || list >= len(e) {
			return
		}
		e[list] = append([][]byte(nil), e[list]...)
		if at >= 0 && at < len(e[list]) {
			e[list][at] = entry
		} else {
			e[list] = append(e[list], entry)
		}
		restored, err := fold.RestoreEntries(&e, fold.Options{})
		if err != nil {
			return
		}
		if bytes.Equal(restored.Snapshot(nil), nil) {
			t.Fatal("no snapshot")
		}
		restored.View()
		restored.Changes()
	})
}

// What is rare: calls of one id in another order than the transcript's, and a
// result that another one has taken the name of.
func TestEntriesOfRareOrders(t *testing.T) {
	for name, events := range map[string][]string{
		"a new call in an earlier message": {
			`{"type":"TEXT_MESSAGE_START","messageId":"m1"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m2"}`,
			`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m2"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"a","toolCallId":"c","content":"1"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`,
			`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"g","parentMessageId":"m1"}`,
			`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"x"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"a","toolCallId":"c","content":"2"}`,
		},
		"two results of one name": {
			`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"a","toolCallId":"c","content":"1"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`,
			`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"a","toolCallId":"c","content":"2"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"a","toolCallId":"c","content":"3"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines := [][]byte{[]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)}
			for _, e := range events {
				lines = append(lines, []byte(e))
			}
			always := func(int) bool { return true }
			keep(t, recordsOf(lines, fold.Durable), fold.Durable, always, func(int) bool { return false })
			keep(t, recordsOf(lines, fold.Durable), fold.Durable, always, always)
		})
	}
}
