package jsonvalue

import (
	"fmt"
	"strings"
	"testing"
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
