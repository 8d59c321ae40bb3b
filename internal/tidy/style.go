package tidy

import (
	"bytes"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

const maxLines = 800

func checkNames(t *Tree, report Report) {
	for _, dir := range t.dirs() {
		for _, name := range []string{path.Base(dir), t.Packages[dir].Name} {
			if slices.Contains(bannedNames, name) {
				report(dir, 0, "a package named %s says nothing about what it holds", name)
				break
			}
		}
	}
}

// checkComments wants the package comment in doc.go, in Go's form; a command has it wherever it likes.
func checkComments(t *Tree, report Report) {
	for _, dir := range t.dirs() {
		p := t.Packages[dir]
		place, text := "", ""
		for _, f := range p.Files {
			if doc := f.Syntax.Doc.Text(); doc != "" && !f.Test {
				if text == "" || path.Base(f.Path) == "doc.go" {
					place, text = f.Path, doc
				}
			}
		}
		switch {
		case text == "":
			report(dir, 0, "package %s has no package comment", p.Name)
		case p.Name == "main":
		case path.Base(place) != "doc.go":
			report(place, 0, "the package comment of %s belongs in doc.go", p.Name)
		case !strings.HasPrefix(text, "Package "+p.Name+" "):
			report(place, 0, "the package comment must begin with \"Package %s \"", p.Name)
		}
	}
}

func checkSleeps(t *Tree, report Report) {
	for f := range t.files {
		if !f.usesTesting() {
			continue
		}
		for _, n := range uses(f, "time", "Sleep") {
			report(f.Path, t.line(n), "a test waits for what it needs; it does not sleep")
		}
	}
}

// checkSkips looks at the calls Skip, Skipf and SkipNow of what tests and fuzz targets name t, b, f, tb or rt.
func checkSkips(t *Tree, report Report) {
	for f := range t.files {
		if !f.usesTesting() {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && skipsSilently(call) {
				report(f.Path, t.line(call), "a skipped test must say why")
			}
			return true
		})
	}
}

func skipsSilently(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || !slices.Contains([]string{"t", "b", "f", "tb", "rt"}, x.Name) {
		return false
	}
	switch sel.Sel.Name {
	case "SkipNow":
		return true
	case "Skip", "Skipf":
		if len(call.Args) == 0 {
			return true
		}
		lit, ok := call.Args[0].(*ast.BasicLit)
		return ok && lit.Kind == token.STRING && strings.TrimSpace(strings.Trim(lit.Value, "\"`")) == ""
	}
	return false
}

func checkSize(t *Tree, report Report) {
	for f := range t.files {
		if n := bytes.Count(t.Texts[f.Path], []byte("\n")); n > maxLines {
			report(f.Path, 0, "%d lines, over %d: where would a reader cut it?", n, maxLines)
		}
	}
}

var marks = regexp.MustCompile(`\b(TO[D]O|FIX[M]E|XX[X])\b`)

func checkMarks(t *Tree, report Report) {
	for f := range t.files {
		eachMatch(t.Texts[f.Path], marks, func(line int, match string) {
			report(f.Path, line, "%s: finish it, or say it on the issue", match)
		})
	}
}

// eachMatch calls found with the line and text of each match.
func eachMatch(text []byte, re *regexp.Regexp, found func(line int, match string)) {
	line := 0
	for content := range bytes.Lines(text) {
		line++
		for _, match := range re.FindAll(content, -1) {
			found(line, string(match))
		}
	}
}
