package jsonvalue

import "math/bits"

// Most bytes of most strings stand for themselves. They are looked at eight at a
// time.

const (
	eachByte = 0x0101010101010101
	topBits  = 0x80 * eachByte
)

// special marks, by their top bits, the bytes of a word that are quotes,
// backslashes, control characters or not ASCII. Above the lowest of them others
// may be marked too.
func special(word uint64) uint64 {
	quote, slash := word^'"'*eachByte, word^'\\'*eachByte
	return ((quote-eachByte)&^quote | (slash-eachByte)&^slash | (word-0x20*eachByte)&^word | word) & topBits
}

// plainRun returns the index from which on s is not known to be plain: that of
// the first special byte, or one less than eight bytes before the end.
func plainRun[S ~string | ~[]byte](s S, from int) int {
	for ; from+8 <= len(s); from += 8 {
		b := s[from : from+8]
		word := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		if marks := special(word); marks != 0 {
			return from + bits.TrailingZeros64(marks)/8
		}
	}
	return from
}

// isPlain reports whether no byte of s is special.
func isPlain(s string) bool {
	if len(s) < 8 {
		for i := range len(s) {
			if c := s[i]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
				return false
			}
		}
		return true
	}
	// The last word may overlap the one before.
	return plainRun(s, 0) > len(s)-8 && plainRun(s, len(s)-8) == len(s)
}
