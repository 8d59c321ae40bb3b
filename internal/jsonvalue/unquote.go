package jsonvalue

import (
	"bytes"
	"unicode/utf8"
)

// ScanString looks at the JSON string that raw begins with. It returns how long
// it is, its quotes included, and whether its text is just what stands between
// them. ok is false if raw does not begin with a string, or if it is broken.
func ScanString(raw []byte) (length int, plain, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return 0, false, false
	}
	plain, ascii := true, true
	for i := plainRun(raw, 1); i < len(raw); i = plainRun(raw, i) {
		switch c := raw[i]; {
		case c == '"':
			return i + 1, plain, ascii || utf8.Valid(raw[1:i])
		case c == '\\':
			plain = false
			i++
		case c < 0x20:
			return 0, false, false
		case c >= utf8.RuneSelf:
			ascii = false
			for i+1 < len(raw) && raw[i+1] >= utf8.RuneSelf {
				i++
			}
		}
		i++
	}
	return 0, false, false
}

// AppendText appends the text, WTF-8, of a JSON string that [ScanString] has
// found. ok is false if one of its escapes is broken; then what was appended
// means nothing.
func AppendText(dst, quoted []byte) (out []byte, ok bool) {
	rest := quoted[1 : len(quoted)-1]
	for {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 {
			return append(dst, rest...), true
		}
		dst = append(dst, rest[:at]...)
		rest = rest[at+1:]
		if len(rest) == 0 {
			return dst, false
		}
		if rest[0] != 'u' {
			c, ok := plainEscape(rest[0])
			if !ok {
				return dst, false
			}
			dst, rest = append(dst, c), rest[1:]
			continue
		}
		r, ok := hexUnit(rest[1:])
		if !ok {
			return dst, false
		}
		rest = rest[5:]
		switch {
		case r < 0xD800 || r > 0xDFFF:
			dst = utf8.AppendRune(dst, r)
			continue
		case r < 0xDC00 && len(rest) > 1 && rest[0] == '\\' && rest[1] == 'u':
			if low, ok := hexUnit(rest[2:]); ok && 0xDC00 <= low && low <= 0xDFFF {
				dst, rest = utf8.AppendRune(dst, joined(r, low)), rest[6:]
				continue
			}
		}
		dst = appendSurrogate(dst, r)
	}
}

// plainEscape is what stands for the character behind a backslash, if that is
// not u.
func plainEscape(c byte) (byte, bool) {
	switch c {
	case '"', '\\', '/':
		return c, true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	}
	return 0, false
}

// hexUnit reads the four hexadecimal digits that s begins with.
func hexUnit[S ~string | ~[]byte](s S) (r rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for i := range 4 {
		c := s[i]
		r <<= 4
		switch {
		case '0' <= c && c <= '9':
			r |= rune(c - '0')
		case 'a' <= c && c <= 'f':
			r |= rune(c - 'a' + 10)
		case 'A' <= c && c <= 'F':
			r |= rune(c - 'A' + 10)
		default:
			return 0, false
		}
	}
	return r, true
}
