package jsonvalue

import (
	"strings"
	"unicode/utf8"
)

// A surrogate in WTF-8 is three bytes: 0xED, 0xA0 to 0xAF (the first half of a
// character) or 0xB0 to 0xBF (the second half), and one more.

func endsWithHigh[S ~string | ~[]byte](s S) bool {
	n := len(s)
	return n >= 3 && s[n-3] == 0xED && s[n-2] >= 0xA0 && s[n-2] <= 0xAF
}

func beginsWithLow[S ~string | ~[]byte](s S) bool {
	return len(s) >= 3 && s[0] == 0xED && s[1] >= 0xB0 && s[1] <= 0xBF
}

// surrogate is the code unit of the three bytes at the beginning of s.
func surrogate[S ~string | ~[]byte](s S) rune {
	return rune(s[0]&0x0F)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
}

func appendSurrogate(dst []byte, r rune) []byte {
	return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
}

func joined(high, low rune) rune { return (high-0xD800)<<10 + (low - 0xDC00) + 0x10000 }

// JoinText is a followed by b, WTF-8 both. Where a ends with the first half of
// a character and b begins with its second half, the character is whole in the
// result.
func JoinText(a, b string) string {
	if endsWithHigh(a) && beginsWithLow(b) {
		r := joined(surrogate(a[len(a)-3:]), surrogate(b))
		return a[:len(a)-3] + string(r) + b[3:]
	}
	return a + b
}

// Text is a text that grows. Appending costs what is appended, and a String
// taken earlier stays as it was. The zero Text is empty. A Text must not be
// copied once it is in use.
type Text struct {
	settled strings.Builder
	half    rune // a first half at the end, whose partner may still come; 0: none
}

// NewText returns a Text that begins with s.
func NewText(s string) *Text {
	t := new(Text)
	t.Append(s)
	return t
}

// Append adds s, WTF-8, at the end, as [JoinText] does.
func (t *Text) Append(s string) { appendTo(t, s, (*strings.Builder).WriteString) }

// AppendBytes is Append for text that is not a string yet.
func (t *Text) AppendBytes(s []byte) { appendTo(t, s, (*strings.Builder).Write) }

func appendTo[S ~string | ~[]byte](t *Text, s S, write func(*strings.Builder, S) (int, error)) {
	if len(s) == 0 {
		return
	}
	if t.half != 0 {
		if beginsWithLow(s) {
			t.settled.WriteRune(joined(t.half, surrogate(s)))
			s = s[3:]
		} else {
			t.settled.Write(appendSurrogate(nil, t.half))
		}
		t.half = 0
	}
	if endsWithHigh(s) {
		t.half = surrogate(s[len(s)-3:])
		s = s[:len(s)-3]
	}
	// Twice the room at a time: a long text is copied less often, and leaves less
	// behind, than if it grew as slices do.
	if t.settled.Cap()-t.settled.Len() < len(s) {
		t.settled.Grow(len(s))
	}
	write(&t.settled, s)
}

// String is the whole text.
func (t *Text) String() string {
	if t.half != 0 {
		return t.settled.String() + string(appendSurrogate(nil, t.half))
	}
	return t.settled.String()
}

// Touch reads where the text ends, and changes nothing: the memory that the next
// piece is written to is then at hand. What it returns means nothing.
func (t *Text) Touch() byte {
	if s := t.settled.String(); s != "" {
		return s[len(s)-1]
	}
	return 0
}

// Len is the length of the text in bytes.
func (t *Text) Len() int {
	if t.half != 0 {
		return t.settled.Len() + 3
	}
	return t.settled.Len()
}

// CompareNames compares two strings by their UTF-16 code units, the order of
// members in canonical JSON (RFC 8785, section 3.2.3).
func CompareNames(a, b string) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	if i == len(a) || i == len(b) {
		return len(a) - len(b)
	}
	if a[i] < 0xED && b[i] < 0xED {
		return int(a[i]) - int(b[i])
	}
	for i > 0 && (i < len(a) && !utf8.RuneStart(a[i]) || i < len(b) && !utf8.RuneStart(b[i])) {
		i--
	}
	x, y := units(a[i:]), units(b[i:])
	for k := 0; k < len(x) && k < len(y); k++ {
		if x[k] != y[k] {
			return int(x[k]) - int(y[k])
		}
	}
	return len(x) - len(y)
}

// units are the first code units of s, as many as it takes to tell two strings
// apart that differ in the character they begin with.
func units(s string) []uint16 {
	out := make([]uint16, 0, 4)
	for len(out) < 3 && s != "" {
		if s[0] == 0xED && len(s) >= 3 && s[1] >= 0xA0 {
			out = append(out, uint16(surrogate(s)))
			s = s[3:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		s = s[n:]
		if r >= 0x10000 {
			r -= 0x10000
			out = append(out, 0xD800+uint16(r>>10), 0xDC00+uint16(r&0x3FF))
			continue
		}
		out = append(out, uint16(r))
	}
	return out
}
