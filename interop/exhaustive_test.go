package interop

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// The alphabet of two messages, two calls and one state. One call makes the message "b" that is also a text, the other
// goes into "a"; a result is named like a text.
var alphabet = []string{
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
}

const (
	runStarted  = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
	runFinished = `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
)

// TestExhaustive: every sequence of events of the alphabet up to a length, in a run that is started before and finished
// after it. A sequence that the client ends is not made longer: nothing that comes later counts. All that begins alike
// is folded together, by length, so that what ends is known in time.
func TestExhaustive(t *testing.T) {
	needClient(t)
	length := 5
	if testing.Short() {
		length = 4
	}
	c := newComparison(t)
	clients := []*official{startOfficial(t), startOfficial(t)}
	going := []stream{{runStarted}}
	for n := 1; n <= length && len(c.differences) == 0; n++ {
		going = c.longer(clients, going)
		t.Logf("%d sequences of length %d go on", len(going), n)
	}
	c.finish()
}

// longer compares each stream with each event of the alphabet behind it, and returns those that did not end by that.
func (c *comparison) longer(clients []*official, streams []stream) []stream {
	var all sync.WaitGroup
	results := make([][]stream, len(streams))
	for k, client := range clients {
		all.Go(func() {
			for i := k; i < len(streams); i += len(clients) {
				var batch []stream
				for _, event := range alphabet {
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
