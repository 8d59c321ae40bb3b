package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agstore/agstore/eventlog"
)

func (c *cli) imported(args ...string) imported {
	c.t.Helper()
	var done imported
	if err := json.Unmarshal([]byte(c.ok(append([]string{"import", "--json"}, args...)...)), &done); err != nil {
		c.t.Fatal(err)
	}
	return done
}

// lastSeq is how many records a thread has.
func (c *cli) lastSeq(thread string) int {
	c.t.Helper()
	return strings.Count(c.ok("export", thread, "--format", "records"), "\n")
}

func TestImportSaysWhere(t *testing.T) {
	c := newCLI(t)
	if got, want := c.with(turn("r1", "", "one")).imported("t", "-"), (imported{"t", 1, 5, 5, false}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := c.with(turn("r2", "", "two")).imported("t", "-"), (imported{"t", 6, 10, 5, false}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := c.with(turn("r3", "", "three")).ok("import", "t", "-"); got != "11\t15\n" {
		t.Errorf("in a pipe: %q", got)
	}
	if got := c.onTerminal().with(turn("r4", "", "four")).ok("import", "t", "-"); got != "5 events, seq 16 to 20\n" {
		t.Errorf("on a terminal: %q", got)
	}
}

func TestImportOfNothing(t *testing.T) {
	c := newCLI(t)
	for thread, input := range map[string]string{"empty": "", "blank": "\n\r\n  \n", "comments": ": nothing\n\n", "mark": "\xEF\xBB\xBF"} {
		if got, want := c.with(input).imported(thread, "-"), (imported{Thread: thread}); got != want {
			t.Errorf("%s: %+v, want %+v", thread, got, want)
		}
		if got := c.ok("export", thread); got != "" {
			t.Errorf("%s: it holds %q", thread, got)
		}
		c.ok("show", thread)
	}
	if got := strings.Count(c.ok("threads"), "\n"); got != 4 {
		t.Errorf("%d threads", got)
	}
}

// The same events in any of these clothes are the same log.
func TestImportFormats(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(turn("r1", "", "héllo ☃")), "\n")
	sse := func(frame func(i int, event string) string) string {
		var b strings.Builder
		for i, l := range lines {
			b.WriteString(frame(i, l))
		}
		return b.String()
	}
	for name, input := range map[string]string{
		"plain":         strings.Join(lines, "\n") + "\n",
		"no last break": strings.Join(lines, "\n"),
		"CRLF":          strings.Join(lines, "\r\n") + "\r\n",
		"BOM":           "\xEF\xBB\xBF" + strings.Join(lines, "\n"),
		"blank lines":   "\n" + strings.Join(lines, "\n\n \t\n"),
		"white space":   "  " + strings.Join(lines, " \n\t") + " ",
		"SSE":           sse(func(_ int, e string) string { return "data: " + e + "\n\n" }),
		"SSE tight":     sse(func(_ int, e string) string { return "data:" + e + "\n\n" }),
		"SSE id":        sse(func(i int, e string) string { return fmt.Sprintf("id: %d\nevent: message\ndata: %s\n\n", i, e) }),
		"SSE comments":  ": hello\n\n" + sse(func(_ int, e string) string { return "data: " + e + "\n\n: beat\n\nid: 9\n\n" }),
		"SSE CRLF":      sse(func(_ int, e string) string { return "data: " + e + "\r\n\r\n" }),
		"SSE BOM":       "\xEF\xBB\xBF" + sse(func(_ int, e string) string { return "data: " + e + "\n\n" }),
		"SSE cut":       strings.TrimRight(sse(func(_ int, e string) string { return "data: " + e + "\n\n" }), "\n"),
		"SSE retry":     "retry: 3000\n\n" + sse(func(_ int, e string) string { return "data: " + e + "\n\n" }),
	} {
		c := newCLI(t)
		if got := c.with(input).imported("t", "-"); got.Events != len(lines) {
			t.Errorf("%s: %d events", name, got.Events)
		}
		if got, want := c.ok("export", "t"), strings.Join(lines, "\n")+"\n"; got != want {
			t.Errorf("%s: the log is\n%s", name, got)
		}
	}
}

// An event over several data lines is one event.
func TestImportMultilineFrame(t *testing.T) {
	c := newCLI(t)
	c.with("data: {\ndata: \"type\": \"CUSTOM\",\ndata: \"name\": \"n\"}\n\n").ok("import", "t", "-")
	// Within a string a line break makes it no event; it is not mended.
	c.with("data: {\"type\":\"CUSTOM\",\"name\":\"a\ndata: b\"}\n\n").fails(exitRefused, "line 1", "import", "broken", "-")
	if got, want := c.ok("export", "t"), `{ "type": "CUSTOM", "name": "n"}`+"\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A line that is no event is named, and nothing of its batch is written.
func TestImportBadLine(t *testing.T) {
	good := strings.TrimSpace(turn("r1", "", "hello"))
	for name, bad := range map[string]struct{ line, says string }{
		"not JSON":      {"nonsense", "not JSON"},
		"no object":     {`["RUN_STARTED"]`, "not an object"},
		"null":          {"null", "not an object"},
		"no type":       {`{"kind":"RUN_STARTED"}`, `no string member "type"`},
		"type a number": {`{"type":1}`, `no string member "type"`},
		"invalid UTF-8": {"{\"type\":\"CUSTOM\",\"name\":\"\xff\"}", "invalid UTF-8"},
		"two values":    {`{"type":"CUSTOM"} {"type":"CUSTOM"}`, "more after the end"},
		"half a line":   {`{"type":"CUSTOM","name":"x`, "cut off"},
	} {
		c := newCLI(t)
		r := c.with(good+"\n\n\n"+bad.line).fails(exitRefused, "import standard input: line 8: ", "import", "t", "-")
		if !strings.Contains(r.err, bad.says) {
			t.Errorf("%s: it does not say %q: %s", name, bad.says, r.err)
		}
		c.fails(exitNotFound, "", "show", "t")
		frames := "data: " + strings.ReplaceAll(good, "\n", "\n\ndata: ") + "\n\n: a comment\n\nid: 9\ndata: " + bad.line + "\n\n"
		c.with(frames).fails(exitRefused, "line 13: ", "import", "t", "-")
		c.fails(exitNotFound, "", "show", "t")
	}
}

// many is a valid stream of n events.
func many(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}` + "\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, `{"type":"CUSTOM","name":"n","value":%d}`+"\n", i)
	}
	return b.String()
}

// Batches before the bad line stay, and the error says so; with a key the
// repaired file goes on where it stopped.
func TestImportInBatches(t *testing.T) {
	c := newCLI(t)
	lines := strings.SplitAfter(many(2500), "\n")
	broken := strings.Join(lines[:2200], "") + "{\n" + strings.Join(lines[2201:], "")
	r := c.with(broken).fails(exitRefused, "line 2201", "import", "t", "-", "--idempotency-key", "k")
	if !strings.Contains(r.err, "2000 events before that are in the thread, up to seq 2000") {
		t.Errorf("it does not say what was written:\n%s", r.err)
	}
	if got := c.lastSeq("t"); got != 2000 {
		t.Fatalf("%d records", got)
	}
	whole := c.with(many(2500))
	if got, want := whole.imported("t", "-", "--idempotency-key", "k"), (imported{"t", 1, 2500, 2500, false}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := c.with(many(2500)).imported("t", "-", "--idempotency-key", "k"), (imported{"t", 1, 2500, 2500, true}); got != want {
		t.Errorf("again: %+v, want %+v", got, want)
	}
	if got := c.ok("export", "t"); got != many(2500) {
		t.Error("the log is not the file")
	}
	c.with(strings.Replace(many(2500), `"value":7}`, `"value":8}`, 1)).fails(exitConflict, "key", "import", "t", "-", "--idempotency-key", "k")
}

func TestImportExpectSeq(t *testing.T) {
	c := newCLI(t)
	c.with(turn("r1", "", "one")).ok("import", "t", "-", "--expect-seq", "0")
	c.with(turn("r2", "", "two")).fails(exitConflict, "expected last seq 3, it is 5", "import", "t", "-", "--expect-seq", "3")
	// The condition goes on from batch to batch.
	if got := c.with(strings.ReplaceAll(many(2500), `"r"`, `"r3"`)).imported("t", "-", "--expect-seq", "5"); got.Last != 2505 {
		t.Errorf("%+v", got)
	}
}

// endless is one event that never ends.
type endless struct {
	head string
	left int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.head != "" {
		n := copy(p, e.head)
		e.head = e.head[n:]
		return n, nil
	}
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	e.left -= n
	copy(p, bytes.Repeat([]byte{'x'}, n))
	return n, nil
}

func TestImportTooLarge(t *testing.T) {
	const size = 100 << 20
	limit := eventlog.DefaultLimits().EventBytes
	for line, head := range map[string]string{
		"line 6":  turn("r1", "", "one") + `{"type":"CUSTOM","name":"`,
		"line 11": "data: " + strings.ReplaceAll(turn("r1", "", "one"), "\n", "\n\ndata: "),
	} {
		c := newCLI(t)
		c.in = &endless{head: head, left: size}
		r := c.fails(exitRefused, line+": event too large", "import", "t", "-")
		if !strings.Contains(r.err, fmt.Sprint(limit)) || !strings.Contains(r.err, "1048576") {
			t.Errorf("it does not say how large it is and may be: %s", r.err)
		}
		c.fails(exitNotFound, "", "show", "t")
	}
}

// The largest event there may be goes in and comes out.
func TestImportLargest(t *testing.T) {
	event := `{"type":"CUSTOM","name":"n","value":"`
	event += strings.Repeat("y", eventlog.DefaultLimits().EventBytes-len(event)-2) + `"}`
	c := newCLI(t)
	c.with(turn("r1", "", "one")+event+"\r\n").ok("import", "t", "-")
	if got := c.ok("export", "t", "--from", "6"); got != event+"\n" {
		t.Errorf("%d bytes came out, not the %d that went in", len(got), len(event))
	}
}

func TestExportFormats(t *testing.T) {
	c := newCLI(t)
	stream := turn("r1", "", "one") + turn("r2", "", "two") + turn("r3", `,"parentRunId":"r1"`, "three")
	c.with(stream).ok("import", "t", "-")
	lines := strings.SplitAfter(stream, "\n")
	for args, want := range map[string]string{
		"export t":                       stream,
		"export t --from 3 --to 6":       strings.Join(lines[2:6], ""),
		"export t --run r3":              strings.Join(lines[:5], "") + strings.Join(lines[10:], ""),
		"export t --run r3 --from 5":     strings.Join(lines[4:5], "") + strings.Join(lines[10:], ""),
		"export t --format sse --to 2":   "id: 1\ndata: " + lines[0] + "\nid: 2\ndata: " + lines[1] + "\n",
		"export t --format jsonl --to 1": lines[0],
	} {
		if got := c.ok(strings.Fields(args)...); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", args, got, want)
		}
	}
	var record struct {
		Seq      uint64
		Position uint64
		Time     string
		Run      string
		Attempt  int
		Type     string
		Origin   string
		Echo     *bool
		Event    json.RawMessage
	}
	if err := json.Unmarshal([]byte(c.ok("export", "t", "--json", "--from", "7", "--to", "7")), &record); err != nil {
		t.Fatal(err)
	}
	if record.Seq != 7 || record.Position == 0 || record.Time == "" || record.Run != "r2" || record.Attempt != 1 ||
		record.Type != "TEXT_MESSAGE_START" || record.Origin != "import" || record.Echo == nil ||
		string(record.Event)+"\n" != lines[6] {
		t.Errorf("the record is %+v", record)
	}
}

// An export goes in again, in each format that import takes, and gives the same
// view.
func TestExportImport(t *testing.T) {
	c := newCLI(t)
	c.with(turn("r1", "", "one")+turn("r2", "", "two")).ok("import", "t", "-")
	want := c.ok("export", "t")
	for _, format := range []string{"jsonl", "sse", "records"} {
		other := newCLI(t)
		other.with(c.ok("export", "t", "--format", format)).ok("import", "t", "-")
		if got := other.ok("export", "t"); got != want {
			t.Errorf("%s: the log is\n%s", format, got)
		}
		if got := other.ok("show", "t"); got != c.ok("show", "t") {
			t.Errorf("%s: the view is\n%s", format, got)
		}
		if got := other.with(c.ok("export", "t", "--format", format)).ok("fold", "-"); got != other.with(want).ok("fold", "-") {
			t.Errorf("%s: folded it is\n%s", format, got)
		}
	}
}

// What was recorded by a server comes back the same from a records export too:
// the echo of a start is left out, as in the other formats, and nothing else.
func TestImportRecords(t *testing.T) {
	c := newCLI(t)
	lines := []string{
		`{"seq":1,"position":4,"time":"2026-01-02T03:04:05Z","run":"r1","attempt":1,"type":"RUN_STARTED","origin":"store","echo":false,"event":{"type":"RUN_STARTED","threadId":"t","runId":"r1","input":{"threadId":"t","runId":"r1","messages":[{"id":"u","role":"user","content":"Hi."}]}}}`,
		`{"seq":2,"position":5,"time":"2026-01-02T03:04:05Z","run":"r1","attempt":1,"type":"RUN_STARTED","origin":"agent","echo":true,"event":{"type":"RUN_STARTED","threadId":"t","runId":"r1"}}`,
		`{"seq":3,"position":6,"time":"2026-01-02T03:04:05Z","run":"r1","attempt":1,"type":"CUSTOM","origin":"agent","echo":false,"event":{ "type":"CUSTOM", "name":"n", "value":1.10 }}`,
		`{"seq":4,"position":7,"time":"2026-01-02T03:04:05Z","run":"r1","attempt":1,"type":"RUN_FINISHED","origin":"agent","echo":false,"event":{"type":"RUN_FINISHED","threadId":"t","runId":"r1"}}`,
		`{"seq":5,"position":9,"time":"2026-01-02T03:04:05Z","run":"r1","attempt":2,"type":"RUN_STARTED","origin":"import","echo":true,"event":{"type":"RUN_STARTED","threadId":"t","runId":"r1"}}`,
	}
	if got, want := c.with(strings.Join(lines, "\n")).imported("t", "-"), (imported{"t", 1, 4, 4, false}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want := strings.Join([]string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r1","input":{"threadId":"t","runId":"r1","messages":[{"id":"u","role":"user","content":"Hi."}]}}`,
		`{ "type":"CUSTOM", "name":"n", "value":1.10 }`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"r1"}`,
		`{"type":"RUN_STARTED","threadId":"t","runId":"r1"}`,
	}, "\n") + "\n"
	if got := c.ok("export", "t"); got != want {
		t.Errorf("the log is\n%s", got)
	}
	// What stands among records must be one; where records stand alone, so must
	// events.
	event := `{"type":"CUSTOM","name":"n"}`
	for name, bad := range map[string]struct{ input, says string }{
		"an event":       {lines[0] + "\n\n" + event, "line 3: no record"},
		"no JSON":        {lines[0] + "\nnonsense", "line 2: no record"},
		"no event":       {lines[0] + "\n" + strings.Replace(lines[2], `"event":{`, `"data":{`, 1), "line 2: no record"},
		"a bad event":    {lines[0] + "\n" + strings.Replace(lines[2], `"type":"CUSTOM", "name"`, `"name"`, 1), "line 2: not an AG-UI event"},
		"no seq":         {lines[0] + "\n" + strings.Replace(lines[2], `"seq":3,`, ``, 1), "line 2: no record"},
		"behind events":  {event + "\n" + lines[0], "line 2: a record, in a stream of events"},
		"in a SSE frame": {"data: " + event + "\n\ndata: " + lines[0] + "\n\n", "line 3: a record, in a stream of events"},
	} {
		c.with(bad.input).fails(exitRefused, "import standard input: "+bad.says, "import", "other", "-")
		if name == "an event" {
			c.fails(exitNotFound, "", "show", "other") // nothing of the batch was written
		}
	}
	// An event that has such members of its own is an event.
	odd := `{"type":"CUSTOM","name":"n","position":1,"origin":"x","echo":true,"event":{}}` + "\n"
	c.with(odd).ok("import", "odd", "-")
	if got := c.ok("export", "odd"); got != odd {
		t.Errorf("it became %s", got)
	}
}

// A list of messages becomes one run; its values stay as they are written.
func TestImportMessages(t *testing.T) {
	const list = `[
  {"id": "u1", "role": "user", "content": "Hi \u003c\ud83d."},
  {"id": "a1", "role": "assistant", "content": "Hello.", "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"n\":1.10}"}}]},
  {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "42"}
]`
	c := newCLI(t)
	file := c.file("history.json", list)
	if got, want := c.imported("t", "--messages", file, "--run", "before"), (imported{"t", 1, 2, 2, false}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want := `{"type":"RUN_STARTED","threadId":"t","runId":"before","input":{"threadId":"t","runId":"before","messages":[` +
		`{"id":"u1","role":"user","content":"Hi \u003c\ud83d."},` +
		`{"id":"a1","role":"assistant","content":"Hello.","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"n\":1.10}"}}]},` +
		`{"id":"t1","role":"tool","toolCallId":"c1","content":"42"}],"tools":[],"context":[]}}` + "\n" +
		`{"type":"RUN_FINISHED","threadId":"t","runId":"before"}` + "\n"
	if got := c.ok("export", "t"); got != want {
		t.Errorf("the log is\n%swant\n%s", got, want)
	}
	v := c.view("t")
	if ids(v.Messages) != "u1 a1 t1" || v.Status != "success" {
		t.Errorf("the view is %+v", v)
	}
	// Without a key or a run id each import is a run of its own.
	c.ok("import", "other", file, "--messages")
	c.ok("import", "other", file, "--messages")
	if got := strings.Count(c.ok("runs", "other"), "\n"); got != 2 {
		t.Errorf("%d runs", got)
	}
	// With a key the second changes nothing, and another list is a conflict.
	first := c.imported("keyed", file, "--messages", "--idempotency-key", "k")
	again := c.imported("keyed", file, "--messages", "--idempotency-key", "k")
	if first.Duplicate || !again.Duplicate || again.Last != 2 {
		t.Errorf("first %+v, again %+v", first, again)
	}
	c.with("[]").fails(exitConflict, "key", "import", "keyed", "-", "--messages", "--idempotency-key", "k")
	c.with("[]").fails(exitConflict, "expected last seq 7", "import", "keyed", "-", "--messages", "--expect-seq", "7")
	if got := c.with("\xEF\xBB\xBF[]").imported("none", "-", "--messages"); got.Events != 2 {
		t.Errorf("of an empty list: %+v", got)
	}
}

// A list that is none is refused, and nothing is written.
func TestImportMessagesRefused(t *testing.T) {
	c := newCLI(t)
	good := `{"id":"u1","role":"user","content":"Hi."}`
	for input, says := range map[string]string{
		"":                               "no JSON list of messages",
		"nonsense":                       "no JSON list of messages",
		"null":                           "no JSON list of messages",
		good:                             "no JSON list of messages",
		"[" + good + "] x":               "no JSON list of messages",
		"[" + good + ",7]":               "message 2 of 2: ",
		"[" + good + `,{"role":"user"}]`: "message 2 of 2: /",
		`[{"id":"u1","role":"nobody"}]`:  "message 1 of 1: ",
		"[{\"id\":\"\xff\",\"role\":\"user\",\"content\":\"\"}]": "invalid",
	} {
		c.with(input).fails(exitRefused, says, "import", "t", "-", "--messages")
		c.fails(exitNotFound, "", "show", "t")
	}
	c.in = &endless{head: `[{"id":"`, left: 40 << 20}
	c.fails(exitRefused, "list of messages too large", "import", "t", "-", "--messages")
}

// An export that fails names the file that was asked for, whatever is written on
// the way.
func TestExportNamesItsFile(t *testing.T) {
	c := newCLI(t)
	c.with(turn("r1", "", "one")).ok("import", "t", "-")
	path := filepath.Join(t.TempDir(), "nodir", "x")
	if r := c.fails(exitNotFound, "", "export", "t", path); r.err != "agstore: write "+path+": no such file or directory\n" {
		t.Errorf("it says %s", r.err)
	}
}

// The help says what a pipe gets.
func TestHelpOfPipes(t *testing.T) {
	c := newCLI(t)
	for command, says := range map[string][]string{
		"import": {"In a pipe: the first and the last seq", "is appended again", "is that of its import"},
		"branch": {"In a pipe: run, parent, first seq and last", "No agent is called"},
		"export": {"leave out when", "echoes"},
	} {
		text := c.ok(command, "--help")
		for _, s := range says {
			if !strings.Contains(text, s) {
				t.Errorf("%s --help does not say %q:\n%s", command, s, text)
			}
		}
	}
}

// A file is replaced wholly or not at all.
func TestExportFile(t *testing.T) {
	c := newCLI(t)
	c.with(turn("r1", "", "one")).ok("import", "t", "-")
	path := c.file("out.jsonl", "what was there before\n")
	c.fails(exitNotFound, "", "export", "t", path, "--run", "other")
	if got, err := os.ReadFile(path); err != nil || string(got) != "what was there before\n" {
		t.Errorf("after a failed export: %q, %v", got, err)
	}
	c.ok("export", "t", path)
	if got, err := os.ReadFile(path); err != nil || string(got) != turn("r1", "", "one") {
		t.Errorf("after the export: %q, %v", got, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside the file: %v, %v", entries, err)
	}
}

// A strict import of a stream with a fault is refused with its line, and writes
// nothing of the file, also of what comes before and in other batches.
func TestImportStrict(t *testing.T) {
	c := newCLI(t)
	good := turn("r1", "", "one")
	bad := good + strings.Repeat(strings.ReplaceAll(turn("r2", "", "two"), "\n", "\n\n"), 1) + `{"type":"TOOL_CALL_END","toolCallId":"nobody"}` + "\n"
	c.fails(exitRefused, "line ", "import", "t", c.file("bad.jsonl", bad), "--verify", "strict")
	c.with(good).ok("import", "t", "-", "--verify", "strict")
	c.with(bad).fails(exitRefused, fmt.Sprintf("line %d", strings.Count(bad, "\n")), "import", "t", "-", "--verify", "strict")
	if got, want := c.ok("export", "t"), good; got != want {
		t.Errorf("after the refusal:\n%s\nwant\n%s", got, want)
	}
	for i, mode := range []string{"record", "off"} {
		c.with(bad).ok("import", fmt.Sprint("as-it-is", i), "-", "--verify", mode)
	}
	c.with(good).fails(exitUsage, "--verify", "import", "t", "-", "--verify", "loose")
	c.with("[]").fails(exitUsage, "--messages", "import", "t", "-", "--messages", "--verify", "strict")
}
