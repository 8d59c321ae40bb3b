package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// fixtureVersions are the formats of which a store is kept.
var fixtureVersions = []int{1, 2, 3}

func fixtureReads(t *testing.T, version int) []byte {
	t.Helper()
	reads, err := os.ReadFile(fmt.Sprintf("testdata/store-v%d.jsonl", version))
	if err != nil {
		t.Fatal(err)
	}
	return reads
}

// A store of every version of before is opened, reads as it did, has the runs
// of the process that died closed, is written to, and is then of this version.
func TestFixturesOpen(t *testing.T) {
	for _, version := range fixtureVersions {
		t.Run(fmt.Sprintf("Version%d", version), func(t *testing.T) {
			fs := memoryOf(t, fixtureFiles(t, version))
			var recovered []string
			opts := Options{FS: fs, Now: func() time.Time { return fixtureLater }}
			opts.Listener.RunRecovered = func(key eventlog.ThreadKey, run agui.RunKey) {
				recovered = append(recovered, key.Scope+"/"+key.Thread+"/"+run.ID)
			}
			l := fixtureOpen(t, opts)
			if fmt.Sprint(recovered) != "[acme/held/dies acme/held/beside]" {
				t.Errorf("recovered %v", recovered)
			}
			sameButRecovered(t, fixtureReads(t, version), describeStore(t, l))
			fixtureGoesOn(t, l)
			if version >= FormatLifecycle {
				fixtureLifeGoesOn(t, l)
			}
			if version >= FormatViews {
				fixtureDerivedGoesOn(t, l)
			}
			for range 2 {
				if l.meta.format != FormatVersion {
					t.Errorf("the store is of format %d", l.meta.format)
				}
				value, ok, err := l.get(storeKey())
				if row, e := newDecoder().store(value); !ok || err != nil || e != nil || row.format != FormatVersion {
					t.Errorf("the store's row says %+v, %v, %v", row, err, e)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l = fixtureOpen(t, opts)
			}
			if len(recovered) != 2 {
				t.Errorf("recovered again: %v", recovered)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// sameButRecovered compares what a fixture must read as with what it reads as
// once the runs that were held are closed.
func sameButRecovered(t *testing.T, want, got []byte) {
	t.Helper()
	var expected, found, more []string
	for line := range strings.Lines(string(want)) {
		if strings.HasPrefix(line, `{"thread":"held","scope":"acme"`) || strings.Contains(line, `"held":true`) && !strings.Contains(line, fixtureHolder) {
			continue // closing its runs changes these
		}
		expected = append(expected, line)
	}
	for line := range strings.Lines(string(got)) {
		if len(expected) > len(found) && line == expected[len(found)] {
			found = append(found, line)
		} else {
			more = append(more, line)
		}
	}
	if len(found) != len(expected) {
		t.Fatalf("not found: %s", expected[len(found)])
	}
	var types []string
	for _, line := range more {
		if _, typ, ok := strings.Cut(line, `"type":"`); ok {
			types = append(types, typ[:strings.IndexByte(typ, '"')])
		}
	}
	closing := "TEXT_MESSAGE_END REASONING_MESSAGE_END REASONING_END TOOL_CALL_END RUN_ERROR RUN_ERROR"
	if strings.Join(types, " ") != closing {
		t.Errorf("recovery added %v, want %s", types, closing)
	}
	if n := bytes.Count([]byte(strings.Join(more, "")), []byte(`"status":"abandoned"`)); n != 2 {
		t.Errorf("%d runs are abandoned", n)
	}
	if rest := len(more) - len(types); rest != 1+2+1 { // the thread, its two runs, a commit
		t.Errorf("also new: %s", strings.Join(more, ""))
	}
}

// fixtureGoesOn writes to a fixture what depends on what it was.
func fixtureGoesOn(t *testing.T, l *Log) {
	t.Helper()
	ctx := context.Background()
	// The open run of raw appends belongs to nobody now; its thread goes on.
	w := fixtureRun(t, l, "acme", "raw", "next")
	runs, err := l.Runs(ctx, eventlog.ThreadKey{Scope: "acme", Thread: "raw"})
	if err != nil || len(runs) != 2 || runs[0].Status != agui.RunAbandoned || runs[1].Parent != runs[0].Key {
		t.Errorf("runs %+v, %v", runs, err)
	}
	fixtureEnd(t, w, "STOP", "")
	for scope, n := range map[string]int{"acme": 8, "b\x00c": 2} {
		seen := 0
		for th, err := range l.Threads(ctx, scope, "") {
			if err != nil {
				t.Fatal(err)
			}
			seen++
			b := eventlog.Batch{Expect: eventlog.LastSeq(th.LastSeq)}
			if done := fixtureAppend(t, l, scope, th.Key.Thread, b, `{"type":"CUSTOM","name":"more"}`); done.First != th.LastSeq+1 {
				t.Errorf("thread %q goes on at %d, not behind %d", th.Key.Thread, done.First, th.LastSeq)
			}
		}
		if seen != n {
			t.Errorf("scope %q has %d threads", scope, seen)
		}
	}
	key := eventlog.Batch{Key: "key-1"}
	if done := fixtureAppend(t, l, "acme", "keys", key, `{"type":"CUSTOM","name":"k","value":1}`, `{"type":"CUSTOM","name":"k","value":2}`); !done.Duplicate || done.First != 1 || done.Last != 2 {
		t.Errorf("a key of before: %+v", done)
	}
	key.Events = [][]byte{[]byte(`{"type":"CUSTOM"}`)}
	if _, err := l.Append(ctx, eventlog.ThreadKey{Scope: "acme", Thread: "keys"}, key); !errors.Is(err, eventlog.ErrConflict) {
		t.Errorf("a key of before with other events: %v", err)
	}
	if got := fixtureAppend(t, l, "acme", "a new one", eventlog.Batch{}, `{"type":"CUSTOM"}`); got.First != 1 {
		t.Errorf("a new thread begins at %d", got.First)
	}
}

// A store of a format that this build does not know is refused, and left as it
// is.
func TestFixtureOfALaterFormat(t *testing.T) {
	fs := memoryOf(t, fixtureFiles(t, 1))
	l := fixtureOpen(t, Options{FS: fs})
	later := l.meta
	later.format = FormatVersion + 1
	if err := l.db.Set(storeKey(), newEncoder().store(later), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open("store", Options{FS: fs})
	var version *eventlog.VersionError
	if !errors.As(err, &version) || version.What != "store" || version.Found != FormatVersion+1 || version.Known != FormatVersion {
		t.Fatalf("open: %v", err)
	}
}
