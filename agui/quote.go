package agui

import (
	"fmt"
	"unicode/utf8"
)

// Quote is s, WTF-8, as a JSON string; lone surrogates as escapes.
func Quote(s string) []byte { return quote(s) }

func quote(s string) []byte {
	out := append(make([]byte, 0, len(s)+2), '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
			i++
		case c < 0x20:
			out = fmt.Appendf(out, `\u%04x`, c)
			i++
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		case c == 0xED && i+2 < len(s) && s[i+1] >= 0xA0:
			out = fmt.Appendf(out, `\u%04x`, uint16(c&0x0F)<<12|uint16(s[i+1]&0x3F)<<6|uint16(s[i+2]&0x3F))
			i += 3
		default:
			// Ids from a command line may be any bytes; JSON may not.
			r, n := utf8.DecodeRuneInString(s[i:])
			out = utf8.AppendRune(out, r)
			i += n
		}
	}
	return append(out, '"')
}

// IsText reports whether s is WTF-8: what a JSON string can hold.
func IsText(s string) bool {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c < utf8.RuneSelf:
			i++
		case c == 0xED && i+2 < len(s) && s[i+1] >= 0xA0 && s[i+1] <= 0xBF && s[i+2]&0xC0 == 0x80:
			i += 3 // a lone surrogate
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				return false
			}
			i += n
		}
	}
	return true
}
