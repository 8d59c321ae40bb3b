package jsonvalue

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends v as JSON text without white space: members in their
// order, numbers as they were written, lone surrogates as lower-case escapes,
// everything else that JSON allows raw. An absent value appends nothing.
func (v Value) AppendJSON(dst []byte) []byte { return v.print(dst, nil) }

// maxPrinted is how long a list or an object may be, about, that keeps its text.
const maxPrinted = 1 << 10

// print is AppendJSON, without copying each value once more. Short lists and
// objects of the document o, which nobody else can see, keep what they are
// printed as. What is inside of one that does keeps nothing: no text is kept
// more than once.
func (v *Value) print(dst []byte, o *owner) []byte {
	switch v.kind {
	case String:
		return AppendString(dst, v.text)
	case Number:
		return append(dst, v.text...)
	case chunk:
		return v.node.printItems(dst, o)
	case List, Object:
		n := v.node
		if n.printed != "" {
			return append(dst, n.printed...)
		}
		if o == nil || n.owner != o || n.size > maxPrinted {
			return v.printInside(dst, o)
		}
		from := len(dst)
		dst = v.printInside(dst, nil)
		n.printed = string(dst[from:])
		return dst
	}
	return v.appendScalar(dst)
}

func (v *Value) printInside(dst []byte, o *owner) []byte {
	if v.kind == List {
		return append(v.node.printItems(append(dst, '['), o), ']')
	}
	dst = append(dst, '{')
	first := true
	for i := range v.node.items {
		item := &v.node.items[i]
		if item.kind == Absent {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(AppendString(dst, v.node.keys[i]), ':')
		dst = item.print(dst, o)
	}
	return append(dst, '}')
}

func (n *node) printItems(dst []byte, o *owner) []byte {
	for i := range n.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = n.items[i].print(dst, o)
	}
	return dst
}

// AppendCanonical appends v as canonical JSON (RFC 8785): members sorted by the
// UTF-16 code units of their names, numbers as ECMAScript prints the doubles
// they denote. A number beyond the range of doubles is null, as the official
// client prints it (SEMANTICS N-1).
func (v Value) AppendCanonical(dst []byte) []byte {
	switch v.kind {
	case Number:
		f, _ := v.Float()
		return appendDouble(dst, f)
	case List:
		dst = append(dst, '[')
		for i, item := range v.node.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.AppendCanonical(dst)
		}
		return append(dst, ']')
	case chunk:
		for i, item := range v.node.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.AppendCanonical(dst)
		}
		return dst
	case Object:
		slots := make([]int, 0, len(v.node.items))
		for i, item := range v.node.items {
			if item.Present() {
				slots = append(slots, i)
			}
		}
		keys := v.node.keys
		slices.SortFunc(slots, func(a, b int) int { return CompareNames(keys[a], keys[b]) })
		dst = append(dst, '{')
		for i, slot := range slots {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, keys[slot]), ':')
			dst = v.node.items[slot].AppendCanonical(dst)
		}
		return append(dst, '}')
	}
	return v.appendScalar(dst)
}

func (v Value) appendScalar(dst []byte) []byte {
	switch v.kind {
	case Null:
		return append(dst, "null"...)
	case Bool:
		return strconv.AppendBool(dst, v.truth)
	case String:
		return AppendString(dst, v.text)
	}
	return dst
}

// MarshalJSON is [Value.AppendJSON]; an absent value is null there.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Present() {
		return []byte("null"), nil
	}
	return v.AppendJSON(nil), nil
}

// String is the value as JSON text, for messages and tests.
func (v Value) String() string { return string(v.AppendJSON(nil)) }

// appendDouble prints a double as ECMAScript does.
func appendDouble(dst []byte, f float64) []byte {
	switch abs := math.Abs(f); {
	case math.IsInf(f, 0) || math.IsNaN(f):
		return append(dst, "null"...)
	case f == 0:
		return append(dst, '0')
	case abs >= 1e-6 && abs < 1e21:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes an exponent with two digits at least, ECMAScript with one.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// AppendString appends s, WTF-8, as a JSON string. Bytes that are neither UTF-8
// nor a surrogate become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	if isPlain(s) {
		dst = append(dst, s...)
		return append(dst, '"')
	}
	from := 0
	for i := plainRun(s, 0); i < len(s); i = plainRun(s, i) {
		c := s[i]
		switch {
		case c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf:
			i++
			continue
		case c < utf8.RuneSelf:
			dst = append(dst, s[from:i]...)
			dst = appendEscape(dst, c)
			i++
		case c == 0xED && len(s)-i >= 3 && s[i+1] >= 0xA0 && s[i+1] <= 0xBF:
			dst = append(dst, s[from:i]...)
			r := surrogate(s[i:])
			dst = append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
			i += 3
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			dst = append(dst, s[from:i]...)
			dst = append(dst, "\uFFFD"...)
			i++
		}
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
