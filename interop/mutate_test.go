package interop

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// mutate makes a stream slightly wrong.
func mutate(r *rand.Rand, s stream, corpus []stream) stream {
	if len(s) == 0 {
		return s
	}
	i, k := r.IntN(len(s)), r.IntN(len(s))
	switch n := r.IntN(20); {
	case n < 11:
		if v, err := jsonvalue.Parse([]byte(s[i]), 0); err == nil {
			s[i] = mutateValue(r, v).String()
		}
	case n < 13:
		return slices.Delete(s, i, i+1)
	case n < 15:
		return slices.Insert(s, i, s[k])
	case n < 17:
		s[i], s[k] = s[k], s[i]
	case n < 18:
		moved := s[i]
		return slices.Insert(slices.Delete(s, i, i+1), r.IntN(len(s)), moved)
	case n < 19 && len(corpus) > 0:
		from := corpus[r.IntN(len(corpus))]
		return slices.Insert(s, i, from[r.IntN(len(from))])
	default:
		s[i] = garble(r, s[i])
	}
	return s
}

// odd are values that stand where others are wanted.
var odd = func() (out []value) {
	for _, text := range []string{
		`null`, `5`, `1.5`, `-1`, `true`, `false`, `"z"`, `""`, `[]`, `{}`, `[null]`, `[5]`, `{"type":"z"}`, `"tool"`, `"assistant"`, `"success"`,
		`{"id":"q","role":"user","content":"c"}`, `{"op":"add","path":"/a","value":1}`, `{"type":"success"}`, `{"type":"text","text":"t"}`, `9007199254740992`,
	} {
		v, err := jsonvalue.Parse([]byte(text), 0)
		if err != nil {
			panic(err) // the list is wrong
		}
		out = append(out, v)
	}
	return out
}()

// mutateValue changes one thing somewhere in v.
func mutateValue(r *rand.Rand, v value) value {
	left := r.IntN(places(v))
	var walk func(v value) (value, bool)
	walk = func(v value) (value, bool) {
		if left--; left < 0 {
			return mutant(r, v), true
		}
		switch v.Kind() {
		case jsonvalue.List:
			var items []value
			for _, item := range v.Items() {
				items = append(items, item)
			}
			for i, item := range items {
				if now, done := walk(item); done {
					if items[i] = now; !now.Present() {
						items = slices.Delete(items, i, i+1)
					}
					return jsonvalue.NewList(items...), true
				}
			}
		case jsonvalue.Object:
			for name, item := range v.Members() {
				if now, done := walk(item); done {
					if r.IntN(10) == 0 {
						return with(v, "zz", item), true
					}
					return with(v, name, now), true
				}
			}
		}
		return v, false
	}
	if now, _ := walk(v); now.Present() {
		return now
	}
	return jsonvalue.NewNull()
}

// mutant is what stands in the place of v, absent if nothing does.
func mutant(r *rand.Rand, v value) value {
	switch r.IntN(4) {
	case 0:
		return value{}
	case 1:
		if s, ok := v.Text(); ok {
			return jsonvalue.NewString(pick(r, s+high, s+"x", strings.ToLower(s), " "+s))
		}
		return jsonvalue.NewList(v)
	}
	return odd[r.IntN(len(odd))]
}

// places counts the values in v.
func places(v value) int {
	n := 1
	for _, item := range v.Items() {
		n += places(item)
	}
	for _, item := range v.Members() {
		n += places(item)
	}
	return n
}

// garble makes a line that is no event, or another text for one.
func garble(r *rand.Rand, line string) string {
	switch r.IntN(6) {
	case 0:
		return line[:r.IntN(len(line))] + pick(r, "", "}", "\"}")
	case 1:
		return pick(r, `[]`, `5`, `"x"`, `null`, `{"type":5}`, `{"type":""}`, `{"type":null}`, `{}`, `{"Type":"RAW","event":1}`, "\ufeff"+line, line+line, line+" //")
	case 2, 3:
		return `{"type":"STATE_SNAPSHOT","snapshot":` + pick(r, spellings...) + `}`
	case 4:
		// The last of two members with one name counts.
		return pick(r, `{"messageId":5,"delta":null,"type":"X",`+strings.TrimPrefix(line, "{"),
			strings.TrimSuffix(line, "}")+","+pick(r, `"messageId":"a"}`, `"delta":"again"}`, `}`, `"type":"RAW","event":1}`))
	}
	return "\t" + strings.ReplaceAll(line, ",", " ,\r ") + pick(r, " ", "\u00a0", "\f", "\v")
}

// spellings are JSON texts, and texts that some readers take for JSON.
var spellings = []string{
	`-0`, `-`, `+1`, `.5`, `1.`, `1.0e`, `1e+`, `1E-05`, `01`, `-01`, `0x1`, `1_0`, `NaN`, `Infinity`, `-1e999`, `1e-999`, `00`, `1 2`,
	`tru`, `True`, `truex`, `nul`, `undefined`, `[1,]`, `[,1]`, `[1 2]`, `[1`, `{"a":1,}`, `{"a"}`, `{a:1}`, `{"a":}`, `{"a" 1}`, `{'a':1}`, `{"a":1 "b":2}`,
	`"\u12"`, `"\u12g4"`, `"\U0001"`, `"\x41"`, `"\'"`, `"\`, "\"\t\"", "\"\n\"", "\"\u007f\u0080\u2029\"", `"\ud83c\u0041"`, `"\udf89\ud83c\ud83c\udf89"`,
	`"\uD83C\uDf89"`, `"\ufeff\ufffe\uffff"`, `"\b\f\n\r\t\/\\\""`, `{"\u0061":1,"a":2}`, `{"__proto__":{"a":1},"b":{"__proto__":null}}`, `{"":{"":[[[[]]]]}}`,
	`9007199254740992`, `9007199254740993`, `-9223372036854775809`, `0.1e1`, `123e-2`, `4.35`, `1.7976931348623157e308`, `2.2250738585072011e-308`, `100000000000000000000000`,
	`0.000001`, `0.0000001`, `1e20`, `1e21`, `123456789.123456789`, `5E-324`, `3e-324`, `2e-324`,
}

// respell writes the same value in another way: escapes and white space.
func respell(r *rand.Rand, line string) string {
	v, err := jsonvalue.Parse([]byte(line), 0)
	if err != nil {
		return line
	}
	var out strings.Builder
	space := func() { out.WriteString(pick(r, "", "", "", " ", "\t")) }
	text := func(s string) {
		out.WriteByte('"')
		for _, unit := range units(s) {
			if r.IntN(3) == 0 || unit < 0x20 || unit == '"' || unit == '\\' || unit >= 0x7f {
				hex := strconv.FormatInt(0x10000+int64(unit), 16)[1:]
				out.WriteString(`\u` + pick(r, hex, strings.ToUpper(hex)))
			} else if unit == '/' {
				out.WriteString(`\/`)
			} else {
				out.WriteByte(byte(unit))
			}
		}
		out.WriteByte('"')
	}
	var write func(v value)
	write = func(v value) {
		space()
		between := ""
		switch v.Kind() {
		case jsonvalue.String:
			s, _ := v.Text()
			text(s)
		case jsonvalue.List:
			out.WriteByte('[')
			for _, item := range v.Items() {
				out.WriteString(between)
				write(item)
				between = ","
			}
			out.WriteByte(']')
		case jsonvalue.Object:
			out.WriteByte('{')
			if r.IntN(9) == 0 && v.Len() > 0 {
				// Of two members with one name the last counts.
				for name := range v.Members() {
					text(name)
					out.WriteString(":" + odd[r.IntN(len(odd))].String())
					between = ","
					break
				}
			}
			for name, item := range v.Members() {
				out.WriteString(between)
				space()
				text(name)
				space()
				out.WriteByte(':')
				write(item)
				between = ","
			}
			out.WriteByte('}')
		default:
			out.WriteString(v.String())
		}
		space()
	}
	write(v)
	return out.String()
}

// units are the UTF-16 code units of a string in which lone surrogates have a form of their own.
func units(s string) (out []uint16) {
	for len(s) > 0 {
		c, size := utf8.DecodeRuneInString(s)
		if c == utf8.RuneError && size == 1 && len(s) >= 3 {
			out = append(out, uint16(s[0]&0xf)<<12|uint16(s[1]&0x3f)<<6|uint16(s[2]&0x3f))
			s = s[3:]
			continue
		}
		out = utf16.AppendRune(out, c)
		s = s[size:]
	}
	return out
}
