package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFold(t *testing.T) {
	c := newCLI(t)
	stream := turn("r1", "", "one") + turn("r2", "", "two") + turn("r3", `,"parentRunId":"r1"`, "three")
	file := c.file("stream.jsonl", stream)
	fold := func(args ...string) demoView {
		t.Helper()
		var v demoView
		if err := json.Unmarshal([]byte(c.ok(append([]string{"fold", file, "--json"}, args...)...)), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for args, want := range map[string]string{
		"":                                  "m-r1 m-r3", // the lineage of the last run
		"--upto 10":                         "m-r1 m-r2",
		"--upto 1":                          "",
		"--upto 0":                          "",
		"--profile reference":               "m-r1 m-r2 m-r3", // which knows no lineage
		"--profile reference --upto 10":     "m-r1 m-r2",
		"--profile durable --verify strict": "m-r1 m-r3",
		"--verify off":                      "m-r1 m-r3",
		"--compact":                         "m-r1 m-r3",
		"--compact --profile reference":     "m-r1 m-r2 m-r3",
		"--compact --upto 10":               "m-r1 m-r2",
	} {
		if got := ids(fold(strings.Fields(args)...).Messages); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	frames := "data: " + strings.ReplaceAll(strings.TrimSpace(stream), "\n", "\n\ndata: ") + "\n\n"
	if got, want := c.with(frames).ok("fold", "-"), c.ok("fold", file); got != want {
		t.Errorf("as SSE:\n%s\nas lines:\n%s", got, want)
	}
	if _, err := os.Stat(c.data); !os.IsNotExist(err) {
		t.Error("a store was made")
	}
	c.fails(exitNotFound, "", "fold", "no-such-file")
	c.fails(exitUsage, "--profile", "fold", file, "--profile", "other")
	c.fails(exitUsage, "--verify", "fold", file, "--verify", "perhaps")
}

// The same events are the same stream, however its lines end and whatever stands
// around them.
func TestFoldOfAnyTransport(t *testing.T) {
	c := newCLI(t)
	stream := turn("r1", "", "one") + turn("r2", "", "two")
	frames := "data: " + strings.ReplaceAll(strings.TrimSpace(stream), "\n", "\n\nid: 5\nevent: message\ndata: ") + "\n\n"
	for _, args := range [][]string{{"--json"}, {"--per-event"}, {"--profile", "reference", "--json"}, {"--compact"}, {"--upto", "3"}, {"--verify", "strict"}} {
		args := append([]string{"fold", "-"}, args...)
		want := c.with(stream).ok(args...)
		for name, input := range map[string]string{
			"CRLF": strings.ReplaceAll(stream, "\n", "\r\n"), "a byte order mark": "\ufeff" + stream, "blank lines": "\n \n" + strings.ReplaceAll(stream, "\n", "\n\n\t\n"),
			"no end of line": strings.TrimSpace(stream), "SSE": frames, "SSE, CRLF": strings.ReplaceAll(frames, "\n", "\r\n"),
			"SSE, a byte order mark and a comment": "\ufeff: hello\n\n" + frames, "SSE without its last blank line": strings.TrimSpace(frames),
		} {
			if got := c.with(input).ok(args...); got != want {
				t.Errorf("%v of %s:\n%s\nwant\n%s", args, name, got, want)
			}
		}
	}
}

// --per-event has a line for each event, and --upto says for how many: the same
// digests that the stream so far has alone.
func TestFoldPerEvent(t *testing.T) {
	c := newCLI(t)
	stream := turn("r1", "", "one") + turn("r2", "", "two") + turn("r3", `,"parentRunId":"r1"`, "three") + "noise\n"
	file := c.file("stream.jsonl", stream)
	n := strings.Count(stream, "\n")
	for _, profile := range []string{"durable", "reference"} {
		all := strings.SplitAfter(c.ok("fold", file, "--per-event", "--profile", profile), "\n")
		if len(all) != n+1 || all[n] != "" {
			t.Fatalf("%s: %d lines for %d events", profile, len(all)-1, n)
		}
		if got := c.ok("fold", file, "--per-event", "--profile", profile, "--upto", "7"); got != strings.Join(all[:7], "") {
			t.Errorf("%s: the first 7 are\n%s", profile, got)
		}
		if got := c.ok("fold", file, "--per-event", "--profile", profile, "--upto", "0"); got != "" {
			t.Errorf("%s: the first none are\n%s", profile, got)
		}
	}
	if out := c.ok("fold", file, "--per-event", "--profile", "reference"); !strings.HasSuffix(out, " ERROR transport\n") {
		t.Errorf("the last line is not of an error:\n%s", out)
	}
}

func TestFoldMisuse(t *testing.T) {
	c := newCLI(t)
	file := c.file("stream.jsonl", turn("r1", "", "one"))
	for _, args := range [][]string{{}, {file, file}, {file, "--upto", "-1"}, {file, "--upto", "many"}, {file, "--verify", ""}, {file, "--profile", ""}, {file, "--no-such-flag"}} {
		c.fails(exitUsage, "", append([]string{"fold"}, args...)...)
	}
	c.fails(exitNotFound, "no-such-file", "fold", "no-such-file", "--verify", "strict")
	c.fails(exitFailed, "directory", "fold", t.TempDir())
	// strict looks at what --upto takes, and no further.
	bad := c.file("bad.jsonl", turn("r1", "", "one")+"noise\n")
	c.ok("fold", bad, "--verify", "strict", "--upto", "5")
	c.fails(exitRefused, "line 6: ", "fold", bad, "--verify", "strict", "--upto", "6")
}

// Whatever a stream holds, fold is done; strict is not.
func TestFoldOfAnything(t *testing.T) {
	c := newCLI(t)
	for name, input := range map[string]string{
		"nothing": "", "noise": "no event\n", "a list": "[]\n", "binary": "\x00\xff\xfe\n", "cut": turn("r1", "", "x")[:60],
	} {
		for _, profile := range []string{"durable", "reference"} {
			if out := c.with(input).ok("fold", "-", "--profile", profile, "--json"); !json.Valid([]byte(out)) {
				t.Errorf("%s, %s: %q", name, profile, out)
			}
		}
	}
	good := turn("r1", "", "one")
	var v struct{ Diagnostics []struct{ Rule string } }
	if err := json.Unmarshal([]byte(c.with(good+"noise\n").ok("fold", "-")), &v); err != nil || len(v.Diagnostics) != 1 || v.Diagnostics[0].Rule != "invalid_line" {
		t.Errorf("the diagnostics are %+v, %v", v, err)
	}
	c.with(good+"\nnoise\n").fails(exitRefused, "line 7: ", "fold", "-", "--verify", "strict")
	c.with(good+"\n"+`{"type":"TEXT_MESSAGE_END","messageId":"never"}`).fails(exitRefused, "line 7: ", "fold", "-", "--verify", "strict")
	c.in = &endless{head: good, left: 40 << 20}
	if out := c.ok("fold", "-"); !strings.Contains(out, "invalid_line") {
		t.Errorf("an endless line: %s", out)
	}
}

// --verify off leaves out the check of the order of events alone.
func TestFoldWithoutVerification(t *testing.T) {
	c := newCLI(t)
	order := turn("r1", "", "one") + `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m-r1","delta":" more"}` + "\n"
	text := func(input string, args ...string) string {
		t.Helper()
		return c.with(input).ok(append([]string{"fold", "-", "--profile", "reference"}, args...)...)
	}
	if out := text(order); strings.Contains(out, "one more") || !strings.Contains(out, `"stage":"verify"`) {
		t.Errorf("by default: %s", out)
	}
	if out := text(order, "--verify", "off"); !strings.Contains(out, "one more") || !strings.Contains(out, `"error":null`) {
		t.Errorf("off: %s", out)
	}
	if out := text(order+"noise\n", "--verify", "off"); !strings.Contains(out, `"stage":"transport"`) {
		t.Errorf("off, and noise: %s", out)
	}
	c.with(order).fails(exitRefused, "line 6: ", "fold", "-", "--verify", "strict")
	c.with(order).fails(exitRefused, "V-2", "fold", "-", "--verify", "strict", "--compact")
}

// A fault says what would have been right, in words and, in the profile
// reference, in members.
func TestFoldSaysWhatWasExpected(t *testing.T) {
	c := newCLI(t)
	stream := turn("r1", "", "one") + "\n" + `{"type":"RUN_STARTED","threadId":"t","runId":"r2"}` + "\n" + `{"type":"TOOL_CALL_END","toolCallId":"c"}` + "\n"
	c.with(stream).fails(exitRefused, `line 8: protocol violation: TOOL_CALL_END at 7 (V-6): call "c": it is not open; expected TOOL_CALL_START of "c" before TOOL_CALL_END`,
		"fold", "-", "--verify", "strict")
	out := memberOf(t, c.with(stream).ok("fold", "-", "--profile", "reference", "--json"), "error")
	want := `{"expected":"TOOL_CALL_START of \"c\" before TOOL_CALL_END","id":"c","kind":"call","reason":"it is not open","rule":"V-6","seq":7,"type":"TOOL_CALL_END"}`
	if got := memberOf(t, out, "violation"); got != want || memberOf(t, out, "at") != "7" || memberOf(t, out, "stage") != `"verify"` {
		t.Errorf("the error is %s", out)
	}
	// --compact leaves the numbers of what was given.
	c.with(stream).fails(exitRefused, "line 8: ", "fold", "-", "--verify", "strict", "--compact")
}

// The profile reference prints what the oracle prints.
func TestFoldReference(t *testing.T) {
	c := newCLI(t)
	dir := filepath.Join("..", "..", "fold", "testdata", "oracle")
	for _, name := range []string{"story-approval", "lifecycle-crash-and-restart-fatal", "unicode-surrogates-split"} {
		want, err := os.ReadFile(filepath.Join(dir, name+".expect.json"))
		if err != nil {
			t.Fatal(err)
		}
		got := c.ok("fold", filepath.Join(dir, name+".jsonl"), "--profile", "reference", "--json")
		for _, member := range []string{"messages", "state", "pendingInterrupts", "appliedEvents"} {
			if a, b := memberOf(t, got, member), memberOf(t, string(want), member); a != b {
				t.Errorf("%s: %s is\n%s\nwant\n%s", name, member, a, b)
			}
		}
		prefixes, err := os.ReadFile(filepath.Join(dir, name+".prefix.txt"))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ok("fold", filepath.Join(dir, name+".jsonl"), "--profile", "reference", "--per-event"); got != string(prefixes) {
			t.Errorf("%s: the digests are\n%s", name, got)
		}
	}
}

func memberOf(t *testing.T, object, name string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		t.Fatal(err)
	}
	return string(members[name])
}
