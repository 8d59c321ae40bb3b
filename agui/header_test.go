package agui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agstore/agstore/agui"
)

func TestReadHeader(t *testing.T) {
	raw := ` {"parentRunId":"p","messageId":"m\u00e9","type":"RUN_FINISHED","threadId":"t","runId":"",
		"parentMessageId":"pm","toolCallId":"c","stepName":"s","subagentRunId":"sub","code":"C","extra":[{"type":"X"}],
		"outcome":{"type":"interrupt","interrupts":[]}} `
	var h agui.Header
	if err := agui.ReadHeader([]byte(raw), &h); err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name, want string
		got        []byte
	}{
		{"type", "RUN_FINISHED", []byte(h.Type)},
		{"threadId", "t", h.ThreadID},
		{"runId", "", h.RunID},
		{"parentRunId", "p", h.ParentRunID},
		{"messageId", "mé", h.MessageID},
		{"parentMessageId", "pm", h.ParentMessageID},
		{"toolCallId", "c", h.ToolCallID},
		{"stepName", "s", h.StepName},
		{"subagentRunId", "sub", h.SubagentRunID},
		{"code", "C", h.Code},
		{"outcome", "interrupt", h.Outcome},
	} {
		if f.got == nil || string(f.got) != f.want {
			t.Errorf("%s is %q, want %q", f.name, f.got, f.want)
		}
	}
}

// An absent id is nil, an empty one is not; an id that is no string is absent.
func TestReadHeaderAbsence(t *testing.T) {
	var h agui.Header
	for raw, want := range map[string]struct{ run, message bool }{
		`{"type":"X"}`:                                       {},
		`{"type":"X","runId":"","messageId":1}`:              {run: true},
		`{"type":"X","runId":null,"messageId":""}`:           {message: true},
		`{"type":"X","runId":"a","runId":7}`:                 {},
		`{"type":"X","runId":{"runId":"a"}}`:                 {},
		`{"type":"X","input":{"runId":"a","type":"Y"}}`:      {},
		`{"type":"X","RunId":"a","messageid":"b"}`:           {},
		`{"type":"X","r\u0075nId":"a","messageId":"\ud800"}`: {run: true, message: true},
	} {
		if err := agui.ReadHeader([]byte(raw), &h); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if got := (h.RunID != nil); got != want.run {
			t.Errorf("%s: runId present %v", raw, got)
		}
		if got := (h.MessageID != nil); got != want.message {
			t.Errorf("%s: messageId present %v", raw, got)
		}
		if h.Type != "X" {
			t.Errorf("%s: type %q", raw, h.Type)
		}
	}
}

// SEMANTICS N-4: of members that occur twice the last counts.
func TestReadHeaderLastMemberCounts(t *testing.T) {
	var h agui.Header
	raw := `{"type":1,"type":"A","runId":"1","type":"RUN_FINISHED","runId":"2","outcome":{"type":"success","type":"interrupt"}}`
	if err := agui.ReadHeader([]byte(raw), &h); err != nil {
		t.Fatal(err)
	}
	if h.Type != agui.TypeRunFinished || string(h.RunID) != "2" || string(h.Outcome) != "interrupt" {
		t.Errorf("%+v", h)
	}
	if err := agui.ReadHeader([]byte(`{"type":"A","type":1}`), &h); !errors.Is(err, agui.ErrInvalidEvent) {
		t.Errorf("a type that is no string at last: %v", err)
	}
}

// A surrogate pair in two escapes is one character, a lone one stays what it is
// (WTF-8), so that ids that differ stay different.
func TestReadHeaderEscapes(t *testing.T) {
	var h agui.Header
	for in, want := range map[string]string{
		`\ud83d\ude00`:       "😀",
		`\ud83d`:             "\xed\xa0\xbd",
		`\ude00\ud83d`:       "\xed\xb8\x80\xed\xa0\xbd",
		`\ud83d\ud83d\ude00`: "\xed\xa0\xbd😀",
		`\ud83dx`:            "\xed\xa0\xbdx",
		`\u0000\n\/\\\"\b`:   "\x00\n/\\\"\b",
		`\u20AC\uFFFD`:       "€\uFFFD",
	} {
		if err := agui.ReadHeader([]byte(`{"type":"X","runId":"`+in+`"}`), &h); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if string(h.RunID) != want {
			t.Errorf("%s is %q, want %q", in, h.RunID, want)
		}
		// And back: what Quote writes reads as the same id.
		if err := agui.ReadHeader([]byte(`{"type":"X","runId":`+string(agui.Quote(want))+`}`), &h); err != nil || string(h.RunID) != want {
			t.Errorf("quoted again, %q is %q, %v", want, h.RunID, err)
		}
	}
}

func TestReadHeaderRefuses(t *testing.T) {
	deep := func(n int) string {
		return `{"type":"X","v":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
	}
	for _, test := range []struct {
		raw    string
		reason string
		offset int
	}{
		{"", "empty", 0},
		{" \n", "empty", 2},
		{"null", "not an object", 0},
		{`[{"type":"X"}]`, "not an object", 0},
		{`{"type":"X"`, "cut off", 11},
		{`{"type":"X}`, "cut off", 11},
		{`{"type":"X"}}`, "more after the end", 12},
		{`{"type":"X",}`, "no string", 12},
		{`{"type":"X" "a":1}`, "no comma", 12},
		{`{"a":1}`, "no string member", 0},
		{`{"type":null}`, "no string member", 0},
		{`{"type":"X","n":01}`, "no comma", 17},
		{`{"type":"X","n":1.}`, "not a number", 18},
		{`{"type":"X","n":+1}`, "not JSON", 16},
		{`{"type":"X","n":NaN}`, "not JSON", 16},
		{`{"type":"X","s":"\x"}`, "unknown escape", 17},
		{`{"type":"X","s":"\u12G4"}`, "broken", 17},
		{"{\"type\":\"X\",\"s\":\"\n\"}", "control character", 17},
		{"{\"type\":\"X\",\"s\":\"\xff\"}", "UTF-8", 17},
		{"{\"type\":\"X\",\"s\":\"\xed\xa0\x80\"}", "UTF-8", 17},
		{"\ufeff" + `{"type":"X"}`, "not JSON", 0},
		{deep(agui.MaxNesting + 1), "nested deeper", 16 + agui.MaxNesting - 1},
	} {
		var h agui.Header
		err := agui.ReadHeader([]byte(test.raw), &h)
		var invalid *agui.InvalidEventError
		if !errors.Is(err, agui.ErrInvalidEvent) || !errors.As(err, &invalid) {
			t.Errorf("%.40q: %v", test.raw, err)
			continue
		}
		if !strings.Contains(invalid.Reason, test.reason) || invalid.Offset != test.offset {
			t.Errorf("%.40q: %v, want %q at %d", test.raw, err, test.reason, test.offset)
		}
	}
	var h agui.Header
	if err := agui.ReadHeader([]byte(deep(agui.MaxNesting)), &h); err != nil {
		t.Errorf("at the depth that is allowed: %v", err)
	}
}

func TestReadHeaderKnowsEveryType(t *testing.T) {
	var h agui.Header
	for _, typ := range agui.Types() {
		raw := []byte(`{"type":"` + string(typ) + `"}`)
		if err := agui.ReadHeader(raw, &h); err != nil || h.Type != typ {
			t.Errorf("%s: %q, %v", typ, h.Type, err)
		}
		if n := testing.AllocsPerRun(10, func() { _ = agui.ReadHeader(raw, &h) }); n > 0 {
			t.Errorf("%s: %v allocations", typ, n)
		}
	}
}

// FuzzReadHeader compares with encoding/json, which is lax about UTF-8 only.
func FuzzReadHeader(f *testing.F) {
	for _, seed := range []string{
		`{"type":"RUN_STARTED","runId":"r","threadId":"t"}`, `{"type":"X","v":[1,-0.5e+10,{"a":null}]}`, `{"type":"\ud83d"}`,
		`{`, `{"type":}`, `[]`, `"type"`, "{\"type\":\"\xff\"}", ` {"type":"X","type":1} `, `{"type":"X"}x`, `{"type":"RUN_FINISHED","outcome":{"type":"x"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h agui.Header
		err := agui.ReadHeader(raw, &h)
		trimmed := bytes.Trim(raw, " \t\r\n")
		want := json.Valid(raw) && utf8.Valid(raw) && len(trimmed) > 0 && trimmed[0] == '{'
		var members map[string]json.RawMessage
		if want {
			if err := json.Unmarshal(raw, &members); err != nil {
				t.Fatal(err)
			}
			typ := members["type"]
			want = len(typ) > 0 && typ[0] == '"'
		}
		var invalid *agui.InvalidEventError
		if errors.As(err, &invalid) && strings.HasPrefix(invalid.Reason, "nested deeper") {
			return // encoding/json allows more
		}
		if want != (err == nil) {
			t.Fatalf("%q: %v, want valid %v", raw, err, want)
		}
		if err != nil {
			if !errors.Is(err, agui.ErrInvalidEvent) {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		for name, got := range map[string][]byte{"type": []byte(h.Type), "runId": h.RunID, "messageId": h.MessageID, "code": h.Code} {
			var text string
			value, ok := members[name]
			if !ok || value[0] != '"' {
				if name != "type" && got != nil {
					t.Fatalf("%q: %s is %q, absent in JSON", raw, name, got)
				}
				continue
			}
			if err := json.Unmarshal(value, &text); err != nil {
				t.Fatal(err)
			}
			// encoding/json has no lone surrogates.
			if text != string(got) && !strings.Contains(text, "\uFFFD") {
				t.Fatalf("%q: %s is %q, in JSON %q", raw, name, got, text)
			}
		}
	})
}
