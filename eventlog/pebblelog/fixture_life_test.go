package pebblelog

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// fixtureLife writes what stores have since format 2: companion entries, a lease
// that outlives its process, a backup that is remembered, and threads of which
// something was removed.
func fixtureLife(t *testing.T, l *Log) {
	ctx := context.Background()
	key := func(thread string) eventlog.ThreadKey { return eventlog.ThreadKey{Scope: "life", Thread: thread} }
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	entry := func(thread, idem string, entries ...eventlog.Entry) {
		t.Helper()
		must(l.AppendCompanion(ctx, key(thread), eventlog.CompanionBatch{Entries: entries, Key: idem}))
	}
	talk := func(thread, run string) {
		t.Helper()
		fixtureAppend(t, l, "life", thread, eventlog.Batch{Key: "of " + run},
			fmt.Sprintf(`{"type":"RUN_STARTED","threadId":%q,"runId":%q}`, thread, run),
			`{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"what is to go"}`,
			`{"type":"TEXT_MESSAGE_END","messageId":"m1"}`,
			fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":%q,"runId":%q}`, thread, run))
	}
	entry("companion", "entries-1", eventlog.Entry{Kind: "title", Body: []byte(`"A name"`)}, eventlog.Entry{Kind: "bytes", Body: []byte{0, 0xff}})
	talk("companion", "r")
	entry("companion", "", eventlog.Entry{Kind: "empty"})

	w, err := l.BeginRun(ctx, key("expiring"), eventlog.RunStart{
		Started: []byte(`{"type":"RUN_STARTED","threadId":"expiring","runId":"elsewhere"}`),
		Holder:  eventlog.Holder{Owner: fixtureHolder, TTL: eventlog.MaxTTL},
	})
	must(w, err)
	must(w.Append(ctx, []byte(`{"type":"STEP_STARTED","stepName":"s"}`)))

	for _, thread := range []string{"erased", "cleared", "redacted"} {
		talk(thread, "first")
		entry(thread, "", eventlog.Entry{Kind: "title", Body: []byte("of " + thread)})
	}
	fixtureDerived(t, l)
	must(l.Backup(ctx, "backup"))
	must(l.Erase(ctx, key("erased"), eventlog.RemoveOptions{Reason: "asked to", Actor: "somebody"}))
	must(l.Clear(ctx, key("cleared"), eventlog.RemoveOptions{Reason: "a fresh start"}))
	talk("cleared", "second")
	must(l.Redact(ctx, key("redacted"), eventlog.Redaction{Message: "m1"}, eventlog.RemoveOptions{Actor: "somebody"}))
	fixtureAppend(t, l, "life", "redacted", eventlog.Batch{Run: agui.RunKey{ID: "first", Attempt: 1}}, `{"type":"CUSTOM","name":"after"}`)
}

// fixtureHolder holds the lease that outlives its process.
const fixtureHolder = "worker/2"

// fixtureLifeGoesOn writes to a fixture what depends on fixtureLife.
func fixtureLifeGoesOn(t *testing.T, l *Log) {
	t.Helper()
	ctx := context.Background()
	key := func(thread string) eventlog.ThreadKey { return eventlog.ThreadKey{Scope: "life", Thread: thread} }
	entries := eventlog.CompanionBatch{Key: "entries-1", Entries: []eventlog.Entry{{Kind: "title", Body: []byte(`"A name"`)}, {Kind: "bytes", Body: []byte{0, 0xff}}}}
	if done, err := l.AppendCompanion(ctx, key("companion"), entries); err != nil || !done.Duplicate || done.First != 1 || done.Last != 2 {
		t.Errorf("entries of before: %+v, %v", done, err)
	}
	entries.Key = ""
	if done, err := l.AppendCompanion(ctx, key("companion"), entries); err != nil || done.First != 4 {
		t.Errorf("the companion stream goes on: %+v, %v", done, err)
	}
	elsewhere := agui.RunKey{ID: "elsewhere", Attempt: 1}
	if w, err := l.TakeRun(ctx, key("expiring"), elsewhere, eventlog.Holder{Owner: fixtureHolder, TTL: eventlog.MaxTTL}); err != nil {
		t.Errorf("the lease of before: %v", err)
	} else if lease := w.Lease(); lease.Epoch != 2 {
		t.Errorf("the lease of before is under epoch %d", lease.Epoch)
	} else {
		fixtureEnd(t, w, "STOP", "")
	}
	if _, err := l.AppendCompanion(ctx, key("erased"), entries); !errors.Is(err, eventlog.ErrErased) {
		t.Errorf("an erased thread: %v", err)
	}
	again := eventlog.Batch{Key: "of first", Events: [][]byte{[]byte(`{"type":"CUSTOM"}`)}}
	if _, err := l.Append(ctx, key("cleared"), again); !errors.Is(err, eventlog.ErrErased) {
		t.Errorf("the key of what was cleared: %v", err)
	}
	for thread, next := range map[string]uint64{"cleared": 11, "redacted": 7} {
		if done := fixtureAppend(t, l, "life", thread, eventlog.Batch{}, `{"type":"CUSTOM","name":"more"}`); done.First != next {
			t.Errorf("thread %q goes on at %d, not %d", thread, done.First, next)
		}
	}
}
