package tidy

import (
	"cmp"
	"fmt"
	"slices"
)

// A Finding is one place that breaks a rule.
type Finding struct {
	Path  string // file or directory, from the root
	Line  int    // from 1; 0 where the whole file or directory is meant
	Check string // name of the check
	Text  string // what is wrong and, where it is not plain, what to do
}

// String gives the finding in the form file:line: text (check).
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s (%s)", f.Path, f.Text, f.Check)
	}
	return fmt.Sprintf("%s:%d: %s (%s)", f.Path, f.Line, f.Text, f.Check)
}

// A Check is one rule: it reports each place that breaks it.
type Check struct {
	Name string
	Rule string // the rule in one sentence
	Run  func(*Tree, Report)
}

// A Report takes one finding of the check that is running.
type Report func(path string, line int, format string, args ...any)

// Checks are all rules of the project, in the order in which they run.
func Checks() []Check {
	return []Check{
		{"imports", "imports run downward through the layers only", checkImports},
		{"fences", "storage, network, engines and servers are imported where they belong and nowhere else", checkFences},
		{"pure", "agui and fold, with all they import, touch no file, no network and no clock", checkPure},
		{"names", "no package is named for what it is not", checkNames},
		{"comments", "every package says in doc.go what it is", checkComments},
		{"sleeps", "no test sleeps", checkSleeps},
		{"skips", "every skipped test says why", checkSkips},
		{"sentinels", "every exported sentinel error is documented and named by a test", checkSentinels},
		{"size", "no Go file is over 800 lines", checkSize},
		{"marks", "no unfinished work is marked in Go files", checkMarks},
		{"places", "no text names a path of somebody's machine or the host of a registry", checkPlaces},
		{"dependencies", "every direct dependency is explained in docs/dependencies.md", checkDependencies},
		{"promised", "every test that docs/durability.md names is there", checkPromised},
	}
}

// Run applies every check to a tree. Findings come sorted by path, line, check and text.
func Run(t *Tree) []Finding {
	var all []Finding
	for _, c := range Checks() {
		c.Run(t, func(path string, line int, format string, args ...any) {
			all = append(all, Finding{path, line, c.Name, fmt.Sprintf(format, args...)})
		})
	}
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Check, b.Check), cmp.Compare(a.Text, b.Text))
	})
	return all
}
