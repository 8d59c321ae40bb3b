package jsonvalue

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Strings are looked at eight bytes at a time: each length, and something
// special at each place.
func TestAppendStringAtEachPlace(t *testing.T) {
	special := map[string]string{
		`"`: `\"`, `\`: `\\`, "\x1f": `\u001f`, "\n": `\n`, "é": "é", "\xff": "\uFFFD", "\xed\xa0\xbc": `\ud83c`, " ": " ", "\x7f": "\x7f",
	}
	for n := range 40 {
		for at := range n + 1 {
			before, after := strings.Repeat("a", at), strings.Repeat("z", n-at)
			for raw, want := range special {
				got := string(AppendString(nil, before+raw+after))
				if got != `"`+before+want+after+`"` {
					t.Fatalf("%q is printed as %s", before+raw+after, got)
				}
				if raw == "\xff" {
					continue // is no JSON
				}
				length, plain, ok := ScanString([]byte(got + `"\`))
				if length != len(got) || plain != (raw == want) || !ok {
					t.Fatalf("%s is scanned as %d bytes, plain %t, ok %t", got, length, plain, ok)
				}
			}
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	var list []string
	for i := range 10_000 {
		list = append(list, fmt.Sprintf(`{"id":"task-%06d","title":"some words about it","progress":%d,"done":false}`, i, i))
	}
	v, err := Parse([]byte("["+strings.Join(list, ",")+"]"), 0)
	if err != nil {
		b.Fatal(err)
	}
	dst := v.AppendJSON(nil)
	b.SetBytes(int64(len(dst)))
	for b.Loop() {
		dst = v.AppendJSON(dst[:0])
	}
}

// afresh prints v by walking all of it, whatever its parts are known to be
// printed as.
func afresh(v Value) string { return v.Detach().String() }

// What lists and objects are remembered to be printed as is what they are
// printed as: as they were parsed, and between patches that succeed or fail.
func TestPrintedIsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := NewList(value(3).Draw(rt, "document"), value(3).Draw(rt, "another")).String()
		v := mustParseRapid(rt, strings.ReplaceAll(text, ",", rapid.SampledFrom([]string{",", ", "}).Draw(rt, "comma")))
		d := NewDocument(v)
		for range rapid.IntRange(1, 20).Draw(rt, "patches") {
			ops := drawOps(rt, d.root)
			if rapid.Bool().Draw(rt, "one") {
				ops = ops[:1] // most others fail
			}
			_ = d.Patch(ops, PatchLimits{}) // either way
			if rapid.IntRange(0, 4).Draw(rt, "shared") == 0 {
				d.Snapshot()
			}
			for range 2 {
				if got, want := string(d.AppendJSON(nil)), afresh(d.root); got != want {
					rt.Fatalf("it is printed as %s, but is %s", got, want)
				}
			}
		}
		if got := v.String(); got != afresh(v) {
			rt.Fatalf("what it began with is printed as %s, but is %s", got, afresh(v))
		}
	})
}

// Texts that are not printed as they were written.
func TestPrintedOfOddTexts(t *testing.T) {
	for text, want := range map[string]string{
		`[1, 2]`:                         `[1,2]`,
		`[{"a":1} ]`:                     `[{"a":1}]`,
		` [ ] `:                          `[]`,
		`{"a":1,"a":2}`:                  `{"a":2}`,
		`[{"a":1,"b":[],"a":2},{"c":3}]`: `[{"a":2,"b":[]},{"c":3}]`,
		`["\u0041",["b"]]`:               `["A",["b"]]`,
		`{"\/":["\ud800"]}`:              `{"/":["\ud800"]}`,
		`[1.0,[1E5],-0]`:                 `[1.0,[1E5],-0]`,
	} {
		v := mustParse(t, text)
		if got := v.String(); got != want || afresh(v) != want {
			t.Errorf("%s is printed as %s, walked %s", text, got, afresh(v))
		}
	}
}
