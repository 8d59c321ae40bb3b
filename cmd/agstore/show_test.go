package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore/api"
)

// story is a thread of three runs: a turn of the user with a tool call, a
// question, and a branch from the first run. Its numbers and escapes are such
// that they would not survive a decoder.
const story = `{"type":"RUN_STARTED","threadId":"t","runId":"r1","input":{"threadId":"t","runId":"r1","messages":[{"id":"u1","role":"user","content":"What is the weather?"}],"tools":[],"context":[]}}
{"type":"STATE_SNAPSHOT","snapshot":{"n":9007199254740993,"x":1.10,"s":"\u003c\ud83d"}}
{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"weather","parentMessageId":"a1"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"city\":"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"\"Lisbon\"}"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}
{"type":"TOOL_CALL_RESULT","messageId":"res1","toolCallId":"c1","content":"sunny"}
{"type":"TEXT_MESSAGE_START","messageId":"a2","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"a2","delta":"It is sunny \ud83d"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"a2","delta":"\ude00.\nTake a hat."}
{"type":"TEXT_MESSAGE_END","messageId":"a2"}
{"type":"STATE_DELTA","delta":[{"op":"add","path":"/hat","value":true}]}
{"type":"RUN_FINISHED","threadId":"t","runId":"r1"}
{"type":"RUN_STARTED","threadId":"t","runId":"r2"}
{"type":"TEXT_MESSAGE_START","messageId":"a3","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"a3","delta":"May I book?"}
{"type":"TEXT_MESSAGE_END","messageId":"a3"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r2","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"approval","message":"Book it?"}]}}
`

func storyCLI(t *testing.T) *cli {
	c := newCLI(t)
	c.with(story).ok("import", "t", "-")
	return c
}

func (c *cli) view(args ...string) demoView {
	c.t.Helper()
	var v demoView
	if err := json.Unmarshal([]byte(c.ok(append([]string{"show", "--json"}, args...)...)), &v); err != nil {
		c.t.Fatal(err)
	}
	return v
}

func ids(messages []message) string {
	var list []string
	for _, m := range messages {
		list = append(list, m.ID)
	}
	return strings.Join(list, " ")
}

func TestShow(t *testing.T) {
	c := storyCLI(t)
	v := c.view("t")
	if v.Thread != "t" || ids(v.Messages) != "u1 a1 res1 a2 a3" || v.Status != "interrupted" || len(v.PendingInterrupts) != 1 {
		t.Errorf("the view is %+v", v)
	}
	if want := `{"n":9007199254740993,"x":1.10,"s":"<\ud83d","hat":true}`; string(v.State) != want && string(v.State) != strings.Replace(want, "<", `\u003c`, 1) {
		t.Errorf("the state is %s", v.State)
	}
	if got := ids(c.view("t", "--run", "r1").Messages); got != "u1 a1 res1 a2" {
		t.Errorf("at run r1: %s", got)
	}
	if got := ids(c.view("t", "--at", "7").Messages); got != "u1 a1 res1" {
		t.Errorf("at seq 7: %s", got)
	}
	if got := ids(c.view("t", "--at", "0").Messages); got != "" {
		t.Errorf("at seq 0: %s", got)
	}
	if got := ids(c.view("t", "--messages", "2").Messages); got != "a2 a3" {
		t.Errorf("the newest two: %s", got)
	}
	if got := ids(c.view("t", "--profile", "reference").Messages); got != "u1 a1 res1 a2 a3" {
		t.Errorf("as the official client: %s", got)
	}
	c.fails(exitUsage, "profile", "show", "t", "--profile", "other")
}

// In a pipe one line, on a terminal indented, and never another number or string.
func TestShowLayout(t *testing.T) {
	c := storyCLI(t)
	piped, shown := c.ok("show", "t"), c.onTerminal().ok("show", "t")
	if strings.Count(piped, "\n") != 1 || piped != c.onTerminal().ok("show", "t", "--json") {
		t.Errorf("in a pipe:\n%s", piped)
	}
	if !strings.Contains(shown, "\n  \"messages\": [") || !strings.Contains(shown, "9007199254740993") || !strings.Contains(shown, "1.10") {
		t.Errorf("on a terminal:\n%s", shown)
	}
	var back bytes.Buffer
	if err := json.Compact(&back, []byte(shown)); err != nil || back.String()+"\n" != piped {
		t.Errorf("the two differ in more than white space: %v", err)
	}
}

func TestTranscript(t *testing.T) {
	c := storyCLI(t)
	golden(t, "transcript.txt", c.ok("show", "t", "--transcript"))
	c.fails(exitUsage, "--transcript", "show", "t", "--transcript", "--json")
}

// What an agent wrote must not reach the terminal as commands.
func TestTerminalIsSafe(t *testing.T) {
	c := newCLI(t)
	c.with(strings.ReplaceAll(turn("r@[2J", "", "a@]0;title@b"), "@", `\u001b`)).ok("import", "t\x1b[31m", "-")
	on := c.onTerminal()
	for _, args := range [][]string{{"show", "--transcript"}, {"replay", "--speed", "max"}, {"runs"}} {
		out := on.ok(append(args, "t\x1b[31m", "--color", "never")...)
		if strings.ContainsAny(out, "\x1b\x07") || out == "" {
			t.Errorf("%v: %q", args, out)
		}
	}
	if out := on.ok("threads", "--color", "never"); strings.Contains(out, "\x1b") || !strings.Contains(out, "t␛[31m") {
		t.Errorf("threads: %q", out)
	}
}

func TestColour(t *testing.T) {
	c := storyCLI(t)
	coloured := func(c *cli, args ...string) bool {
		return strings.Contains(c.ok(append([]string{"runs", "t"}, args...)...), "\x1b[")
	}
	if coloured(c) || !coloured(c.onTerminal()) || coloured(c.onTerminal(), "--color", "never") {
		t.Error("auto and never")
	}
	dull := c.onTerminal()
	dull.env = map[string]string{"NO_COLOR": "1"}
	if coloured(dull) || !coloured(dull, "--color", "always") {
		t.Error("NO_COLOR and always")
	}
}

func TestThreads(t *testing.T) {
	c := storyCLI(t)
	c.with("").ok("import", "another", "-")
	var seen []string
	for line := range strings.Lines(c.ok("threads", "--json")) {
		var thread api.Thread
		if err := json.Unmarshal([]byte(line), &thread); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprint(thread.Thread, " ", thread.LastSeq, " ", thread.Runs, " ", thread.Head))
		if thread.Created.IsZero() || thread.Updated.Before(thread.Created) {
			t.Errorf("created %v, updated %v", thread.Created, thread.Updated)
		}
	}
	if got, want := strings.Join(seen, "; "), "another 0 0 ; t 18 2 r2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := c.ok("threads"); !strings.HasPrefix(got, "another\t0\t0\t\t20") || strings.Count(got, "\t") != 10 {
		t.Errorf("in a pipe: %q", got)
	}
	if got := c.onTerminal().ok("threads", "--color", "never"); !strings.HasPrefix(got, "THREAD   RECORDS  RUNS  HEAD  CREATED") {
		t.Errorf("on a terminal: %q", got)
	}
	if got := c.ok("threads", "--scope", "other"); got != "" {
		t.Errorf("another scope holds %q", got)
	}
}

// threeRuns is a thread with a branch: r3 behind r1, beside r2.
func threeRuns(t *testing.T) *cli {
	c := newCLI(t)
	c.with(turn("r1", "", "one")+turn("r2", "", "two")+turn("r3", `,"parentRunId":"r1"`, "three")).ok("import", "t", "-")
	return c
}

func TestRuns(t *testing.T) {
	c := threeRuns(t)
	var seen []string
	for line := range strings.Lines(c.ok("runs", "t", "--json")) {
		var r api.Run
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprint(r.Run, "<", parentOf(r), " ", r.Status, " ", r.Events, " ", r.Head))
	}
	want := "r1< success 5 false; r2<r1 success 5 false; r3<r1 success 5 true"
	if got := strings.Join(seen, "; "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := c.ok("runs", "t"); !strings.Contains(got, "r3\tr1\tsuccess\t5\t11\t15\t") || !strings.HasSuffix(got, "\thead\n") {
		t.Errorf("in a pipe: %q", got)
	}
	tree := c.onTerminal().ok("runs", "t", "--color", "never")
	for i, begins := range []string{"RUN    STATUS", "r1     success", "├─ r2  success", "└─ r3  success"} {
		if line := strings.Split(tree, "\n")[i]; !strings.HasPrefix(line, begins) {
			t.Errorf("line %d of the tree is %q, want %q", i+1, line, begins)
		}
	}
}

func TestDrawTree(t *testing.T) {
	parent := func(p api.ID) *api.ID { return &p }
	runs := []api.Run{
		{Run: "a", Attempt: 1}, {Run: "b", Attempt: 1, Parent: parent("a")}, {Run: "c", Attempt: 1, Parent: parent("b")},
		{Run: "d", Attempt: 1, Parent: parent("b")}, {Run: "e", Attempt: 1, Parent: parent("c")}, {Run: "e", Attempt: 2, Parent: parent("e")},
		{Run: "f", Attempt: 1},
	}
	var got strings.Builder
	drawTree(runs, func(prefix string, r api.Run) { got.WriteString(prefix + runName(r) + "\n") })
	want := "├─ a\n│  b\n│  ├─ c\n│  │  e\n│  │  e#2\n│  └─ d\n└─ f\n"
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// Must hold 4: the view at a branch holds the run it began from and its own, not
// the other path.
func TestBranch(t *testing.T) {
	c := newCLI(t)
	c.with(turn("r1", "", "one")+turn("r2", "", "two")+turn("r3", "", "three")).ok("import", "t", "-")
	events := "{\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\",\"role\":\"assistant\"}\n{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"other\"}\n{\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"m\"}\n"
	var done api.Branched
	if err := json.Unmarshal([]byte(c.with(events).ok("branch", "t", "-", "--from", "r1", "--run", "b1", "--message", "Rather so.", "--json")), &done); err != nil {
		t.Fatal(err)
	}
	if want := (api.Branched{Run: "b1", Parent: "r1", First: 16, Last: 20}); done != want {
		t.Errorf("%+v, want %+v", done, want)
	}
	v := c.view("t", "--run", "b1")
	if len(v.Messages) != 3 || v.Messages[0].ID != "m-r1" || !v.says("Rather so.") || v.Messages[2].ID != "m" {
		t.Errorf("at the branch: %s", ids(v.Messages))
	}
	if got := ids(c.view("t", "--run", "r3").Messages); got != "m-r1 m-r2 m-r3" {
		t.Errorf("at the other path: %s", got)
	}
	if got := ids(c.view("t").Messages); got != ids(v.Messages) {
		t.Errorf("the thread goes on at %s", got)
	}
	if out := c.ok("branch", "t", "--from", "root", "--message", "From the start."); !strings.Contains(out, "\troot\t") {
		t.Errorf("from the root: %q", out)
	}
	if v := c.view("t"); len(v.Messages) != 1 || !v.says("From the start.") {
		t.Errorf("from the root: %s", ids(v.Messages))
	}
	tree := c.onTerminal().ok("runs", "t", "--color", "never")
	for _, line := range []string{"├─ r1 ", "│  ├─ r2 ", "│  │  r3 ", "│  └─ b1 ", "└─ run-"} {
		if !strings.Contains(tree, "\n"+line) {
			t.Errorf("no %q in the tree\n%s", line, tree)
		}
	}
	c.fails(exitConflict, "the run exists", "branch", "t", "--from", "r1", "--run", "b1")
	c.with("{}").fails(exitRefused, "line 1", "branch", "t", "-", "--from", "r1")
}

func TestReplay(t *testing.T) {
	c := storyCLI(t)
	golden(t, "replay.txt", stamps(c.ok("replay", "t", "--speed", "max")))
	if got, want := c.ok("replay", "t", "--speed", "max", "--json"), c.ok("export", "t", "--format", "records"); got != want {
		t.Errorf("as JSON:\n%s", got)
	}
	got := c.ok("replay", "t", "--speed", "max", "--from", "8", "--to", "11", "--json")
	if strings.Count(got, "\n") != 4 || !strings.HasPrefix(got, `{"seq":8,`) {
		t.Errorf("a part:\n%s", got)
	}
	if got := threeRuns(t).ok("replay", "t", "--run", "r3", "--speed", "max"); strings.Contains(got, "two") || !strings.Contains(got, "three") {
		t.Errorf("a lineage:\n%s", got)
	}
}

// stamps makes the times of a replay alike.
func stamps(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if before, after, ok := strings.Cut(line, " +"); ok && strings.TrimLeft(before, " 0123456789") == "" {
			_, after, _ = strings.Cut(after, "  ")
			line = strings.TrimRight(before, " ") + " +TIME  " + after
		}
		out.WriteString(line)
	}
	return out.String()
}

// How fast a replay is, and what is no speed; see replay.Pace for what comes of it.
func TestReplaySpeeds(t *testing.T) {
	for text, want := range map[string]float64{"1x": 1, "4": 4, "0.5x": 0.5, "10000x": 10000, "max": 0} {
		if got, err := parseSpeed(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "0", "-1x", "fast", "Inf", "NaN"} {
		if got, err := parseSpeed(text); err == nil {
			t.Errorf("%q is the speed %v", text, got)
		}
	}
}

func TestPager(t *testing.T) {
	c := storyCLI(t)
	on := c.onTerminal()
	on.env = map[string]string{"AGSTORE_PAGER": "tr a-z A-Z", "PAGER": "false"}
	if out := on.ok("runs", "t", "--color", "never"); !strings.Contains(out, "R1   SUCCESS") {
		t.Errorf("through a pager: %q", out)
	}
	on.env = map[string]string{"PAGER": "no-such-pager"}
	if out := on.ok("runs", "t", "--color", "never"); !strings.Contains(out, "r1   success") {
		t.Errorf("without its pager: %q", out)
	}
	piped := *on
	piped.tty, piped.env = false, map[string]string{"AGSTORE_PAGER": "tr a-z A-Z"}
	if out := piped.ok("runs", "t"); !strings.Contains(out, "r1\t") {
		t.Errorf("in a pipe: %q", out)
	}
}

func TestCompletion(t *testing.T) {
	c := threeRuns(t)
	c.with("").ok("import", "other", "-")
	for args, want := range map[string]string{
		"show |":              "other t",
		"show t |":            "",
		"show t --run |":      "r1 r2 r3",
		"branch t --from |":   "r1 r2 r3 root",
		"replay o|":           "other t", // the shell chooses
		"export t --format |": "jsonl records sse",
	} {
		words := strings.Fields(strings.TrimSuffix(args, "|"))
		if strings.HasSuffix(args, " |") {
			words = append(words, "")
		}
		var got []string
		for line := range strings.Lines(c.ok(append([]string{"__complete"}, words...)...)) {
			if !strings.HasPrefix(line, ":") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		if sorted(got) != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if c.ok("completion", shell) == "" {
			t.Errorf("no completion for %s", shell)
		}
	}
	// Without a store there is nothing to offer, and no store is made.
	nothing := newCLI(t)
	nothing.run("__complete", "show", "")
	if _, err := os.Stat(nothing.data); !os.IsNotExist(err) {
		t.Error("the completion made a store")
	}
}

func sorted(words []string) string {
	return strings.Join(slices.Sorted(slices.Values(words)), " ")
}

func TestVersion(t *testing.T) {
	c := newCLI(t)
	var b build
	if err := json.Unmarshal([]byte(c.ok("version", "--json")), &b); err != nil || b.Version == "" || b.Go == "" {
		t.Errorf("%+v, %v", b, err)
	}
	if out := c.ok("version"); !strings.HasPrefix(out, "agstore ") {
		t.Errorf("%q", out)
	}
}

// The messages as a model takes them: every call with its result behind it.
func TestShowHistory(t *testing.T) {
	c := newCLI(t)
	c.with(`{"type":"RUN_STARTED","threadId":"t","runId":"r1","input":{"threadId":"t","runId":"r1","messages":[{"id":"u1","role":"user","content":"Go.\ud83d"}]}}
{"type":"REASONING_MESSAGE_START","messageId":"th1","role":"reasoning"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"th1","delta":"Hm."}
{"type":"REASONING_MESSAGE_END","messageId":"th1"}
{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"look","parentMessageId":"a1"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}
{"type":"TOOL_CALL_START","toolCallId":"c2","toolCallName":"ask","parentMessageId":"a1"}
{"type":"TOOL_CALL_END","toolCallId":"c2"}
{"type":"TOOL_CALL_RESULT","messageId":"res1","toolCallId":"c1","content":"seen"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r1"}
`).ok("import", "t", "-")
	const head = `[{"id":"u1","role":"user","content":"Go.\ud83d"},{"id":"a1","role":"assistant","toolCalls":[` +
		`{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}`
	for args, want := range map[string]string{
		"show t --history": head + `]},{"id":"res1","role":"tool","content":"seen","toolCallId":"c1"}]` + "\n",
		"show t --history --unanswered none": head + `,{"id":"c2","type":"function","function":{"name":"ask","arguments":"{}"}}]},` +
			`{"id":"res1","role":"tool","content":"seen","toolCallId":"c1"},{"id":"c2~unanswered","role":"tool","content":"none","toolCallId":"c2"}]` + "\n",
		"show t --history --at 1": `[{"id":"u1","role":"user","content":"Go.\ud83d"}]` + "\n",
		"show t --history --at 0": "[]\n",
	} {
		if got := c.ok(strings.Fields(args)...); got != want {
			t.Errorf("%s:\n%swant\n%s", args, got, want)
		}
	}
}
