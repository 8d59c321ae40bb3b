package fold_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore/fold"
)

// snapshotOf is a MESSAGES_SNAPSHOT of messages, given as JSON.
func snapshotOf(messages ...string) string {
	return `{"type":"MESSAGES_SNAPSHOT","messages":[` + strings.Join(messages, ",") + `]}`
}

func assistant(id string, calls ...string) string {
	for i, c := range calls {
		calls[i] = fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f","arguments":""}}`, c)
	}
	return fmt.Sprintf(`{"id":%q,"role":"assistant","toolCalls":[%s]}`, id, strings.Join(calls, ","))
}

// What is there before many short snapshots come, and stays.
var staying = map[string]func(n int) []string{
	"open messages": func(n int) []string { return times(n, `{"type":"TEXT_MESSAGE_START","messageId":"s%d"}`) },
	"open messages and what is closed between them": func(n int) []string {
		return times(n, `{"type":"TEXT_MESSAGE_START","messageId":"s%[1]d"}`,
			`{"type":"TEXT_MESSAGE_START","messageId":"c%[1]d"}`, `{"type":"TEXT_MESSAGE_END","messageId":"c%[1]d"}`)
	},
	"reasoning": func(n int) []string {
		return times(n, `{"type":"REASONING_MESSAGE_START","messageId":"s%[1]d","role":"reasoning"}`, `{"type":"REASONING_MESSAGE_END","messageId":"s%[1]d"}`)
	},
	"activities of one type": func(n int) []string {
		return times(n, `{"type":"ACTIVITY_SNAPSHOT","messageId":"s%d","activityType":"other","content":{}}`)
	},
	"activities of many types": func(n int) []string {
		return times(n, `{"type":"ACTIVITY_SNAPSHOT","messageId":"s%[1]d","activityType":"other%[1]d","content":{}}`)
	},
	"messages with open calls": func(n int) []string {
		return times(n, `{"type":"TOOL_CALL_START","toolCallId":"s%[1]d","toolCallName":"f"}`)
	},
	"messages with an open call and closed ones": func(n int) []string {
		return times(n, `{"type":"TOOL_CALL_START","toolCallId":"s%[1]d","toolCallName":"f","parentMessageId":"p%[1]d"}`,
			`{"type":"TOOL_CALL_START","toolCallId":"e%[1]d","toolCallName":"f","parentMessageId":"p%[1]d"}`, `{"type":"TOOL_CALL_END","toolCallId":"e%[1]d"}`)
	},
	"a message with open calls": func(n int) []string {
		return times(n, `{"type":"TOOL_CALL_START","toolCallId":"s%d","toolCallName":"f","parentMessageId":"x"}`)
	},
	"messages that took one id": func(n int) []string {
		return slices.Concat([]string{`{"type":"TEXT_MESSAGE_START","messageId":"k"}`},
			times(n, `{"type":"TEXT_MESSAGE_START","messageId":"k~%d"}`))
	},
}

// Snapshots that are short, and what may come between them.
var short = map[string]func(n int) []string{
	"empty snapshots": func(n int) []string { return times(n, snapshotOf()) },
	"snapshots of activities": func(n int) []string {
		return times(n, `{"type":"MESSAGES_SNAPSHOT","messages":[],"metadata":{"@ag-ui/client":{"authoritativeActivityTypes":["mine","a"]}}}`)
	},
	"snapshots of one message": func(n int) []string { return times(n, snapshotOf(assistant("x"))) },
	"snapshots of two that change places": func(n int) []string {
		return times(n/2, snapshotOf(assistant("x"), assistant("y")), snapshotOf(assistant("y"), assistant("x")))
	},
	"snapshots that move what stays": func(n int) []string {
		return times(n/2, snapshotOf(`{"id":"s2","role":"assistant","content":"x"}`, `{"id":"s1","role":"assistant","content":"x"}`),
			snapshotOf(`{"id":"s1","role":"assistant","content":"x"}`, `{"id":"s2","role":"assistant","content":"x"}`))
	},
	"snapshots of every message in turn": func(n int) []string {
		return times(n, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"s%[1]d","role":"assistant","content":"x"},{"id":"x","role":"user","content":"x"}]}`)
	},
	"snapshots of every call in turn": func(n int) []string {
		return times(n, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"x","role":"assistant","toolCalls":[{"id":"s%[1]d","type":"function","function":{"name":"f","arguments":""}}]}]}`)
	},
	"messages, calls and results, and snapshots without them": func(n int) []string {
		return times(n, `{"type":"TOOL_CALL_START","toolCallId":"k","toolCallName":"f"}`, `{"type":"TOOL_CALL_END","toolCallId":"k"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"r%d","toolCallId":"k","content":"1"}`, snapshotOf())
	},
	"results of what is open, and snapshots without them": func(n int) []string {
		return times(n, `{"type":"TOOL_CALL_RESULT","messageId":"r%[1]d","toolCallId":"s%[1]d","content":"1"}`, snapshotOf())
	},
	"messages that are closed and opened, and snapshots": func(n int) []string {
		return times(n, `{"type":"TEXT_MESSAGE_END","messageId":"s%[1]d"}`, `{"type":"TEXT_MESSAGE_START","messageId":"s%[1]d"}`, snapshotOf())
	},
	"calls that are closed, and snapshots": func(n int) []string {
		return times(n, `{"type":"TOOL_CALL_END","toolCallId":"s%[1]d"}`, snapshotOf())
	},
}

// often are the combinations that short test runs try: everything with these.
var often = []string{"open messages", "messages with open calls", "empty snapshots", "snapshots of one message"}

// Short snapshots cost what they are long, however much there is that stays
// though they do not carry it; views on the way cost what they show.
func TestHostileSnapshots(t *testing.T) {
	for _, profile := range bothProfiles {
		for before, staying := range staying {
			for then, short := range short {
				if os.Getenv("AGSTORE_LONG") == "" && !slices.Contains(often, before) && !slices.Contains(often, then) {
					continue
				}
				t.Run(profile.String()+"/"+before+"/"+then, func(t *testing.T) {
					linear(t, func(n int) func() {
						lines := slices.Concat([]string{started(0)}, staying(n), short(n))
						records := recordsOf(bytesOf(lines), profile)
						return func() {
							f := fold.New(fold.Options{Profile: profile})
							for i, r := range records {
								f.Apply(r)
								if i%(len(lines)/4) == 0 {
									f.View()
								}
							}
						}
					})
				})
			}
		}
	}
}

func bytesOf(lines []string) [][]byte {
	out := make([][]byte, len(lines))
	for i, line := range lines {
		out[i] = []byte(line)
	}
	return out
}
