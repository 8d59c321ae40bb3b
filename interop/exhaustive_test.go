package interop

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// alphabets are small sets of events that have much to do with each other.
var alphabets = []struct {
	name               string
	short, usual, long int // how long the longest sequences are; see usualStreams
	events             []string
}{
	// One call makes the message "b" that is also a text, the other goes into "a"; a result is named like a text.
	{"two messages, two calls, a state", 4, 5, 5, []string{
		`{"type":"TEXT_MESSAGE_START","messageId":"a"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"x"}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"a","metadata":{"end":1}}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"b","role":"user","name":"n"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"y","metadata":{"k":1}}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"b"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"b","toolCallName":"f"}`,
		`{"type":"TOOL_CALL_ARGS","toolCallId":"b","delta":"{"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"b","metadata":{"end":1}}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"a","toolCallId":"b","content":"r"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"g","parentMessageId":"a"}`,
		`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"1"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"c"}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"d","toolCallId":"c","content":[{"type":"text","text":"s"}]}`,
		`{"type":"STATE_SNAPSHOT","snapshot":{"l":[1]}}`,
		`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/l/-","value":2}]}`,
	}},
	{"chunks of an agent and a subagent", 2, 3, 4, []string{
		`{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"x"}`,
		`{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","role":"user","metadata":{"k":1}}`,
		`{"type":"TEXT_MESSAGE_CHUNK","messageId":"b","delta":"y","subagentRunId":"s"}`,
		`{"type":"TEXT_MESSAGE_CHUNK","delta":"z"}`,
		`{"type":"REASONING_MESSAGE_CHUNK","messageId":"a","delta":"q","subagentRunId":"s"}`,
		`{"type":"REASONING_MESSAGE_CHUNK"}`,
		`{"type":"TOOL_CALL_CHUNK","toolCallId":"a","toolCallName":"f","delta":"1"}`,
		`{"type":"TOOL_CALL_CHUNK","toolCallId":"b","toolCallName":"f","parentMessageId":"a","subagentRunId":"s","rawEvent":1}`,
		`{"type":"TOOL_CALL_CHUNK","delta":"2","subagentRunId":"s"}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"a","toolCallId":"b","content":"r"}`,
		`{"type":"CUSTOM","name":"n","value":1,"subagentRunId":"s"}`,
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"b","role":"assistant","subagentRunId":"s"}]}`,
	}},
	{"snapshots, activities, reasoning", 2, 3, 4, []string{
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","content":"h"},{"id":"b","role":"reasoning","content":"w"},{"id":"a","role":"user","content":"t"}]}`,
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"b","role":"activity","activityType":"P","content":{}},{"id":"a","role":"assistant","toolCalls":[{"id":"b","type":"function","function":{"name":"f","arguments":""}}]}]}`,
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"user","content":[{"type":"text","text":"p"}]}],"metadata":{"@ag-ui/client":{"authoritativeActivityTypes":["P"]}}}`,
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"P","content":{"n":1}}`,
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"b","activityType":"Q","content":{"n":2},"replace":false,"metadata":{"k":1}}`,
		`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"Q","patch":[{"op":"remove","path":"/n"}],"metadata":{"m":1}}`,
		`{"type":"ACTIVITY_DELTA","messageId":"b","activityType":"P","patch":[{"op":"replace","path":"","value":[]}]}`,
		`{"type":"REASONING_MESSAGE_START","messageId":"b","role":"reasoning"}`,
		`{"type":"REASONING_MESSAGE_CONTENT","messageId":"b","delta":"r"}`,
		`{"type":"REASONING_MESSAGE_END","messageId":"b","metadata":{"e":1}}`,
		`{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"b","encryptedValue":"E"}`,
		`{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool-call","entityId":"b","encryptedValue":"F"}`,
		`{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"c","metadata":{"t":1}}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"b","toolCallId":"b","content":"r"}`,
	}},
}

const (
	runStarted  = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
	runFinished = `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
)

// TestExhaustive: every sequence of events of an alphabet up to a length, in a run that is started before and finished
// after it. A sequence that the client ends is not made longer: nothing that comes later counts.
func TestExhaustive(t *testing.T) {
	needClient(t)
	clients := []*official{startOfficial(t), startOfficial(t)}
	for _, a := range alphabets {
		t.Run(a.name, func(t *testing.T) {
			length := a.usual
			switch n := streamsWanted(t); {
			case n < usualStreams:
				length = a.short
			case n > usualStreams:
				length = a.long
			}
			c := newComparison(t)
			going := []stream{{runStarted}}
			for n := 1; n <= length && len(c.differences) == 0; n++ {
				going = c.longer(clients, going, a.events)
				t.Logf("%d sequences of length %d do not end", len(going), n)
			}
			c.finish()
		})
	}
}

// longer compares each stream with each event behind it, and returns those that did not end by that.
func (c *comparison) longer(clients []*official, streams []stream, events []string) []stream {
	var all sync.WaitGroup
	results := make([][]stream, len(streams))
	for k, client := range clients {
		all.Go(func() {
			for i := k; i < len(streams); i += len(clients) {
				var batch []stream
				for _, event := range events {
					batch = append(batch, append(slices.Clone(streams[i]), event, runFinished))
				}
				answers, err := c.compare(client, batch)
				if err != nil {
					c.t.Errorf("fold.mjs: %v", err)
					return
				}
				for j, a := range answers {
					if s := batch[j]; len(a) == len(s) || !strings.HasSuffix(a[len(s)-2], "ERROR") {
						results[i] = append(results[i], s[:len(s)-1])
					}
				}
			}
		})
	}
	all.Wait()
	return slices.Concat(results...)
}
