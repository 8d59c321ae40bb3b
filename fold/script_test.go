package fold_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
)

// A script is a stream in short: a line an event, its arguments parted by
// spaces (_ is a space inside one). Lines that begin with { are events as they
// are.
//
//	run r1 [INPUT]             RUN_STARTED, INPUT the members of its input
//	end r1 [OUTCOME]           RUN_FINISHED, OUTCOME its outcome
//	fail [CODE]                RUN_ERROR
//	text a1 | say a1 WORDS | stop a1       a text message
//	think t1 | muse t1 WORDS | done t1     a reasoning message
//	call c1 NAME [PARENT] | args c1 TEXT | called c1 | result t1 c1 TEXT
//	snapshot MESSAGE…          MESSAGES_SNAPSHOT; MESSAGE is JSON, or user:u1:Hi
func script(lines string) [][]byte {
	var out [][]byte
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, []byte(scriptEvent(line)))
		}
	}
	return out
}

func scriptEvent(line string) string {
	if line[0] == '{' {
		return line
	}
	words := strings.Fields(line)
	arg := func(i int) string {
		if i >= len(words) {
			return ""
		}
		return strings.ReplaceAll(words[i], "_", " ")
	}
	quoted := func(i int) string { return string(agui.Quote(arg(i))) }
	event := func(kind string, members ...string) string {
		out := `{"type":"` + kind + `"`
		for i := 0; i+1 < len(members); i += 2 {
			out += `,"` + members[i] + `":` + members[i+1]
		}
		return out + "}"
	}
	rest := func(i int) string { return strings.Join(words[min(i, len(words)):], " ") }
	ids := []string{"threadId", `"t"`, "runId", quoted(1)}
	switch words[0] {
	case "run":
		if len(words) > 2 {
			ids = append(ids, "input", "{"+rest(2)+"}")
		}
		return event("RUN_STARTED", ids...)
	case "end":
		if len(words) > 2 {
			ids = append(ids, "outcome", rest(2))
		}
		return event("RUN_FINISHED", ids...)
	case "fail":
		return event("RUN_ERROR", "message", `"it failed"`, "code", string(agui.Quote(rest(1))))
	case "text":
		return event("TEXT_MESSAGE_START", "messageId", quoted(1))
	case "say":
		return event("TEXT_MESSAGE_CONTENT", "messageId", quoted(1), "delta", quoted(2))
	case "stop":
		return event("TEXT_MESSAGE_END", "messageId", quoted(1))
	case "think":
		return event("REASONING_MESSAGE_START", "messageId", quoted(1), "role", `"reasoning"`)
	case "muse":
		return event("REASONING_MESSAGE_CONTENT", "messageId", quoted(1), "delta", quoted(2))
	case "done":
		return event("REASONING_MESSAGE_END", "messageId", quoted(1))
	case "call":
		members := []string{"toolCallId", quoted(1), "toolCallName", quoted(2)}
		if len(words) > 3 {
			members = append(members, "parentMessageId", quoted(3))
		}
		return event("TOOL_CALL_START", members...)
	case "args":
		return event("TOOL_CALL_ARGS", "toolCallId", quoted(1), "delta", quoted(2))
	case "called":
		return event("TOOL_CALL_END", "toolCallId", quoted(1))
	case "result":
		return event("TOOL_CALL_RESULT", "messageId", quoted(1), "toolCallId", quoted(2), "content", quoted(3))
	case "snapshot":
		var list []string
		for _, word := range words[1:] {
			list = append(list, scriptMessage(word))
		}
		return event("MESSAGES_SNAPSHOT", "messages", "["+strings.Join(list, ",")+"]")
	}
	panic("no such line of a script: " + line)
}

func scriptMessage(word string) string {
	if word[0] == '{' {
		return word
	}
	parts := strings.SplitN(strings.ReplaceAll(word, "_", " "), ":", 3)
	return fmt.Sprintf(`{"role":%q,"id":%q,"content":%q}`, parts[0], parts[1], parts[2])
}

// view folds a script.
func view(lines string) *fold.View {
	return fold.Stream(slices.Values(script(lines)), fold.Options{}, 0)
}

// transcriptOf is a transcript in short: role:id:content, calls as
// name(arguments) behind it.
func transcriptOf(v *fold.View) []string {
	out := []string{}
	for i := range v.Messages {
		m := &v.Messages[i]
		line := fmt.Sprintf("%s:%s", m.Role, m.ID)
		if c := m.Content.JSON(); c.Present() {
			text, ok := c.Text()
			if !ok {
				text = c.String()
			}
			line += ":" + text
		}
		for _, c := range m.ToolCalls {
			line += fmt.Sprintf(" %s=%s(%s)", c.ID, c.Name, c.Arguments)
		}
		out = append(out, line)
	}
	return out
}

func rulesOf(v *fold.View) []string {
	out := []string{}
	for _, d := range v.Diagnostics {
		out = append(out, fmt.Sprintf("%d:%s", d.Seq, d.Rule))
	}
	return out
}

func wantTranscript(t *testing.T, v *fold.View, want ...string) {
	t.Helper()
	if got := transcriptOf(v); !slices.Equal(got, want) {
		t.Errorf("transcript:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func wantRules(t *testing.T, v *fold.View, want ...string) {
	t.Helper()
	if got := rulesOf(v); !slices.Equal(got, want) {
		t.Errorf("diagnostics %q, want %q", got, want)
	}
}
