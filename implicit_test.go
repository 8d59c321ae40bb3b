package agstore_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
)

// branchCases are the rows of the table in docs/branches.md.
func branchCases(t *testing.T) [][]string {
	t.Helper()
	page, err := os.ReadFile("docs/branches.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || len(cells) != 3 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] != "case" && !strings.HasPrefix(cells[0], "---") {
			rows = append(rows, cells)
		}
	}
	return rows
}

// sentMessage is what a word of the table stands for.
func sentMessage(word string) json.RawMessage {
	switch word {
	case "u1m":
		return []byte(`{"id":"u1","role":"user","content":"turn 1","metadata":{"seen":true}}`)
	case "s", "s'":
		return []byte(`{"id":"s","role":"system","content":"be ` + word + `"}`)
	case "x":
		return []byte(`{"id":"x","role":"assistant","content":"Welcome!"}`)
	case "g3":
		return []byte(`{"id":"g3","role":"reasoning","content":"Hm."}`)
	case "t":
		return []byte(`{"id":"t","role":"tool","toolCallId":"c","content":"done"}`)
	case "?":
		return []byte(`{"text":"no id, no role"}`)
	}
	id, edited := strings.CutSuffix(word, "'")
	role, content := "user", "turn "+id[1:]
	if id[0] == 'a' {
		role, content = "assistant", "answer "+id[1:]
	}
	if edited {
		content = "something else"
	}
	return []byte(`{"id":"` + id + `","role":"` + role + `","content":"` + content + `"}`)
}

// Decision 6: where a run becomes a branch by itself, and where it must not.
func TestBranchPoint(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	record(t, s, 2)
	run, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "r3", Messages: []json.RawMessage{message("u3", "turn 3")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Append(ctx, append(say("a3", "answer 3"), []byte(`{"type":"REASONING_MESSAGE_START","messageId":"g3","role":"reasoning"}`), []byte(`{"type":"REASONING_MESSAGE_CONTENT","messageId":"g3","delta":"Hm."}`))...); err != nil {
		t.Fatal(err)
	}
	finish(t, ctx, run)
	rows := branchCases(t)
	if len(rows) != 27 {
		t.Fatalf("the table has %d cases", len(rows))
	}
	for _, row := range rows {
		var sent []json.RawMessage
		for _, word := range strings.Fields(row[1]) {
			sent = append(sent, sentMessage(word))
		}
		at, err := s.BranchPoint(ctx, "t", sent)
		if err != nil {
			t.Fatalf("%s: %v", row[0], err)
		}
		got := "the head"
		if at != nil {
			if got = at.String(); at.IsZero() {
				got = "nothing: it is the first of its path"
			}
		}
		if got != row[2] {
			t.Errorf("%s (%s): the run continues %s, the table says %s", row[0], row[1], got, row[2])
		}
	}
	if at, err := s.BranchPoint(ctx, "none", []json.RawMessage{sentMessage("u1")}); at != nil || err != nil {
		t.Errorf("of no thread: %v, %v", at, err)
	}
}

// While a run is live nobody has gone back: the start is refused, and does not
// run beside it.
func TestNoBranchPointWhileARunIsLive(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	record(t, s, 1)
	run, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "r2", Messages: []json.RawMessage{message("u2", "turn 2")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Append(ctx, say("a2", "half")...); err != nil {
		t.Fatal(err)
	}
	for _, sent := range [][]string{{"u1", "a1", "u2"}, {"u1'"}, {"u1"}} {
		var messages []json.RawMessage
		for _, word := range sent {
			messages = append(messages, sentMessage(word))
		}
		if at, err := s.BranchPoint(ctx, "t", messages); at != nil || err != nil {
			t.Errorf("%v: %v, %v", sent, at, err)
		}
	}
	finish(t, ctx, run)
	if at, err := s.BranchPoint(ctx, "t", []json.RawMessage{sentMessage("u2")}); err != nil || at == nil || *at != (agui.RunKey{ID: "r1", Attempt: 1}) {
		t.Errorf("when it is over: %v, %v", at, err)
	}
}
