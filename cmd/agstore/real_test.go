package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// noEvents are the streams of the corpora that have a line which is no event;
// what the line is said to be.
var noEvents = map[string]string{
	"transport-array-fatal":       "not an object",
	"transport-no-type-fatal":     `no string member "type"`,
	"transport-not-json-fatal":    "cut off inside an object",
	"transport-null-fatal":        "not an object",
	"transport-type-number-fatal": `no string member "type"`,
}

// Must hold 2: real input. Every stream of the corpora goes in and comes out as
// it was, and can be shown; those that are no events are refused with the line.
func TestRealInput(t *testing.T) {
	var files []string
	for _, corpus := range []string{"oracle", "durable"} {
		found, err := filepath.Glob(filepath.Join("..", "..", "fold", "testdata", corpus, "*.jsonl"))
		if err != nil || len(found) < 30 {
			t.Fatalf("the corpus %s has %d streams, %v", corpus, len(found), err)
		}
		files = append(files, found...)
	}
	c := newCLI(t)
	c.hold(true)
	refused := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if says, bad := noEvents[name]; bad {
			refused++
			r := c.fails(exitRefused, says, "import", name, file)
			if !strings.Contains(r.err, ": line ") {
				t.Errorf("%s: the line is not named: %s", name, r.err)
			}
			c.fails(exitNotFound, "", "show", name)
			continue
		}
		c.ok("import", name, file)
		var want bytes.Buffer
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				want.Write(append(line, '\n'))
			}
		}
		if got := c.ok("export", name); got != want.String() {
			t.Errorf("%s: what comes out is not what went in", name)
		}
		if shown := c.ok("show", name, "--json"); !json.Valid([]byte(shown)) {
			t.Errorf("%s: the view is no JSON", name)
		}
		c.ok("replay", name, "--speed", "max")
		c.ok("show", name, "--transcript")
	}
	if refused != len(noEvents) {
		t.Errorf("%d streams were refused, want %d", refused, len(noEvents))
	}
}
