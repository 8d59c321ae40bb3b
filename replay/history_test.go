package replay_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/replay"
)

func say(role agui.Role, id, text string, calls ...agui.ToolCall) agui.Message {
	m := agui.Message{ID: id, Role: role, ToolCalls: calls}
	if text != "" {
		m.Content = agui.TextOf(text)
	}
	return m
}

func call(id, args string) agui.ToolCall { return agui.ToolCall{ID: id, Name: "f", Arguments: args} }

func result(id, call, text string) agui.Message {
	m := say(agui.RoleTool, id, text)
	m.ToolCallID = agui.Some(call)
	return m
}

// short is a history in a line: role:id(call=arguments …)>call.
func short(messages []agui.Message) string {
	var out []string
	for _, m := range messages {
		s := string(m.Role[0]) + ":" + m.ID
		for _, c := range m.ToolCalls {
			s += "(" + c.ID + "=" + c.Arguments + ")"
		}
		if m.ToolCallID.Set {
			s += ">" + m.ToolCallID.V
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestHistory(t *testing.T) {
	for name, c := range map[string]struct {
		messages []agui.Message
		opts     replay.HistoryOptions
		want     string
	}{
		"a result moves to its call": {
			messages: []agui.Message{say(agui.RoleUser, "u", "hi"), say(agui.RoleAssistant, "a", "", call("c", "")), say(agui.RoleAssistant, "b", "text"), result("t", "c", "ok")},
			want:     "u:u a:a(c={}) t:t>c a:b",
		},
		"parallel calls": {
			messages: []agui.Message{say(agui.RoleAssistant, "a", "x", call("c1", "1"), call("c2", "2")), result("t2", "c2", "ok"), result("t1", "c1", "ok")},
			want:     "a:a(c1=1)(c2=2) t:t1>c1 t:t2>c2",
		},
		"an unanswered call is left out": {
			messages: []agui.Message{say(agui.RoleAssistant, "a", "x", call("c1", "1"), call("c2", "2")), result("t1", "c1", "ok"), say(agui.RoleAssistant, "b", "", call("c3", "3"))},
			want:     "a:a(c1=1) t:t1>c1",
		},
		"or answered": {
			messages: []agui.Message{say(agui.RoleAssistant, "b", "", call("c3", "3"))},
			opts:     replay.HistoryOptions{Unanswered: "no answer"},
			want:     "a:b(c3=3) t:c3~unanswered>c3",
		},
		"orphans, activity and reasoning are left out": {
			messages: []agui.Message{result("t", "none", "ok"), say(agui.RoleReasoning, "r", "hm"), say(agui.RoleActivity, "y", ""), say(agui.RoleUser, "u", "")},
			want:     "u:u",
		},
		"unless asked for": {
			messages: []agui.Message{say(agui.RoleReasoning, "r", "hm"), say(agui.RoleActivity, "y", "")},
			opts:     replay.HistoryOptions{Reasoning: true, Activity: true},
			want:     "r:r a:y",
		},
		"a call id that is used again": {
			messages: []agui.Message{say(agui.RoleAssistant, "a", "", call("c", "1")), say(agui.RoleAssistant, "b", "", call("c", "2")), result("t", "c", "ok")},
			want:     "a:b(c=2) t:t>c",
		},
		"the latest of several results": {
			messages: []agui.Message{say(agui.RoleAssistant, "a", "", call("c", "1")), result("t1", "c", "no"), result("t2", "c", "yes")},
			want:     "a:a(c=1) t:t2>c",
		},
		"a result before its call": {
			messages: []agui.Message{result("t", "c", "ok"), say(agui.RoleAssistant, "a", "", call("c", "1"))},
			want:     "a:a(c=1) t:t>c",
		},
		"an assistant that says nothing": {
			messages: []agui.Message{say(agui.RoleAssistant, "a", ""), say(agui.RoleUser, "u", "x")},
			want:     "u:u",
		},
	} {
		t.Run(name, func(t *testing.T) {
			view := &fold.View{Messages: c.messages}
			if got := short(replay.History(view, c.opts)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Whatever the transcript, the history is one that a provider accepts, the view
// stays as it was, and what users and agents said is in it.
func TestHistoryIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := []string{"c1", "c2", "c3"}
		var messages []agui.Message
		said := 0
		for i := range rapid.IntRange(0, 12).Draw(t, "messages") {
			id := fmt.Sprint("m", i)
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				messages = append(messages, say(agui.RoleUser, id, "text"))
				said++
			case 1:
				var calls []agui.ToolCall
				for range rapid.IntRange(0, 3).Draw(t, "calls") {
					calls = append(calls, call(rapid.SampledFrom(ids).Draw(t, "call"), ""))
				}
				text := rapid.SampledFrom([]string{"", "text"}).Draw(t, "text")
				messages = append(messages, say(agui.RoleAssistant, id, text, calls...))
				said += len(text) / 4
			default:
				messages = append(messages, result(id, rapid.SampledFrom(ids).Draw(t, "answers"), "ok"))
			}
		}
		before := short(messages)
		opts := replay.HistoryOptions{Unanswered: rapid.SampledFrom([]string{"", "none"}).Draw(t, "unanswered")}
		history := replay.History(&fold.View{Messages: messages}, opts)
		if after := short(messages); after != before {
			t.Fatalf("the view changed from %s to %s", before, after)
		}
		for i := 0; i < len(history); {
			m := history[i]
			i++
			if m.Role == agui.RoleTool {
				t.Fatalf("a result without a call: %s", short(history))
			}
			if m.Content.Text != "" {
				said--
			}
			for _, c := range m.ToolCalls {
				if c.Arguments == "" {
					t.Fatalf("a call without arguments: %s", short(history))
				}
				if i >= len(history) || history[i].ToolCallID.V != c.ID {
					t.Fatalf("call %s has no result behind it: %s", c.ID, short(history))
				}
				i++
			}
		}
		if said != 0 {
			t.Fatalf("%d texts are missing from %s; the transcript is %s", said, short(history), before)
		}
	})
}
