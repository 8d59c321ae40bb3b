package fold

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The streams in testdata/differential are what the comparison with the official
// client (interop, TestDifferential) has once found a difference with, made as
// short as they can be; NAME.prefix.txt is what the client holds after each
// event, as fold.mjs there prints it.
func TestDifferentialCases(t *testing.T) {
	files, err := filepath.Glob("testdata/differential/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			want, err := os.ReadFile(strings.TrimSuffix(file, ".jsonl") + ".prefix.txt")
			if err != nil {
				t.Fatal(err)
			}
			events, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := differentialAnswer(events); got != string(want) {
				t.Errorf("Reference has\n%s\nthe client\n%s", got, want)
			}
		})
	}
}

// differentialAnswer is what Reference holds after each event, up to one that
// ends the stream.
func differentialAnswer(events []byte) string {
	var out strings.Builder
	f := New(Options{Profile: Reference})
	n := 0
	for line := range bytes.Lines(events) {
		n++
		apply(f, string(bytes.TrimSuffix(line, []byte("\n"))))
		v := f.View()
		failed := v.Reference.Error != nil
		v.Reference = nil // so that what is held after an error shows
		out.Write(v.AppendDigests(nil, n))
		if failed {
			out.WriteString(" ERROR\n")
			break
		}
		out.WriteByte('\n')
	}
	return out.String()
}
