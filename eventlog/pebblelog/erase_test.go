package pebblelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// marker is a text that stands nowhere but in the content to remove. Its parts
// do not repeat, so that a compressed table would hold pieces of it as they are.
const marker = "Xq7#kZ0-vWm3%RtLp"

// holding lists the files that hold the marker, or enough of it.
func holding(t *testing.T, fs vfs.FS, dir string) []string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			continue // deleted since
		}
		if info.IsDir() {
			out = append(out, holding(t, fs, path)...)
			continue
		}
		f, err := fs.Open(path)
		if err != nil {
			continue
		}
		text := make([]byte, info.Size())
		if _, err := f.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		f.Close()
		for from := 0; from+8 <= len(marker); from++ {
			if bytes.Contains(text, []byte(marker[from:from+8])) {
				out = append(out, path)
				break
			}
		}
	}
	return out
}

// small is a store with many small files, whose tables are not compressed.
func small(fs vfs.FS) pebblelog.Options {
	return pebblelog.Options{FS: fs}.WithEngine(func(o *pebble.Options) {
		o.MemTableSize = 256 << 10
		for i := range o.TargetFileSizes {
			o.TargetFileSizes[i] = 64 << 10
		}
		o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	})
}

func tkey(id string) eventlog.ThreadKey { return eventlog.ThreadKey{Scope: "s", Thread: id} }

// say are the events of a run that says something in every way there is.
func say(run, text string) [][]byte {
	return [][]byte{
		fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":"%s","input":{"messages":[{"id":"u-%s","role":"user","content":"ask"},{"id":"m","role":"user","content":"old %s"}]}}`, run, run, text),
		fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`),
		fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%s one","rawEvent":{"x":"%s"}}`, text, text),
		fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"two %s"}`, text),
		fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`),
		fmt.Appendf(nil, `{"type":"TOOL_CALL_START","toolCallId":"c-%s","toolCallName":"look","parentMessageId":"m"}`, run),
		fmt.Appendf(nil, `{"type":"TOOL_CALL_ARGS","toolCallId":"c-%s","delta":"{\"q\":\"%s\"}"}`, run, text),
		fmt.Appendf(nil, `{"type":"TOOL_CALL_END","toolCallId":"c-%s"}`, run),
		fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"n-%s","role":"assistant","delta":"other"}`, run),
		fmt.Appendf(nil, `{"type":"MESSAGES_SNAPSHOT","messages":[ {"id":"k","role":"user","content":"k\u0041"} ,{"id":"m","role":"assistant","content":"all %s","toolCalls":[{"id":"c-%s","type":"function","function":{"name":"look","arguments":"{\"q\":\"%s\"}"}}]}]}`, text, run, text),
		fmt.Appendf(nil, `{"type":"RUN_FINISHED","runId":"%s"}`, run),
	}
}

func mustAppend(t *testing.T, l *pebblelog.Log, k eventlog.ThreadKey, b eventlog.Batch) eventlog.Appended {
	t.Helper()
	done, err := l.Append(context.Background(), k, b)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return done
}

func mustOpen(t *testing.T, opts pebblelog.Options) *pebblelog.Log {
	t.Helper()
	l, err := pebblelog.Open("d", opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

func records(t *testing.T, l *pebblelog.Log, k eventlog.ThreadKey) []eventlog.Record {
	t.Helper()
	var out []eventlog.Record
	for r, err := range l.Read(context.Background(), k, eventlog.ReadOptions{}) {
		if err != nil {
			t.Fatalf("read %s: %v", k.Thread, err)
		}
		out = append(out, r)
	}
	return out
}

// fill writes the thread with the marker and others around it, over several
// write-ahead logs, some of which the engine keeps to use again.
func fill(t *testing.T, l *pebblelog.Log, rounds int) {
	t.Helper()
	filler := bytes.Repeat([]byte("lorem ipsum dolor "), 3000)
	for i := range rounds {
		mustAppend(t, l, tkey("marked"), eventlog.Batch{Events: say(fmt.Sprint("r", i), marker), Key: fmt.Sprint("key-", i)})
		for _, other := range []string{"aaa", "zzz"} {
			mustAppend(t, l, tkey(other), eventlog.Batch{Events: say(fmt.Sprint("r", i), "nothing"), Key: fmt.Sprint("key-", i)})
		}
		mustAppend(t, l, tkey("big"), eventlog.Batch{Events: [][]byte{fmt.Appendf(nil, `{"type":"CUSTOM","name":"big","value":"%s%d"}`, filler, i)}})
		derive(t, l, "marked", "view", marker)
		derive(t, l, "marked", "p:words", marker)
		derive(t, l, "aaa", "view", "nothing")
	}
}

// derive writes a row of a thread that says something, and rewrites another.
func derive(t *testing.T, l *pebblelog.Log, thread, owner, text string) {
	t.Helper()
	ctx := context.Background()
	s := eventlog.Space{Scope: "s", Thread: thread, Owner: owner}
	from, err := l.DerivedAt(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	info, err := l.Thread(ctx, tkey(thread))
	if err != nil {
		t.Fatal(err)
	}
	to := eventlog.At{Position: l.Watermark(), Removals: info.Removals}
	err = l.DerivedWrite(ctx, s, eventlog.DerivedBatch{From: from, To: to, Changes: []eventlog.DerivedChange{
		// What stands in keys is another matter: TestRemovedOfEveryKind.
		{Key: fmt.Append(nil, "at ", to.Position), Value: fmt.Append(nil, text, to.Position)}, {Key: []byte("last"), Value: []byte(text)},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// Must hold 7 of the log: what was removed is in no file of the directory, also
// not in the write-ahead logs that the engine keeps; other threads are byte for
// byte what they were; the receipt says how much it was.
func TestRemovedFromEveryFile(t *testing.T) {
	for _, test := range []struct {
		name   string
		remove func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error)
	}{
		{"Erase", func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error) {
			return l.Erase(ctx, tkey("marked"), eventlog.RemoveOptions{Reason: "asked to", Actor: "op"})
		}},
		{"Clear", func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error) {
			return l.Clear(ctx, tkey("marked"), eventlog.RemoveOptions{Reason: "asked to", Actor: "op"})
		}},
		{"Redact", func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error) {
			return l.Redact(ctx, tkey("marked"), eventlog.Redaction{Message: "m"}, eventlog.RemoveOptions{Reason: "asked to", Actor: "op"})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := context.Background()
			fs := vfs.NewCrashableMem()
			opts := small(fs)
			l := mustOpen(t, opts)
			fill(t, l, 40)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = mustOpen(t, opts)
			fillMore(t, l)
			others := map[string][]eventlog.Record{}
			for _, id := range []string{"aaa", "zzz", "big"} {
				others[id] = records(t, l, tkey(id))
			}
			before := records(t, l, tkey("marked"))
			if len(holding(t, fs, "d")) == 0 {
				t.Fatal("the marker is nowhere: the test tests nothing")
			}
			r, err := test.remove(ctx, l)
			if err != nil {
				t.Fatal(err)
			}
			if found := holding(t, fs, "d"); len(found) > 0 {
				t.Errorf("the marker is in %q", found)
			}
			if !r.Removed || r.Gone.IsZero() || r.Reason != "asked to" || r.Actor != "op" || r.Thread != tkey("marked") {
				t.Errorf("receipt %+v", r)
			}
			checkCounts(t, r, before)
			for id, want := range others {
				if got := records(t, l, tkey(id)); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("thread %s has changed", id)
				}
			}
			for _, fault := range logtest.Check(ctx, l) {
				t.Error(fault)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if found := holding(t, fs, "d"); len(found) > 0 {
				t.Errorf("after close the marker is in %q", found)
			}
			l = mustOpen(t, opts)
			defer l.Close()
			for stored, err := range l.Receipts(ctx, "s", "marked") {
				if err != nil || fmt.Sprint(stored) != fmt.Sprint(r) {
					t.Errorf("stored %+v, %v; was %+v", stored, err, r)
				}
			}
			for _, fault := range logtest.Check(ctx, l) {
				t.Error(fault)
			}
		})
	}
}

func fillMore(t *testing.T, l *pebblelog.Log) {
	t.Helper()
	for i := range 8 {
		mustAppend(t, l, tkey("marked"), eventlog.Batch{Events: say(fmt.Sprint("more", i), marker)})
	}
}

func checkCounts(t *testing.T, r eventlog.Receipt, before []eventlog.Record) {
	t.Helper()
	want := uint64(len(before))
	if r.Removal == eventlog.RemovalRedact {
		want = 0
		for _, rec := range before {
			if bytes.Contains(rec.Event, []byte(marker)) {
				want++
			}
		}
	}
	got := r.Place(eventlog.PlaceRecords)
	if got.Count != want || got.Bytes < want*20 {
		t.Errorf("%d records (%d bytes) in the receipt, there were %d", got.Count, got.Bytes, want)
	}
	if r.Removal == eventlog.RemovalRedact {
		return
	}
	if r.First != 1 || r.Last != want || r.FirstPosition != before[0].Position || r.LastPosition != before[want-1].Position {
		t.Errorf("receipt %+v", r)
	}
	if runs, keys := r.Place(eventlog.PlaceRuns).Count, r.Place(eventlog.PlaceKeys).Count; runs != 48 || keys != 40 {
		t.Errorf("%d runs and %d keys in the receipt, there were 48 and 40", runs, keys)
	}
}
