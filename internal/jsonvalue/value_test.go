package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, text string) Value {
	t.Helper()
	v, err := Parse([]byte(text), 0)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return v
}

func TestParseKeepsWhatWasWritten(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{` { "b" : 1.0 , "a" : [ 1e0, -0, 9007199254740993, 1E+400 ] } `, `{"b":1.0,"a":[1e0,-0,9007199254740993,1E+400]}`},
		{`"<&>\u2028\u0041\/"`, "\"<&>\u2028A/\""},
		{`"\ud83c"`, `"\ud83c"`},
		{`"\uDF89\uD83C x"`, `"\udf89\ud83c x"`},
		{`"\ud83c\udf89"`, "\"\U0001F389\""},
		{`"\ud83c\ud83c\udf89"`, "\"\\ud83c\U0001F389\""},
		{`"\ud83c\u0041"`, `"\ud83cA"`},
		{`"\u0000\u001f\b\f\n\r\t\"\\"`, `"\u0000\u001f\b\f\n\r\t\"\\"`},
		{`{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		{`{"__proto__":{},"":null}`, `{"__proto__":{},"":null}`},
		{`[]`, `[]`}, {`{}`, `{}`}, {`true`, `true`}, {`false`, `false`}, {`null`, `null`},
	} {
		if got := mustParse(t, c.in).String(); got != c.out {
			t.Errorf("%s: printed %s, want %s", c.in, got, c.out)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{
		``, ` `, `{`, `[`, `"`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,}`, `[1,]`, `[1 2]`, `{"a" 1}`, `{a:1}`, `{,}`,
		`01`, `-`, `+1`, `.5`, `1.`, `1e`, `1e+`, `0x1`, `NaN`, `Infinity`, `tru`, `nul`, `1 2`, `{} x`,
		`"\x"`, `"\u12"`, `"\u12g4"`, "\"\x01\"", "\"\xff\"", "\"\xed\xa0\xbc\"", "\"\\n\xff\"", `'a'`, "\ufeff{}",
	} {
		_, err := Parse([]byte(in), 0)
		if _, ok := errors.AsType[*SyntaxError](err); !ok {
			t.Errorf("Parse(%q): error %v, want a SyntaxError", in, err)
		}
	}
}

func TestParseNesting(t *testing.T) {
	deep := func(n int) []byte { return []byte(strings.Repeat(`[`, n) + strings.Repeat(`]`, n)) }
	if _, err := Parse(deep(3000), 0); err != nil {
		t.Errorf("3000 levels: %v", err)
	}
	if _, err := Parse(deep(3001), 0); err == nil {
		t.Error("3001 levels were accepted")
	}
	if _, err := Parse(deep(3), 2); err == nil {
		t.Error("3 levels were accepted with a limit of 2")
	}
}

func TestCanonicalNumbers(t *testing.T) {
	for in, want := range map[string]string{
		`0`: `0`, `-0`: `0`, `1.0`: `1`, `1e0`: `1`, `1e21`: `1e+21`, `1e20`: `100000000000000000000`,
		`0.000001`: `0.000001`, `0.0000001`: `1e-7`, `1.5e-9`: `1.5e-9`, `1e-10`: `1e-10`, `123e100`: `1.23e+102`,
		`9007199254740993`: `9007199254740992`, `1e400`: `null`, `-1e400`: `null`, `5e-324`: `5e-324`,
		`333333333.33333329`: `333333333.3333333`, `4.50`: `4.5`,
	} {
		if got := string(mustParse(t, in).AppendCanonical(nil)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// Names with every kind of code unit, in the order of RFC 8785.
func TestCanonicalOrder(t *testing.T) {
	names := rapid.SliceOfN(rapid.SampledFrom([]uint16{'a', 0, 0x7f, 0xe9, 0xd83c, 0xdf89, 0xd800, 0xdfff, 0xe000, 0xffff}), 0, 5)
	rapid.Check(t, func(rt *rapid.T) {
		a, b := names.Draw(rt, "a"), names.Draw(rt, "b")
		if got, want := sign(CompareNames(wtf8(a), wtf8(b))), slices.Compare(a, b); got != want {
			rt.Fatalf("CompareNames(%x, %x) = %d, want %d", a, b, got, want)
		}
	})
	v := mustParse(t, `{"\ue000":1,"\ud83c\udf89":2,"b":{"y":1,"x":2},"a":3}`)
	if got, want := string(v.AppendCanonical(nil)), "{\"a\":3,\"b\":{\"x\":2,\"y\":1},\"\U0001F389\":2,\"\ue000\":1}"; got != want {
		t.Errorf("canonical %s, want %s", got, want)
	}
}

func sign(n int) int { return min(1, max(-1, n)) }

// wtf8 is the text of these code units, made without the code under test.
func wtf8(units []uint16) string {
	var out []byte
	for i := 0; i < len(units); i++ {
		u := rune(units[i])
		if u < 0xD800 || u > 0xDFFF {
			out = append(out, string(u)...)
			continue
		}
		if i+1 < len(units) {
			if r := utf16.DecodeRune(u, rune(units[i+1])); r != '\uFFFD' {
				out = append(out, string(r)...)
				i++
				continue
			}
		}
		out = append(out, 0xED, 0x80|byte(u>>6)&0x3F, 0x80|byte(u)&0x3F)
	}
	return string(out)
}

// However a text is cut into pieces, even inside a character, it is whole when
// they are put together (SEMANTICS N-2).
func TestTextJoins(t *testing.T) {
	unit := rapid.SampledFrom([]uint16{'a', 0xe9, 0xd83c, 0xdf89, 0xd800, 0xdfff, 0xffff})
	rapid.Check(t, func(rt *rapid.T) {
		units := rapid.SliceOfN(unit, 0, 12).Draw(rt, "units")
		var text Text
		joined, at := "", 0
		var seen, were []string
		for at < len(units) {
			n := rapid.IntRange(1, len(units)-at).Draw(rt, "piece")
			piece := wtf8(units[at : at+n])
			at += n
			text.Append(piece)
			joined = JoinText(joined, piece)
			seen, were = append(seen, text.String()), append(were, strings.Clone(text.String()))
		}
		if want := wtf8(units); text.String() != want || joined != want || text.Len() != len(want) {
			rt.Fatalf("pieces of %x became %q and %q, want %q", units, text.String(), joined, want)
		}
		if !slices.Equal(seen, were) {
			rt.Fatal("a String taken earlier has changed")
		}
	})
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true}, {`0`, `-0`, true}, {`1`, `"1"`, false}, {`null`, `false`, false}, {`[]`, `{}`, false},
		{`{"a":1,"b":[1,{"c":null}]}`, `{"b":[1e0,{"c":null}],"a":1}`, true}, {`{"a":null}`, `{}`, false},
		{`{"a":null}`, `{"b":null}`, false}, {`[1,2]`, `[2,1]`, false}, {`[1]`, `[1,2]`, false}, {`true`, `true`, true},
		{`"\ud83c"`, `"\ufffd"`, false},
	} {
		if got := Equal(mustParse(t, c.a), mustParse(t, c.b)); got != c.want {
			t.Errorf("Equal(%s, %s) = %v", c.a, c.b, got)
		}
	}
	if Equal(Value{}, NewNull()) {
		t.Error("absent equals null")
	}
}

func TestInt(t *testing.T) {
	for in, want := range map[string]int64{`1`: 1, `1.0`: 1, `-3e2`: -300, `9007199254740991`: 9007199254740991} {
		if got, ok := mustParse(t, in).Int(); !ok || got != want {
			t.Errorf("%s is %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{`1.5`, `9007199254740993`, `1e400`, `"1"`, `null`} {
		if n, ok := mustParse(t, in).Int(); ok {
			t.Errorf("%s passed as %d", in, n)
		}
	}
}

// Objects with few and with many members behave alike.
func TestObjectLookup(t *testing.T) {
	for _, n := range []int{1, 8, 9, 40} {
		var members []Member
		for i := range n {
			members = append(members, Member{strings.Repeat("k", i+1), NewInt(int64(i))})
		}
		v := NewObject(append(members, Member{"k", NewInt(100)}, Member{"gone", Value{}})...)
		if v.Len() != n {
			t.Errorf("%d members: Len %d", n, v.Len())
		}
		if got, _ := v.Get("k").Int(); got != 100 {
			t.Errorf("%d members: the last of two did not count", n)
		}
		if got, _ := v.Get(strings.Repeat("k", n)).Int(); n > 1 && got != int64(n-1) {
			t.Errorf("%d members: the last is %d", n, got)
		}
		if v.Get("gone").Present() {
			t.Error("an absent member is there")
		}
		if !Equal(v, v.Detach()) {
			t.Error("Detach changed the value")
		}
	}
}

// What AppendText accepts, and what it makes of it, is what Parse does.
func TestAppendTextAgreesWithParse(t *testing.T) {
	piece := rapid.SampledFrom([]string{`a`, "\u00e9", "é", `\ud83c`, `\udf89`, `\uD83C`, `\n`, `\"`, `\\`, `\/`, `\u`, `\u12`, `\x`, "\x01", "\xff", `u0041`, `"`, `\`})
	rapid.Check(t, func(rt *rapid.T) {
		raw := []byte(`"` + strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(rt, "pieces"), "") + `"`)
		v, err := Parse(raw, 0)
		var text []byte
		n, plain, ok := ScanString(raw)
		if ok = ok && n == len(raw); ok {
			text, ok = AppendText(nil, raw)
		}
		want, _ := v.Text()
		if ok != (err == nil) || ok && string(text) != want || ok && plain && string(raw[1:n-1]) != want {
			rt.Fatalf("%q: %q, %v; Parse says %q, %v", raw, text, ok, want, err)
		}
	})
}

// FuzzParse: what is accepted is what encoding/json accepts, and printing it
// and reading it again gives the same value and the same bytes.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e-3,"\ud83c\udf89"],"b":null}`, `"\ud83c"`, `[[[]]]`, `{"a":1,"a":2}`, `-0.0`, `tru`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := Parse(raw, 500)
		if err != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q was accepted", raw)
		}
		if n, plain, ok := ScanString(raw); v.Kind() == String && raw[0] == '"' {
			want, _ := v.Text()
			got, whole := AppendText(nil, raw[:n])
			if !ok || !whole || string(got) != want || plain && string(raw[1:n-1]) != want {
				t.Fatalf("%q is scanned as %q", raw, got)
			}
		}
		text := v.AppendJSON(nil)
		again, err := Parse(text, 500)
		if err != nil {
			t.Fatalf("%q printed as %q, which is refused: %v", raw, text, err)
		}
		if !Equal(v, again) || !bytes.Equal(text, again.AppendJSON(nil)) {
			t.Fatalf("%q printed as %q, which reads as %q", raw, text, again)
		}
		if canonical := v.AppendCanonical(nil); !json.Valid(canonical) {
			t.Fatalf("%q has the canonical form %q", raw, canonical)
		}
	})
}
