package replay

import (
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
)

// HistoryOptions say what History does where a transcript is not what a model
// provider accepts. The zero value leaves out what cannot be sent.
type HistoryOptions struct {
	// Unanswered is put as the result of calls that have none; empty: such
	// calls are left out.
	Unanswered string
	// Reasoning keeps reasoning messages.
	Reasoning bool
	// Activity keeps activity messages.
	Activity bool
}

// History gives the messages of a view as model providers accept them
// (fold-rules R36): every call has exactly one result, directly behind the
// message that makes it; a call without arguments has {}; results without a
// call, activity and reasoning are left out, and so is an assistant message that
// then says nothing. Of several results of one call the latest counts.
func History(view *fold.View, opts HistoryOptions) []agui.Message {
	results := resultsOf(view.Messages)
	var out []agui.Message
	for i, m := range view.Messages {
		switch m.Role {
		case agui.RoleTool:
			continue // behind its call
		case agui.RoleReasoning:
			if opts.Reasoning {
				out = append(out, m)
			}
			continue
		case agui.RoleActivity:
			if opts.Activity {
				out = append(out, m)
			}
			continue
		}
		if len(m.ToolCalls) == 0 {
			m.ToolCalls = nil
			if m.Role != agui.RoleAssistant || says(m.Content) {
				out = append(out, m)
			}
			continue
		}
		out = append(out, answered(m, results[i], opts)...)
	}
	return out
}

// answered is an assistant message with the calls that have a result, and behind
// it the results.
func answered(m agui.Message, results []*agui.Message, opts HistoryOptions) []agui.Message {
	out := make([]agui.Message, 1, 1+len(results))
	calls := make([]agui.ToolCall, 0, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		switch {
		case results[i] != nil:
			out = append(out, *results[i])
		case opts.Unanswered != "":
			out = append(out, agui.Message{
				ID: c.ID + "~unanswered", Role: agui.RoleTool,
				ToolCallID: agui.Some(c.ID), Content: agui.TextOf(opts.Unanswered),
			})
		default:
			continue
		}
		if c.Arguments == "" {
			c.Arguments = "{}"
		}
		calls = append(calls, c)
	}
	if m.ToolCalls = calls; len(calls) == 0 {
		m.ToolCalls = nil
		if !says(m.Content) {
			return nil
		}
	}
	out[0] = m
	return out
}

func says(c agui.Content) bool {
	return c.Text != "" || len(c.Parts) > 0
}

// resultsOf finds, for each message with calls, the result of each of its calls;
// nil where there is none. A call id may be used again later: results behind a
// call, and before the next call of that id, are its.
func resultsOf(messages []agui.Message) map[int][]*agui.Message {
	type place struct{ message, call int }
	latest := make(map[string]place)
	early := make(map[string]*agui.Message) // results that came before any call
	out := make(map[int][]*agui.Message)
	for i := range messages {
		m := &messages[i]
		if m.Role == agui.RoleTool {
			id := m.ToolCallID.V
			if p, ok := latest[id]; ok {
				out[p.message][p.call] = m
			} else {
				early[id] = m
			}
			continue
		}
		if len(m.ToolCalls) == 0 {
			continue
		}
		out[i] = make([]*agui.Message, len(m.ToolCalls))
		for j, c := range m.ToolCalls {
			latest[c.ID] = place{i, j}
			// A snapshot's order may put a result before its call.
			out[i][j] = early[c.ID]
			delete(early, c.ID)
		}
	}
	return out
}
