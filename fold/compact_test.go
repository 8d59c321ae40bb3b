package fold_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// profiles are the folds that a compacted stream must not change.
var profiles = []struct {
	name string
	opts fold.Options
}{
	{"durable", fold.Options{}},
	{"reference", fold.Options{Profile: fold.Reference}},
	{"reference without verification", fold.Options{Profile: fold.Reference, NoVerify: true}},
}

func compact(lines [][]byte) [][]byte {
	before := bytes.Join(lines, []byte("\n"))
	out := slices.Collect(agui.Compact(slices.Values(lines)))
	if !bytes.Equal(before, bytes.Join(lines, []byte("\n"))) {
		panic("compacting has changed the stream")
	}
	return out
}

// seen is a view without diagnostics, and without what counts events.
func seen(v *fold.View) string {
	c := *v
	c.Diagnostics = nil
	all, err := jsonvalue.Parse(c.AppendJSON(nil), 1<<20)
	if err != nil {
		return err.Error()
	}
	return withoutSeqs(all).String()
}

func withoutSeqs(v value) value {
	switch v.Kind() {
	case jsonvalue.Object:
		var out []jsonvalue.Member
		for name, item := range v.Members() {
			if name != "seq" && name != "firstSeq" && name != "endSeq" {
				out = append(out, jsonvalue.Member{Name: name, Value: withoutSeqs(item)})
			}
		}
		return jsonvalue.NewObject(out...)
	case jsonvalue.List:
		var out []value
		for _, item := range v.Items() {
			out = append(out, withoutSeqs(item))
		}
		return jsonvalue.NewList(out...)
	}
	return v
}

func legal(lines [][]byte) bool {
	v := fold.Stream(slices.Values(lines), fold.Options{Profile: fold.Reference}, 0)
	return v.Reference.Error == nil
}

// compactFault says what is wrong with how a stream is compacted, "" if nothing
// is (fold-rules R35).
func compactFault(lines [][]byte) string {
	short := compact(lines)
	if len(short) > len(lines) {
		return fmt.Sprintf("%d events have become %d", len(lines), len(short))
	}
	for _, p := range profiles {
		want := seen(fold.Stream(slices.Values(lines), p.opts, 0))
		got := seen(fold.Stream(slices.Values(short), p.opts, 0))
		if want != got {
			return fmt.Sprintf("%s:\n want %s\n got  %s\n as\n%s", p.name, want, got, bytes.Join(short, []byte("\n")))
		}
	}
	if legal(lines) && !legal(short) {
		return fmt.Sprintf("no longer legal:\n%s", bytes.Join(short, []byte("\n")))
	}
	again := compact(short)
	if a, b := bytes.Join(short, []byte("\n")), bytes.Join(again, []byte("\n")); !bytes.Equal(a, b) {
		return fmt.Sprintf("once\n%s\ntwice\n%s", a, b)
	}
	return ""
}

// checkCompact fails with the shortest stream it finds that has the fault.
func checkCompact(t testing.TB, name string, lines [][]byte) {
	t.Helper()
	if compactFault(lines) == "" {
		return
	}
	for i := 0; i < len(lines); {
		fewer := slices.Delete(slices.Clone(lines), i, i+1)
		if compactFault(fewer) != "" {
			lines = fewer
			i = max(i-1, 0)
			continue
		}
		i++
	}
	t.Fatalf("%s:\n%s\n%s", name, bytes.Join(lines, []byte("\n")), compactFault(lines))
}

// Every stream of the test data, and every prefix of it; of those of more than 200
// events only some, unless AGSTORE_LONG is set.
func TestCompactCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.jsonl")
	if err != nil || len(files) < 400 {
		t.Fatal(len(files), err)
	}
	if shared := os.Getenv("AGSTORE_SHARED"); shared != "" {
		more, err := filepath.Glob(filepath.Join(shared, "*", "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		lines := readLines(t, file)
		step := 1 + len(lines)/200
		switch {
		case os.Getenv("AGSTORE_LONG") != "":
			step = 1
		case testing.Short():
			step = 1 + len(lines)/20
		}
		for n := len(lines); n > 0; n -= step {
			checkCompact(t, fmt.Sprintf("%s, the first %d", file, n), lines[:n])
		}
	}
}

func TestCompactSoup(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if fault := compactFault(soup(rt)); fault != "" {
			rt.Fatal(fault)
		}
	})
}

// brew makes random streams of few ids, so that everything meets everything,
// with much text in them.
type brew struct {
	*rand.Rand
	open []string // an event that goes on with what was opened lately
}

func (b *brew) pick(of ...string) string { return of[b.IntN(len(of))] }

func (b *brew) opt(chance int, member string) string {
	if b.IntN(chance) > 0 {
		return ""
	}
	return "," + member
}

func (b *brew) id() string {
	return b.pick(`"x"`, `"x"`, `"y"`, `"y"`, `"z"`, `"x~text"`, `"x~reasoning"`, `"\u0078"`, `""`, `"00000000-0000-4000-8000-000000000001"`)
}

func (b *brew) word() string {
	return b.pick(`"a"`, `"b"`, `"c d"`, `""`, `"\ud83c"`, `"\udf45"`, `"é"`, `"\n\u0000"`, `"\\"`)
}

// common are the members that any event may have.
func (b *brew) common() string {
	return b.opt(12, `"metadata":`+b.pick(`{"k":1}`, `{"k":2}`, `{}`, `{"k":1,"k":{"a":null}}`, `null`)) +
		b.opt(8, `"subagentRunId":`+b.pick(`"s"`, `"u"`, `""`, `5`)) +
		b.opt(12, `"timestamp":`+b.pick(`1`, `1700000000000`, `-5`, `1.5`, `01`, `1e2`)) +
		b.opt(20, `"rawEvent":`+b.pick(`null`, `{"a":[1]}`)) +
		b.opt(25, b.pick(`"more":1`, `"runId":"r"`, `"runId":"q"`, `"messageId":"x"`, `"toolCallId":"x"`, `"parentMessageId":"y"`, `"delta":"dup"`, `"type":"RAW"`))
}

func (b *brew) event() string {
	common := b.common()
	id, word := b.id(), b.word()
	message := `,"messageId":` + id
	call := `,"toolCallId":` + id
	text := b.pick("TEXT_MESSAGE", "TEXT_MESSAGE", "REASONING_MESSAGE")
	if b.IntN(2) == 0 && len(b.open) > 0 {
		// Go on with what is open: most of a stream.
		prefix := b.open[b.IntN(len(b.open))]
		return fmt.Sprintf(`{%s,"delta":%s%s}`, prefix, word, b.opt(8, strings.TrimPrefix(common+`,"z":1`, ",")))
	}
	switch n := 30 + b.IntN(70); {
	case n < 38:
		b.opened(fmt.Sprintf(`"type":"%s_CONTENT"%s`, text, message))
		return fmt.Sprintf(`{"type":"%s_START"%s,"role":"%s"%s}`, text, message, map[bool]string{true: "assistant", false: "reasoning"}[text[0] == 'T'], common)
	case n < 40:
		return fmt.Sprintf(`{"type":"%s_END"%s%s}`, text, message, common)
	case n < 44:
		return fmt.Sprintf(`{"type":"%s_CONTENT"%s,"delta":%s%s}`, text, message, word, common)
	case n < 49:
		b.opened(`"type":"TOOL_CALL_ARGS"` + call)
		return fmt.Sprintf(`{"type":"TOOL_CALL_START"%s,"toolCallName":"f"%s%s}`, call, b.opt(3, `"parentMessageId":`+b.id()), common)
	case n < 51:
		return fmt.Sprintf(`{"type":"TOOL_CALL_END"%s%s}`, call, common)
	case n < 53:
		return fmt.Sprintf(`{"type":"TOOL_CALL_ARGS"%s,"delta":%s%s}`, call, word, common)
	case n < 55:
		return fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":%s%s,"content":%s%s}`, b.id(), call, word, common)
	case n < 62:
		chunk := fmt.Sprintf(`"type":"%s_CHUNK"%s`, text, b.pick(message, message, ""))
		b.opened(chunk)
		return fmt.Sprintf(`{%s%s%s%s}`, chunk, b.opt(3, `"role":`+b.pick(`"user"`, `"assistant"`)), b.pick(`,"delta":`+word, `,"delta":`+word, ""), common)
	case n < 67:
		chunk := fmt.Sprintf(`"type":"TOOL_CALL_CHUNK"%s`, b.pick(call, call, ""))
		b.opened(chunk)
		return fmt.Sprintf(`{%s%s%s%s%s}`, chunk, b.opt(2, `"toolCallName":`+b.pick(`"f"`, `"g"`)), b.opt(4, `"parentMessageId":`+b.id()),
			b.pick(`,"delta":`+word, `,"delta":`+word, ""), common)
	case n < 72:
		return fmt.Sprintf(`{"type":"STATE_SNAPSHOT","snapshot":%s%s}`, b.pick(`{"n":[1,2],"m":1.10}`, `{"n":[1,{"y":2}]}`, `null`, `[]`, `"text"`, `{"constructor":{"prototype":{}}}`, `{"a":1,"a":2}`, `{"hasOwnProperty":1,"n":[1,2,1e400]}`), common)
	case n < 80:
		return fmt.Sprintf(`{"type":"STATE_DELTA","delta":%s%s}`, b.pick(
			`[]`, `[{"op":"add","path":"/a","value":1.0}]`, `[{"op":"add","path":"/n/-","value":1e400}]`, `[{"op":"remove","path":"/m"}]`,
			`[{"op":"move","from":"/n/0","path":"/a"}]`, `[{"op":"move","from":"/n","path":"/n/0"}]`, `[{"op":"move","from":"/n/0","path":"/n/0/x"}]`, `[{"op":"odd"},{"op":"add","path":"/b","value":"\ud800"}]`,
			`[{"op":"copy","from":"","path":"/n"}]`, `[{"op":"test","path":"/a","value":1},{"op":"replace","path":"/a","value":{"z":null}}]`,
			`[{"op":"add","path":"/constructor/prototype/x","value":1}]`, `[{"op":"remove","path":""}]`, `[{"op":"add","path":"a","value":1}]`,
			`[{"op":"replace","path":"/n/01","value":1}]`, `[{"op":"test","path":"/n/2","value":1e400},{"op":"add","path":"/c","value":1}]`,
			`[{"op":"test","path":"","value":{"hasOwnProperty":1}},{"op":"remove","path":"/n"}]`), common)
	case n < 84:
		return fmt.Sprintf(`{"type":"RAW","event":{}%s}`, common)
	case n < 87:
		return fmt.Sprintf(`{"type":"CUSTOM","name":"on_interrupt","value":1%s}`, common)
	case n < 89:
		return b.pick(`{"type":"NEWS"}`, `{"type":"NEWS","messageId":"x","rawEvent":null}`, `{"type":"STEP_STARTED","stepName":"s"}`, `{"type":"STEP_FINISHED","stepName":"s"}`,
			`{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n"}`, `{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}`,
			`{"type":"REASONING_START","messageId":"x"}`, `{"type":"REASONING_END","messageId":"x"}`)
	case n < 90:
		return b.pick(`{`, `[]`, `{"type":""}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"x"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"x","delta":"\x"}`, ` `,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"x","delta":"a"}{`, `{"type":"STATE_DELTA","delta":{}}`)
	case n < 92:
		return b.pick(`{"type":"THINKING_TEXT_MESSAGE_START"}`, `{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"c"}`, `{"type":"THINKING_TEXT_MESSAGE_END"}`,
			`{"type":"THINKING_START"}`, `{"type":"THINKING_END"}`)
	case n < 94:
		return fmt.Sprintf(`{"type":"MESSAGES_SNAPSHOT","messages":[%s]%s}`, b.pick("",
			`{"id":"x","role":"assistant","content":"m"}`, `{"id":"y","role":"user","content":[{"type":"text","text":"p"}]}`,
			`{"id":"x","role":"assistant","toolCalls":[{"id":"x","type":"function","function":{"name":"f","arguments":"1"}}]}`,
			`{"id":"x","role":"reasoning","content":"t"},{"id":"y","role":"tool","toolCallId":"x","content":"r"}`), b.opt(8, `"metadata":{}`))
	case n < 95:
		return fmt.Sprintf(`{"type":"ACTIVITY_SNAPSHOT"%s,"activityType":"A","content":{"n":1}%s}`, message, common)
	case n < 96:
		return fmt.Sprintf(`{"type":"REASONING_ENCRYPTED_VALUE","subtype":%s,"entityId":%s,"encryptedValue":%s%s}`, b.pick(`"message"`, `"tool-call"`), id, word, common)
	case n < 98:
		return fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":%s%s%s}`, b.pick(`"r"`, `"q"`), b.opt(3, `"parentRunId":`+b.pick(`"r"`, `"q"`)),
			b.opt(3, `"input":{"threadId":"t","runId":"r","messages":[{"id":"y","role":"user","content":"h"}],"tools":[],"context":[],"state":`+b.pick(`{}`, `{"n":[3]}`, `null`)+`}`))
	case n < 99:
		return b.pick(`{"type":"RUN_ERROR","message":"no"}`, `{"type":"RUN_FINISHED"}`)
	}
	return fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":%s}`, b.pick(`"r"`, `"q"`))
}

// opened takes note of what deltas may go on with.
func (b *brew) opened(prefix string) {
	b.open = append(b.open, prefix)
	if len(b.open) > 3 {
		b.open = b.open[1:]
	}
}

// accepted reports whether the official client takes an event behind others.
type acceptor struct {
	thinking agui.Thinking
	expander agui.Expander
	verifier agui.Verifier
	minted   int
}

func (a *acceptor) take(line string) bool {
	e, err := agui.Decode([]byte(line))
	if err != nil {
		return false
	}
	a.thinking.Name(e, func() string { a.minted++; return agui.MintedID(a.minted) })
	if !e.Type.Known() {
		return true
	}
	events, err := a.expander.Expand(e)
	if err != nil {
		return false
	}
	for _, e := range events {
		if a.verifier.Verify(0, e) != nil {
			return false
		}
	}
	return true
}

// brewed makes stream number seed. Of every three one is legal, one was and has
// had a few accidents, one never was.
func brewed(seed uint64) [][]byte {
	b := brew{Rand: rand.New(rand.NewPCG(seed, 35))}
	lines := []string{`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`}
	a := new(acceptor)
	a.take(lines[0])
	for want := 2 + b.IntN(50); len(lines) < want; {
		line := b.event()
		if seed%3 < 2 && !a.take(line) {
			a = new(acceptor)
			for _, line := range lines {
				a.take(line)
			}
			continue
		}
		lines = append(lines, line)
	}
	if seed%3 == 1 {
		for range 1 + b.IntN(3) {
			i, j := b.IntN(len(lines)), b.IntN(len(lines))
			switch b.IntN(4) {
			case 0:
				lines = slices.Delete(lines, i, i+1)
			case 1:
				lines[i], lines[j] = lines[j], lines[i]
			case 2:
				lines = slices.Insert(lines, j, lines[i])
			case 3:
				lines = slices.Insert(lines, j, b.event())
			}
			if len(lines) == 0 {
				break
			}
		}
	}
	out := make([][]byte, len(lines))
	for i, line := range lines {
		out[i] = []byte(line)
	}
	return out
}

func TestCompactRandom(t *testing.T) {
	streams := uint64(10_000)
	if testing.Short() {
		streams = 1_000
	}
	if more, err := strconv.ParseUint(os.Getenv("COMPACT_STREAMS"), 10, 64); err == nil {
		streams = more
	}
	lawful, before, after := 0, 0, 0
	for seed := range streams {
		lines := brewed(seed)
		checkCompact(t, fmt.Sprintf("stream %d", seed), lines)
		if legal(lines) {
			lawful++
		}
		before += len(lines)
		after += len(compact(lines))
	}
	// The streams must be worth it.
	if lawful < int(streams)/4 || lawful > int(streams)*3/4 || after > before*9/10 {
		t.Errorf("%d of %d streams are legal; %d events have become %d", lawful, streams, before, after)
	}
	t.Logf("%d of %d streams are legal; %d events have become %d", lawful, streams, before, after)
}

// FuzzCompact: no stream panics, all have the fold they had, and none costs more
// than its length allows.
func FuzzCompact(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(bytes.Join(brewed(seed), []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		lines := bytes.Split(raw, []byte("\n"))
		bounded(t, raw, func() { compact(lines) })
		if fault := compactFault(lines); fault != "" {
			t.Fatal(fault)
		}
	})
}
