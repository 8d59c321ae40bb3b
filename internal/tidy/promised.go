package tidy

import (
	"go/ast"
	"regexp"
	"strings"
)

// promisesPage says which test shows which promise.
const promisesPage = "docs/durability.md"

var testName = regexp.MustCompile("`(?:Test|Fuzz)[A-Z][A-Za-z0-9]*(?:/[A-Za-z0-9]+)?`")

// checkPromised wants every test that the page of promises names to be there: `TestA`, and of `TestA/B` the part
// B too, which the function testB is, or a text "B".
func checkPromised(t *Tree, report Report) {
	there := map[string]bool{}
	for f := range t.files {
		if f.usesTesting() {
			testsOf(f, there)
		}
	}
	eachMatch(t.Texts[promisesPage], testName, func(line int, match string) {
		name, part, parted := strings.Cut(strings.Trim(match, "`"), "/")
		if !there[name] || parted && !there["test"+part] && !there[`"`+part+`"`] {
			report(promisesPage, line, "%s is no test: what shows the promise?", strings.Trim(match, "`"))
		}
	})
}

// testsOf notes the functions and the texts of a test file.
func testsOf(f *File, there map[string]bool) {
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil {
				there[n.Name.Name] = true
			}
		case *ast.BasicLit:
			there[n.Value] = true
		}
		return true
	})
}
