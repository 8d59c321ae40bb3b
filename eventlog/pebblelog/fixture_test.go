package pebblelog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// The stored fixtures are stores as builds of before wrote them, one for each
// format, and what each of them must read as: testdata/store-v1 with
// store-v1.jsonl, and so on. They are never written again. A new one, for a new
// format, is written by
//
//	AGSTORE_WRITE_FIXTURE=testdata/store-vN go test -run TestWriteFixture ./eventlog/pebblelog

var (
	fixtureBegin = time.Date(2026, 1, 2, 3, 4, 5, 123456000, time.UTC)
	fixtureLater = fixtureBegin.Add(24 * time.Hour)
)

// fixtureScopes are the scopes of the fixture.
var fixtureScopes = []string{"acme", "b\x00c", "life"}

// TestWriteFixture writes a store to the directory that AGSTORE_WRITE_FIXTURE
// names, and beside it what it reads as.
func TestWriteFixture(t *testing.T) {
	dir := os.Getenv("AGSTORE_WRITE_FIXTURE")
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "store")
	}
	fs := vfs.NewCrashableMem()
	var ticks atomic.Int64
	opts := Options{FS: fs, Owner: "fixture/1", Now: func() time.Time {
		return fixtureBegin.Add(time.Duration(ticks.Add(1)) * (time.Second + time.Microsecond))
	}}
	l := fixtureOpen(t, opts)
	fixtureTables(t, l)
	fixtureLife(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = fixtureOpen(t, opts)
	fixtureTail(t, l)
	reads := describeStore(t, l)
	left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))}) // the process dies here, and the machine does not
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	writeOut(t, left, dir)
	if err := os.WriteFile(dir+".jsonl", reads, 0o600); err != nil {
		t.Fatal(err)
	}
	// What was written is what a build reads.
	l = fixtureOpen(t, Options{FS: left, Now: func() time.Time { return fixtureLater }})
	defer l.Close()
	if got := describeStore(t, l); !bytes.HasPrefix(got, reads[:bytes.IndexByte(reads, '\n')+1]) {
		t.Errorf("after recovery\n%s", got)
	}
}

func fixtureOpen(t *testing.T, opts Options) *Log {
	t.Helper()
	l, err := Open("store", opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fixtureAppend appends, and gives where it went.
func fixtureAppend(t *testing.T, l eventlog.Log, scope, thread string, b eventlog.Batch, events ...string) eventlog.Appended {
	t.Helper()
	for _, e := range events {
		b.Events = append(b.Events, []byte(e))
	}
	done, err := l.Append(context.Background(), eventlog.ThreadKey{Scope: scope, Thread: thread}, b)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// fixtureRun starts a run and writes events of it.
func fixtureRun(t *testing.T, l eventlog.Log, scope, thread, run string, events ...string) eventlog.Writer {
	t.Helper()
	ctx := context.Background()
	start := eventlog.RunStart{
		Started:     fmt.Appendf(nil, `{"type":"RUN_STARTED","threadId":%q,"runId":%q,"input":{"messages":[{"id":"u-%s","role":"user","content":"hello"}]}}`, thread, run, run),
		InputDigest: [16]byte{1, 2, 3},
	}
	w, err := l.BeginRun(ctx, eventlog.ThreadKey{Scope: scope, Thread: thread}, start)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if _, err := w.Append(ctx, []byte(e)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func fixtureEnd(t *testing.T, w eventlog.Writer, code, message string) {
	t.Helper()
	if err := w.End(context.Background(), code, message); err != nil {
		t.Fatal(err)
	}
}

// fixtureTables writes what an orderly close puts into tables.
func fixtureTables(t *testing.T, l eventlog.Log) {
	const acme = "acme"
	// Every status of a run, by writers.
	fixtureRun(t, l, acme, "statuses", "success", `{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"hel"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"lo"}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"m1"}`,
		`{"type":"RUN_STARTED","threadId":"statuses","runId":"another name"}`, // an echo
		`{"type":"RUN_FINISHED","threadId":"statuses","runId":"success"}`)
	fixtureRun(t, l, acme, "statuses", "interrupted", `{"type":"RUN_FINISHED","threadId":"statuses","runId":"interrupted","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"confirm"}]}}`)
	fixtureRun(t, l, acme, "statuses", "cancelled", `{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}`)
	fixtureRun(t, l, acme, "statuses", "failed", `{"type":"RUN_ERROR","message":"no","code":"E1"}`)
	w := fixtureRun(t, l, acme, "statuses", "abandoned", `{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"search"}`)
	fixtureEnd(t, w, agui.CodeAbandoned, "left")
	fixtureEnd(t, fixtureRun(t, l, acme, "statuses", "closed"), "STOP", "closed by its writer")
	// What comes after an end, and a second attempt.
	fixtureAppend(t, l, acme, "statuses", eventlog.Batch{Run: agui.RunKey{ID: "success", Attempt: 1}}, `{"type":"CUSTOM","name":"late","value":1}`)
	fixtureAppend(t, l, acme, "statuses", eventlog.Batch{}, `{"type":"RUN_STARTED","threadId":"statuses","runId":"success"}`,
		`{"type":"RUN_FINISHED","threadId":"statuses","runId":"success"}`)

	// Branches: at a run, at the root, by pointer, and one that points nowhere.
	fixtureAppend(t, l, acme, "branches", eventlog.Batch{}, `{"type":"CUSTOM","name":"before any run"}`)
	one := `{"type":"RUN_STARTED","threadId":"branches","runId":%q%s}`
	end := `{"type":"RUN_FINISHED","threadId":"branches","runId":%q}`
	branch := func(run, more string, parent *agui.RunKey) {
		fixtureAppend(t, l, acme, "branches", eventlog.Batch{Origin: eventlog.OriginImport, Parent: parent}, fmt.Sprintf(one, run, more), fmt.Sprintf(end, run))
	}
	branch("a", "", nil)
	branch("b", "", nil)
	branch("c", "", &agui.RunKey{ID: "a", Attempt: 1})
	branch("d", "", &agui.RunKey{})
	branch("e", `,"parentRunId":"b"`, nil)
	branch("f", `,"parentRunId":"nowhere"`, nil)

	// Text that must come back as it is.
	fixtureAppend(t, l, acme, "verbatim", eventlog.Batch{},
		`{"type":"OF_THE_FUTURE","big":9007199254740993,"exact":1.0,"e":1E400}`,
		"{ \"type\" :\t\"CUSTOM\" ,\n \"name\":\"spaces\" , \"value\" : [ 1 , 2 ] }",
		`{"value":{"b":1,"a":2,"b":3},"name":"order","type":"CUSTOM","type ":"not"}`,
		`{"type":"CUSTOM","name":"\ud83d","value":"\u0000\u2028é😀"}`,
		`{"type":"RAW","event":{"x":null},"source":"s"}`)

	// Idempotency keys, and a thread that is empty.
	key := eventlog.Batch{Key: "key-1"}
	fixtureAppend(t, l, acme, "keys", key, `{"type":"CUSTOM","name":"k","value":1}`, `{"type":"CUSTOM","name":"k","value":2}`)
	fixtureAppend(t, l, acme, "keys", eventlog.Batch{Key: "\x00\xff"}, `{"type":"CUSTOM","name":"k","value":3}`)
	fixtureAppend(t, l, acme, "empty", eventlog.Batch{})

	// Another scope, with the same name and one of all kinds of bytes.
	fixtureAppend(t, l, "b\x00c", "statuses", eventlog.Batch{Origin: eventlog.OriginImport}, `{"type":"RUN_STARTED","threadId":"statuses","runId":""}`, `{"type":"RUN_FINISHED"}`)
	fixtureAppend(t, l, "b\x00c", "\x01/ü\x7f", eventlog.Batch{Key: "key-1"}, `{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}`)
}

// fixtureTail writes what is in the write-ahead log alone when the process dies.
func fixtureTail(t *testing.T, l eventlog.Log) {
	const acme = "acme"
	// A run of raw appends that is open, and belongs to nobody later.
	fixtureAppend(t, l, acme, "raw", eventlog.Batch{}, `{"type":"RUN_STARTED","threadId":"raw","runId":"r"}`)
	fixtureAppend(t, l, acme, "raw", eventlog.Batch{}, `{"type":"STEP_STARTED","stepName":"s"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`)
	// An import that ended in the middle.
	fixtureAppend(t, l, acme, "imported", eventlog.Batch{Origin: eventlog.OriginImport, Key: "import-1"},
		`{"type":"RUN_STARTED","threadId":"imported","runId":"r"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}`)
	// Runs that their writers hold when they die: one with much open, one a
	// branch beside it.
	fixtureAppend(t, l, acme, "held", eventlog.Batch{}, `{"type":"RUN_STARTED","threadId":"held","runId":"first"}`, `{"type":"RUN_FINISHED"}`)
	fixtureRun(t, l, acme, "held", "dies", `{"type":"REASONING_START","messageId":"r"}`, `{"type":"REASONING_MESSAGE_START","messageId":"r","role":"reasoning"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"half a sen"}`)
	start := eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","threadId":"held","runId":"beside"}`), Parent: &agui.RunKey{ID: "first", Attempt: 1}}
	if _, err := l.BeginRun(context.Background(), eventlog.ThreadKey{Scope: acme, Thread: "held"}, start); err != nil {
		t.Fatal(err)
	}
}

// writeOut copies a store from memory to the disk. Who held it is said of a
// process that never was.
func writeOut(t *testing.T, fs vfs.FS, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range readFiles(t, fs, "store") {
		switch name {
		case "LOCK":
			continue
		case "owner.json":
			who := readOwner("store", fs)
			who.PID, who.Host, who.Since = 1, "fixture", fixtureBegin.Truncate(time.Second)
			text, err := json.Marshal(who)
			if err != nil {
				t.Fatal(err)
			}
			data = append(text, '\n')
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// readFiles reads all files of a directory of fs.
func readFiles(t *testing.T, fs vfs.FS, dir string) map[string][]byte {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]byte)
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if !info.IsDir() {
			if out[name], err = io.ReadAll(f); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// memoryOf is a file system in memory with these files in the directory store.
func memoryOf(t *testing.T, files map[string][]byte) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	if err := fs.MkdirAll("store", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := fs.Create(fs.PathJoin("store", name), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(bytes.Clone(files[name])); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// fixtureFiles are the files of the stored fixture of a version.
func fixtureFiles(t *testing.T, version int) map[string][]byte {
	t.Helper()
	return readFiles(t, vfs.Default, fmt.Sprintf("testdata/store-v%d", version))
}
