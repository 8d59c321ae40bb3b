package pebblelog_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// stays says which removals leave a kind of content where it is.
type stays struct{ clear, redact bool }

// kindsOfContent are the places of a thread in which content can be, and by which
// removal it goes. Redaction takes what the message says and nothing else.
var kindsOfContent = map[string]stays{
	"text":               {},
	"chunk":              {},
	"raw event":          {},
	"tool arguments":     {},
	"encrypted value":    {},
	"input message":      {},
	"snapshot message":   {},
	"snapshot arguments": {},

	"other text":      {redact: true},
	"tool name":       {redact: true},
	"tool result":     {redact: true},
	"reasoning":       {redact: true},
	"activity":        {redact: true},
	"activity patch":  {redact: true},
	"state snapshot":  {redact: true},
	"state delta":     {redact: true},
	"custom name":     {redact: true},
	"custom value":    {redact: true},
	"raw":             {redact: true},
	"unknown event":   {redact: true},
	"step":            {redact: true},
	"subagent":        {redact: true},
	"input state":     {redact: true},
	"input context":   {redact: true},
	"input tool":      {redact: true},
	"forwarded props": {redact: true},
	"result":          {redact: true},
	"interrupt":       {redact: true},
	"tool chunk":      {redact: true},
	"reasoning chunk": {redact: true},
	"subagent error":  {redact: true},
	"error":           {redact: true},
	"run id":          {redact: true},
	"parent run id":   {redact: true},
	"message id":      {redact: true},
	"lease owner":     {redact: true},
	"import":          {redact: true},
	"piped":           {redact: true},
	"companion kind":  {clear: true, redact: true}, // a cleared thread keeps its title
	"companion body":  {clear: true, redact: true},
	"derived key":     {},
	"derived row":     {},
}

// neverStored are kinds that are in no file at any time: of an idempotency key the
// store has a digest.
var neverStored = []string{"companion key", "idempotency key", "key under a lease"}

// secret is a text of a kind that is nowhere else, and has no part of another's.
func secret(kind string) string {
	sum := sha256.Sum256([]byte("secret " + kind))
	return hex.EncodeToString(sum[:12])
}

// telling is a run that has a secret of every kind of event.
func telling(round int) [][]byte {
	text := fmt.Sprintf(`{"type":"RUN_STARTED","runId":"<run id>%[1]d","parentRunId":"<parent run id>","input":{"state":{"s":"<input state>"},"context":[{"description":"d","value":"<input context>"}],"tools":[{"name":"<input tool>","description":"d","parameters":{}}],"forwardedProps":{"p":"<forwarded props>"},"messages":[{"id":"u","role":"user","content":"<other text>"},{"id":"m","role":"user","content":"<input message>"}]}}
{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"<text>","rawEvent":{"x":"<raw event>"}}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":"a"}
{"type":"TEXT_MESSAGE_CHUNK","delta":"<chunk>"}
{"type":"TOOL_CALL_START","toolCallId":"c%[1]d","toolCallName":"<tool name>","parentMessageId":"m"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c%[1]d","delta":"{\"q\":\"<tool arguments>\"}"}
{"type":"TOOL_CALL_END","toolCallId":"c%[1]d"}
{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool-call","entityId":"c%[1]d","encryptedValue":"<encrypted value>"}
{"type":"TOOL_CALL_RESULT","messageId":"<message id>%[1]d","toolCallId":"c%[1]d","content":"<tool result>"}
{"type":"REASONING_START","messageId":"r"}
{"type":"REASONING_MESSAGE_START","messageId":"r","role":"reasoning"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"r","delta":"<reasoning>"}
{"type":"REASONING_MESSAGE_END","messageId":"r"}
{"type":"REASONING_END","messageId":"r"}
{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"PLAN","content":{"x":"<activity>"}}
{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"PLAN","patch":[{"op":"replace","path":"/x","value":"<activity patch>"}]}
{"type":"STATE_SNAPSHOT","snapshot":{"x":"<state snapshot>"}}
{"type":"STATE_DELTA","delta":[{"op":"add","path":"/y","value":"<state delta>"}]}
{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"<other text>"},{"id":"m","role":"assistant","content":"<snapshot message>","toolCalls":[{"id":"c%[1]d","type":"function","function":{"name":"f","arguments":"{\"q\":\"<snapshot arguments>\"}"}}]}]}
{"type":"STEP_STARTED","stepName":"<step>"}
{"type":"STEP_FINISHED","stepName":"<step>"}
{"type":"SUBAGENT_STARTED","subagentRunId":"<subagent>"}
{"type":"SUBAGENT_FINISHED","subagentRunId":"<subagent>"}
{"type":"SUBAGENT_STARTED","subagentRunId":"sub"}
{"type":"SUBAGENT_ERROR","subagentRunId":"sub","message":"<subagent error>"}
{"type":"TOOL_CALL_CHUNK","toolCallId":"cc%[1]d","toolCallName":"f","delta":"<tool chunk>"}
{"type":"REASONING_MESSAGE_CHUNK","messageId":"rr","delta":"<reasoning chunk>"}
{"type":"CUSTOM","name":"<custom name>","value":{"x":["<custom value>"]}}
{"type":"RAW","event":{"x":"<raw>"},"source":"s"}
{"type":"OF_LATER","x":"<unknown event>"}
{"type":"RUN_FINISHED","runId":"<run id>%[1]d","result":{"x":"<result>"},"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"tool_call","message":"<interrupt>"}]}}
{"type":"RUN_STARTED","runId":"failed%[1]d"}
{"type":"RUN_ERROR","message":"<error>"}`, round)
	return secretly(text)
}

// secretly puts in the secrets of a text that has an event on each line.
func secretly(text string) (out [][]byte) {
	for kind := range kindsOfContent {
		text = strings.ReplaceAll(text, "<"+kind+">", secret(kind))
	}
	for line := range strings.Lines(text) {
		out = append(out, []byte(strings.TrimSpace(line)))
	}
	return out
}

// tellAll writes a thread that has a secret of every kind, among others that are
// as long, over several write-ahead logs, and leaves a run of it held.
func tellAll(t *testing.T, l *pebblelog.Log) eventlog.Writer {
	t.Helper()
	ctx, k := context.Background(), tkey("marked")
	filler := bytes.Repeat([]byte("lorem ipsum dolor "), 3000)
	for i := range 8 {
		mustAppend(t, l, k, eventlog.Batch{Events: telling(i), Key: fmt.Sprint(secret("idempotency key"), i)})
		for _, other := range []string{"aaa", "zzz"} {
			mustAppend(t, l, tkey(other), eventlog.Batch{Events: say(fmt.Sprint("r", i), "nothing"), Key: fmt.Sprint("key-", i)})
			if _, err := l.AppendCompanion(ctx, tkey(other), eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "title", Body: []byte("theirs")}}}); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, l, tkey("big"), eventlog.Batch{Events: [][]byte{fmt.Appendf(nil, `{"type":"CUSTOM","name":"big","value":"%s%d"}`, filler, i)}})
		if _, err := l.AppendCompanion(ctx, k, eventlog.CompanionBatch{
			Entries: []eventlog.Entry{{Kind: secret("companion kind"), Body: []byte(secret("companion body"))}},
			Key:     fmt.Sprint(secret("companion key"), i),
		}); err != nil {
			t.Fatal(err)
		}
		deriveSecret(t, l, i)
	}
	mustAppend(t, l, k, eventlog.Batch{Origin: eventlog.OriginImport, Events: secretly(`{"type":"RUN_STARTED","runId":"imported"}
{"type":"CUSTOM","name":"<import>"}
{"type":"RUN_FINISHED","runId":"imported"}`)})
	w, err := l.BeginRun(ctx, k, eventlog.RunStart{
		Started: []byte(`{"type":"RUN_STARTED","runId":"held"}`), Holder: eventlog.Holder{Owner: secret("lease owner"), TTL: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Enqueue(ctx, secretly(`{"type":"CUSTOM","name":"<piped>"}`)...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	lease := w.Lease()
	mustAppend(t, l, k, eventlog.Batch{Events: [][]byte{[]byte(`{"type":"CUSTOM","name":"x"}`)}, Key: secret("key under a lease"), Lease: &lease})
	return w
}

// inBounds reports whether a kind is part of a key: the first and the last key of
// a table stand in the engine's list of tables too, which is written anew by every
// open (docs/format.md, "What a removal does").
func inBounds(kind, file string) bool {
	return kind == "derived key" && strings.HasPrefix(file, "MANIFEST-")
}

// kindsIn says which kinds of content a directory's files hold, and which file; of
// several, one in which it is content.
func kindsIn(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			continue // deleted since
		}
		text, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			continue // a directory
		}
		for kind := range kindsOfContent {
			for s := secret(kind); len(s) >= 12; s = s[1:] {
				if bytes.Contains(text, []byte(s[:12])) {
					if out[kind] == "" || !inBounds(kind, name) {
						out[kind] = name
					}
					break
				}
			}
		}
	}
	return out
}

// L34, Must hold 7 of the log, for each kind of content alone: what a removal
// promises to remove is in no file, in whatever part of the thread it was, and
// what it does not is there.
func TestRemovedOfEveryKind(t *testing.T) {
	why := eventlog.RemoveOptions{Reason: "why", TakeOver: true}
	for name, test := range map[string]struct {
		remove func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error)
		left   func(s stays) bool
	}{
		"Erase": {func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error) {
			return l.Erase(ctx, tkey("marked"), why)
		}, func(stays) bool { return false }},
		"Clear": {func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error) {
			return l.Clear(ctx, tkey("marked"), why)
		}, func(s stays) bool { return s.clear }},
		"Redact": {func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error) {
			return l.Redact(ctx, tkey("marked"), eventlog.Redaction{Message: "m"}, why)
		}, func(s stays) bool { return s.redact }},
		"ClearAndErase": {func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error) {
			if r, err := l.Clear(ctx, tkey("marked"), why); err != nil {
				return r, err
			}
			return l.Erase(ctx, tkey("marked"), why)
		}, func(stays) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, fs := context.Background(), vfs.NewCrashableMem()
			l := mustOpen(t, small(fs))
			held := tellAll(t, l)
			others := map[string]string{}
			for _, id := range []string{"aaa", "zzz", "big"} {
				others[id] = fmt.Sprint(records(t, l, tkey(id)), companion(t, l, tkey(id)))
			}
			before := kindsIn(t, fs, "d")
			for _, kind := range neverStored {
				if where := before[kind]; where != "" {
					t.Errorf("%s is in %s", kind, where)
				}
			}
			for kind := range kindsOfContent {
				if before[kind] == "" {
					t.Errorf("%s is nowhere: the test tests nothing", kind)
				}
			}
			r, err := test.remove(ctx, l)
			if err != nil || !r.Removed || r.Gone.IsZero() {
				t.Fatalf("receipt %+v, %v", r, err)
			}
			look := func(when string, listed bool) {
				t.Helper()
				found := kindsIn(t, fs, "d")
				for kind, s := range kindsOfContent {
					switch where, want := found[kind], test.left(s); {
					case where != "" && !want && listed && inBounds(kind, where):
					case where != "" && !want:
						t.Errorf("%s: %s is in %s", when, kind, where)
					case where == "" && want:
						t.Errorf("%s: %s has gone too", when, kind)
					}
				}
			}
			look("at once", true)
			if _, err := held.Append(ctx, []byte(`{"type":"CUSTOM","name":"late"}`)); name == "Redact" != (err == nil) || err != nil && !errors.Is(err, eventlog.ErrFenced) && !errors.Is(err, eventlog.ErrErased) {
				t.Errorf("its writer: %v", err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			look("after close", true)
			l = mustOpen(t, small(fs))
			defer func() { l.Close() }()
			look("opened again", true)
			for id, want := range others {
				if fmt.Sprint(records(t, l, tkey(id)), companion(t, l, tkey(id))) != want {
					t.Errorf("thread %s has changed", id)
				}
			}
			for _, fault := range logtest.Check(ctx, l) {
				t.Error(fault)
			}
			if name == "Clear" {
				if got := companion(t, l, tkey("marked")); len(got) != 8 || string(got[0].Body) != secret("companion body") {
					t.Errorf("%d companion entries", len(got))
				}
				_, err := l.Append(ctx, tkey("marked"), eventlog.Batch{Events: telling(0), Key: fmt.Sprint(secret("idempotency key"), 0)})
				if !errors.Is(err, eventlog.ErrErased) {
					t.Errorf("a key of before: %v", err)
				}
			}
			if name == "Erase" || name == "ClearAndErase" {
				// The list of tables is written anew, and the one before goes.
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l = mustOpen(t, small(fs))
				if err := l.Close(); err != nil { // which waits until it has gone
					t.Fatal(err)
				}
				look("opened once more", false)
			}
		})
	}
}

// deriveSecret writes a row that is derived from the marked thread.
func deriveSecret(t *testing.T, l *pebblelog.Log, n int) {
	t.Helper()
	ctx, s := context.Background(), eventlog.Space{Scope: "s", Thread: "marked", Owner: "view"}
	from, err := l.DerivedAt(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.DerivedWrite(ctx, s, eventlog.DerivedBatch{From: from, To: eventlog.At{Position: l.Watermark()}, Changes: []eventlog.DerivedChange{
		{Key: fmt.Append(nil, secret("derived key"), n), Value: []byte(secret("derived row"))},
	}}); err != nil {
		t.Fatal(err)
	}
}

func companion(t *testing.T, l *pebblelog.Log, k eventlog.ThreadKey) (out []eventlog.Entry) {
	t.Helper()
	for e, err := range l.Companion(context.Background(), k, 0, 0) {
		if err != nil {
			t.Fatalf("companion of %s: %v", k.Thread, err)
		}
		out = append(out, e)
	}
	return out
}

// The events of the test above are of every type that there is.
func TestEveryTypeIsRemoved(t *testing.T) {
	var seen []agui.Type
	for _, e := range telling(0) {
		var h agui.Header
		if err := agui.ReadHeader(e, &h); err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		seen = append(seen, h.Type)
	}
	for _, typ := range agui.Types() {
		if !slices.Contains(seen, typ) {
			t.Errorf("no %s", typ)
		}
	}
}
