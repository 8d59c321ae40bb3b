package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A runInput is what an agent is sent, as far as these tests look at it.
type runInput struct {
	ThreadID string           `json:"threadId"`
	RunID    string           `json:"runId"`
	Messages []map[string]any `json:"messages"`
	State    any              `json:"state"`
}

// A step is one thing a scripted agent does: it sends an event, or waits for a gate to open.
type step struct {
	event map[string]any
	gate  <-chan struct{}
}

// An agent is an AG-UI agent that follows a script.
type agent struct {
	url    string
	inputs chan runInput // what it was sent, run by run; room for every run of a test
}

// startAgent starts an agent that answers each run with script(input). A run that is held at a gate ends when its
// caller goes away.
func startAgent(t *testing.T, script func(runInput) []step) *agent {
	t.Helper()
	a := &agent{inputs: make(chan runInput, 16)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in runInput
		body, err := io.ReadAll(r.Body) // to its end, or the server would not notice that the caller goes away
		if err == nil {
			err = json.Unmarshal(body, &in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.inputs <- in
		w.Header().Set("Content-Type", "text/event-stream")
		for _, s := range script(in) {
			if s.gate != nil {
				select {
				case <-s.gate:
				case <-r.Context().Done():
					return
				}
				continue
			}
			line, err := json.Marshal(s.event)
			if err != nil {
				panic(err) // the script holds plain values only
			}
			fmt.Fprintf(w, "data: %s\n\n", line)
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// send makes steps of events.
func send(events ...map[string]any) []step {
	steps := make([]step, len(events))
	for i, e := range events {
		steps[i].event = e
	}
	return steps
}

// hold makes a gate of a channel: the script goes on when it is closed.
func hold(gate <-chan struct{}) []step { return []step{{gate: gate}} }

type event = map[string]any

// opening is how every scripted run begins: state, reasoning, a tool call with its result.
func opening(in runInput) []step {
	call, thought := "call-"+in.RunID, "thought-"+in.RunID
	return send(
		event{"type": "RUN_STARTED", "threadId": in.ThreadID, "runId": in.RunID},
		event{"type": "STATE_SNAPSHOT", "snapshot": event{"run": in.RunID, "turns": len(in.Messages), "plan": []string{"ask", "answer"}}},
		event{"type": "REASONING_START", "messageId": thought},
		event{"type": "REASONING_MESSAGE_START", "messageId": thought, "role": "reasoning"},
		event{"type": "REASONING_MESSAGE_CONTENT", "messageId": thought, "delta": "The weather, then."},
		event{"type": "REASONING_MESSAGE_END", "messageId": thought},
		event{"type": "REASONING_END", "messageId": thought},
		event{"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "weather"},
		event{"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": `{"city":`},
		event{"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": `"Köln"}`},
		event{"type": "TOOL_CALL_END", "toolCallId": call},
		event{"type": "TOOL_CALL_RESULT", "messageId": "result-" + in.RunID, "toolCallId": call, "content": "rain"},
		event{"type": "TEXT_MESSAGE_START", "messageId": "text-" + in.RunID, "role": "assistant"},
		event{"type": "TEXT_MESSAGE_CONTENT", "messageId": "text-" + in.RunID, "delta": "It rains"},
	)
}

// closing is how every scripted run ends.
func closing(in runInput) []step {
	return send(
		event{"type": "TEXT_MESSAGE_CONTENT", "messageId": "text-" + in.RunID, "delta": " in Köln 🌧."},
		event{"type": "TEXT_MESSAGE_END", "messageId": "text-" + in.RunID},
		event{"type": "STATE_DELTA", "delta": []event{{"op": "add", "path": "/weather", "value": "rain"}, {"op": "remove", "path": "/plan/0"}}},
		event{"type": "RUN_FINISHED", "threadId": in.ThreadID, "runId": in.RunID},
	)
}
