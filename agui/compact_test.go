package agui_test

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
)

func lines(text string) [][]byte {
	var out [][]byte
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, []byte(line))
		}
	}
	return out
}

const (
	runStart = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}` + "\n"
	runEnd   = `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}` + "\n"
)

// What a compacted stream looks like, in every case worth it.
func TestCompact(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"a message": {
			`{"type":"TEXT_MESSAGE_START","messageId":"a","role":"assistant"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"Hel"}
			{"type":"TEXT_MESSAGE_CONTENT", "messageId":"a","delta":"lo","timestamp":5}
			{"messageId":"\u0061","delta":"!","type":"TEXT_MESSAGE_CONTENT","rawEvent":{"x":1}}
			{"type":"TEXT_MESSAGE_END","messageId":"a"}`,
			`{"type":"TEXT_MESSAGE_START","messageId":"a","role":"assistant"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"Hello!"}
			{"type":"TEXT_MESSAGE_END","messageId":"a"}`,
		},
		"text and arguments in turn": {
			`{"type":"TEXT_MESSAGE_START","messageId":"a"}
			{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"1"}
			{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\""}
			{"type":"RAW","event":1}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"2"}
			{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"x\":1}"}
			{"type":"TOOL_CALL_END","toolCallId":"c"}
			{"type":"TEXT_MESSAGE_END","messageId":"a"}`,
			`{"type":"TEXT_MESSAGE_START","messageId":"a"}
			{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"12"}
			{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"x\":1}"}
			{"type":"RAW","event":1}
			{"type":"TOOL_CALL_END","toolCallId":"c"}
			{"type":"TEXT_MESSAGE_END","messageId":"a"}`,
		},
		"chunks": {
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","role":"user","delta":"1"}
			{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"2"}
			{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"3"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":"4"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":"5"}`,
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","role":"user","delta":"123"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":"45"}`,
		},
		"states": {
			`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/z","value":0}]}
			{"type":"STATE_SNAPSHOT", "snapshot": {"n":1.10},"timestamp":7}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1e400}]}
			{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/a"},{"op":"remove","path":"/a"}]}
			{"type":"STEP_STARTED","stepName":"s"}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/b","value":2}]}
			{"type":"STEP_FINISHED","stepName":"s"}`,
			`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/z","value":0}]}
			{"type":"STEP_STARTED","stepName":"s"}
			{"type":"STEP_FINISHED","stepName":"s"}
			{"type":"STATE_SNAPSHOT", "snapshot": {"n":1.10,"a":1e400,"b":2},"timestamp":7}`,
		},
		"halves of a character": {
			`{"type":"TEXT_MESSAGE_START","messageId":"a"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"\ud83d"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"\ude00\ud83d"}
			{"type":"TEXT_MESSAGE_END","messageId":"a"}`,
			`{"type":"TEXT_MESSAGE_START","messageId":"a"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"\ud83d\ude00\ud83d"}
			{"type":"TEXT_MESSAGE_END","messageId":"a"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := lines(runStart + c.in + "\n" + runEnd)
			want := lines(runStart + c.want + "\n" + runEnd)
			got := slices.Collect(agui.Compact(slices.Values(in)))
			if !bytes.Equal(bytes.Join(got, []byte("\n")), bytes.Join(want, []byte("\n"))) {
				t.Errorf("got\n%s\nwant\n%s", bytes.Join(got, []byte("\n")), bytes.Join(want, []byte("\n")))
			}
		})
	}
}

// What may not be merged stays as it is.
func TestCompactKeeps(t *testing.T) {
	start := `{"type":"TEXT_MESSAGE_START","messageId":"a"}` + "\n"
	say := `{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"x"%s}` + "\n"
	plain := fmt.Sprintf(say, "")
	for name, in := range map[string]string{
		"a snapshot between":           start + plain + `{"type":"MESSAGES_SNAPSHOT","messages":[]}` + "\n" + plain,
		"an end between":               start + plain + `{"type":"TEXT_MESSAGE_END","messageId":"a"}` + "\n" + plain,
		"another owner":                start + plain + fmt.Sprintf(say, `,"subagentRunId":"s"`),
		"other metadata":               start + fmt.Sprintf(say, `,"metadata":{"a":1}`) + fmt.Sprintf(say, `,"metadata":{"a":2}`),
		"it may belong to another run": start + plain + fmt.Sprintf(say, `,"runId":"q"`),
		"malformed":                    start + plain + fmt.Sprintf(say, `,"metadata":null`) + plain,
		"no event":                     start + plain + "{\n" + plain,
		"another kind of the same id":  start + plain + `{"type":"REASONING_MESSAGE_CONTENT","messageId":"a","delta":"y"}` + "\n" + plain,
		"a name in views":              start + plain + `{"type":"TEXT_MESSAGE_CONTENT","messageId":"a~text","delta":"y"}` + "\n" + plain,
		"a chunk that may mean another": `{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"x"}
			{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","role":"user","delta":"x"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}`,
		"an event that ends a stream of chunks": `{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"x"}
			{"type":"STATE_SNAPSHOT","snapshot":{}}
			{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"x"}`,
		"a state that moves into itself": `{"type":"STATE_SNAPSHOT","snapshot":{"a":[1,{}]}}
			{"type":"STATE_DELTA","delta":[{"op":"move","from":"/a/0","path":"/a/0/b"}]}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/c","value":1}]}`,
		"an unknown operation": `{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}
			{"type":"STATE_DELTA","delta":[{"op":"odd"}]}`,
		"a run between": start + plain + runEnd + runStart + plain,
	} {
		t.Run(name, func(t *testing.T) {
			stream := lines(runStart + in + "\n" + runEnd)
			got := slices.Collect(agui.Compact(slices.Values(stream)))
			if !bytes.Equal(bytes.Join(got, []byte("\n")), bytes.Join(stream, []byte("\n"))) {
				t.Errorf("got\n%s\nwant it as it was:\n%s", bytes.Join(got, []byte("\n")), bytes.Join(stream, []byte("\n")))
			}
		})
	}
}

// A group grows to a bound, and cutting a long text takes place at the same
// places once more.
func TestCompactBounds(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	in := lines(runStart + `{"type":"TEXT_MESSAGE_START","messageId":"a"}`)
	for i := range 20 {
		in = append(in, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"%d%s"}`, i, long))
		in = append(in, fmt.Appendf(nil, `{"type":"RAW","event":%q}`, long))
	}
	for i := range 1000 {
		in = append(in, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`, i))
	}
	for i := range 3000 {
		in = append(in, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"x"}`, i%1000))
	}
	once := slices.Collect(agui.Compact(slices.Values(in)))
	twice := slices.Collect(agui.Compact(slices.Values(once)))
	if !bytes.Equal(bytes.Join(once, nil), bytes.Join(twice, nil)) {
		t.Error("compacting twice is not compacting once")
	}
	texts := 0
	for _, event := range once {
		if bytes.Contains(event, []byte(`"TEXT_MESSAGE_CONTENT","messageId":"a"`)) {
			texts++
			if len(event) > 1<<20+1000 {
				t.Errorf("an event of %d bytes", len(event))
			}
		}
	}
	if texts < 6 || texts > 10 {
		t.Errorf("6 MB of text are in %d events", texts)
	}
}

// With the limits of a fold no event is made that it would refuse.
func TestCompactLimits(t *testing.T) {
	in := lines(runStart + `{"type":"TEXT_MESSAGE_START","messageId":"a"}`)
	for range 1000 {
		in = append(in, []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"0123456789"}`))
	}
	in = append(in, []byte(`{"type":"STATE_SNAPSHOT","snapshot":[]}`))
	for range 1000 {
		in = append(in, []byte(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/-","value":"0123456789"}]}`))
	}
	c := agui.NewCompactor(agui.CompactLimits{EventBytes: 1000})
	var out [][]byte
	for _, event := range in {
		out = append(out, c.Add(event)...)
	}
	out = append(out, c.Flush()...)
	for _, event := range out {
		if len(event) > 1000 {
			t.Fatalf("an event of %d bytes: %.80s", len(event), event)
		}
	}
	if len(out) > 1050 {
		t.Errorf("%d events have become %d", len(in), len(out))
	}
}

// Whoever stops asking is asked no more.
func TestCompactStops(t *testing.T) {
	given := 0
	var events iter.Seq[[]byte] = func(yield func([]byte) bool) {
		for given < 10 {
			given++
			if !yield([]byte(`{"type":"NEWS"}`)) {
				return
			}
		}
	}
	for range agui.Compact(events) {
		break
	}
	if given != 1 {
		t.Errorf("%d events were asked for", given)
	}
}

func benchmarkStream(kind string) (out [][]byte) {
	out = lines(runStart + `{"type":"TEXT_MESSAGE_START","messageId":"msg-1"}
		{"type":"TOOL_CALL_START","toolCallId":"call-1","toolCallName":"f"}`)
	for i := range 10_000 {
		switch {
		case kind == "stamped":
			out = append(out, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-1","delta":" word%d","timestamp":%d}`, i, 1700000000000+i))
		case kind == "in turn" && i%2 == 0:
			out = append(out, fmt.Appendf(nil, `{"type":"TOOL_CALL_ARGS","toolCallId":"call-1","delta":"\"k%d\":"}`, i))
		default:
			out = append(out, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-1","delta":" word%d"}`, i))
		}
	}
	return out
}

func BenchmarkCompact(b *testing.B) {
	for _, kind := range []string{"deltas", "stamped", "in turn"} {
		b.Run(kind, func(b *testing.B) {
			in := benchmarkStream(kind)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for range agui.Compact(slices.Values(in)) {
					n++
				}
			}
			b.ReportMetric(float64(b.N)*float64(len(in))/b.Elapsed().Seconds(), "events/s")
		})
	}
}
