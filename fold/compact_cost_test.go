package fold_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/cputime"
)

// linear fails if four times as much costs more than about four times as much.
func linear(t *testing.T, work func(n int) func()) {
	t.Helper()
	small, large := work(1000), work(4000)
	a, b := cputime.Of(small), cputime.Of(large)
	// A machine with other things to do is slower now and then, never faster.
	for range 9 {
		if b <= 8*a+20*time.Millisecond {
			return
		}
		a, b = min(a, cputime.Of(small)), min(b, cputime.Of(large))
	}
	t.Errorf("%v, and %v for four times as much", a, b)
}

// bounded fails if work on a stream takes more processor time than any stream of
// its length may: every event may copy what the limit of a patch allows.
func bounded(t testing.TB, stream []byte, work func()) {
	t.Helper()
	events := 1 + bytes.Count(stream, []byte("\n"))
	most := time.Second + time.Duration(events)*100*time.Millisecond + time.Duration(len(stream))*20*time.Microsecond
	if took := cputime.Of(work); took > most {
		t.Fatalf("%d events of %d bytes took %v", events, len(stream), took)
	}
}

// Compacting a hostile stream costs what it is long.
func TestHostileCompaction(t *testing.T) {
	more := map[string]func(n int) []string{
		"text of many messages in turn": func(n int) []string {
			return slices.Concat([]string{started(0)}, times(n, `{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`),
				times(n, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"x"}`), times(n, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"y"}`))
		},
		"patches of a state that grows": func(n int) []string {
			return slices.Concat([]string{started(0), `{"type":"STATE_SNAPSHOT","snapshot":{"l":[]}}`},
				times(n, `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/l/-","value":%d}]}`))
		},
		"patches that must stay": func(n int) []string {
			return slices.Concat([]string{started(0), `{"type":"STATE_SNAPSHOT","snapshot":{}}`},
				times(n, `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/k","value":"some more text"},{"op":"odd"}]}`))
		},
		"metadata between": func(n int) []string {
			return slices.Concat([]string{started(0), `{"type":"TEXT_MESSAGE_START","messageId":"m"}`},
				times(n, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x","metadata":{"k":%d}}`))
		},
	}
	for before, staying := range staying {
		for then, short := range short {
			more[before+", "+then] = func(n int) []string { return slices.Concat([]string{started(0)}, staying(n/2), short(n/2)) }
		}
	}
	for _, streams := range []map[string]func(int) []string{hostile, more} {
		for name, events := range streams {
			t.Run(name, func(t *testing.T) {
				linear(t, func(n int) func() {
					stream := events(n)
					return func() {
						for range agui.Compact(lines(stream)) {
						}
					}
				})
			})
		}
	}
}

// What a verifier refuses over and over costs no more than what it accepts.
func TestHostileVerification(t *testing.T) {
	for name, events := range map[string]func(n int) []string{
		"an end that is refused": func(n int) []string {
			return slices.Concat(times(n, `{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`), slices.Repeat([]string{finished(0)}, n))
		},
		"an end that is refused for something else each time": func(n int) []string {
			out := times(n, `{"type":"STEP_STARTED","stepName":"m%d"}`)
			for i := range n {
				out = append(out, finished(0), fmt.Sprintf(`{"type":"STEP_FINISHED","stepName":"m%d"}`, i))
			}
			return out
		},
		"one that opens and closes before an open one": func(n int) []string {
			return slices.Concat([]string{`{"type":"TOOL_CALL_START","toolCallId":"x","toolCallName":"f"}`},
				times(n, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`, finished(0)))
		},
		"starts that are refused": func(n int) []string {
			return slices.Concat(times(n, `{"type":"SUBAGENT_STARTED","subagentRunId":"s%d","name":""}`), times(n, `{"type":"SUBAGENT_STARTED","subagentRunId":"s%d","name":""}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			linear(t, func(n int) func() {
				var decoded []*agui.Event
				for _, line := range append([]string{started(0)}, events(n)...) {
					e, err := agui.Decode([]byte(line))
					if err != nil {
						t.Fatal(err)
					}
					decoded = append(decoded, e)
				}
				return func() {
					var v agui.Verifier
					for i, e := range decoded {
						_ = v.Verify(uint64(i), e)
					}
				}
			})
		})
	}
}
