package fold_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
)

// Every rule that a diagnostic may have is in docs/fold.md, and none that has
// gone.
func TestDiagnosticsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/fold.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "\n## Diagnostics\n")
	table, _, _ = strings.Cut(table, "\n## ")
	if !ok {
		t.Fatal("docs/fold.md has no section on diagnostics")
	}
	documented := make(map[string]bool)
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			documented[m[1]] = true
		}
	}
	files, err := filepath.Glob("durable*.go")
	if err != nil {
		t.Fatal(err)
	}
	given := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`diagnose(?:At)?\((?:r\.overtaken, )?"([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
			given[m[1]] = true
		}
	}
	for rule := range given {
		if !documented[rule] {
			t.Errorf("docs/fold.md does not say what %s is", rule)
		}
	}
	for rule := range documented {
		if !given[rule] {
			t.Errorf("docs/fold.md describes %s, which no code gives", rule)
		}
	}
}

// The example in docs/fold-snapshot.md is a snapshot of the events there.
func TestSnapshotExampleIsTrue(t *testing.T) {
	page, err := os.ReadFile("../docs/fold-snapshot.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## An example\n")
	blocks := strings.Split(section, "```\n")
	if len(blocks) < 4 {
		t.Fatal("docs/fold-snapshot.md has no example")
	}
	f := fold.New(fold.Options{})
	for i, line := range strings.Split(strings.TrimSpace(blocks[1]), "\n") {
		f.Apply(fold.Record{Seq: uint64(i) + 1, Run: agui.RunKey{ID: "r", Attempt: 1}, Raw: []byte(line)})
	}
	var shown []byte
	for line := range strings.Lines(blocks[3]) {
		bytes, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		raw, err := hex.DecodeString(strings.ReplaceAll(bytes, " ", ""))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		shown = append(shown, raw...)
	}
	if got := f.Snapshot(nil); string(got) != string(shown) {
		t.Errorf("the example has\n% x\na snapshot is\n% x", shown, got)
	}
}
