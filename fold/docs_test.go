package fold_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
