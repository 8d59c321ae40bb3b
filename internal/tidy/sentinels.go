package tidy

import (
	"go/ast"
	"go/token"
	"regexp"
)

var sentinelName = regexp.MustCompile(`^Err[A-Z]`)

// checkSentinels wants a doc comment on every exported package-level variable named Err…, and its name in the
// code (not the comments) of at least one test file or test kit. A name that several packages export, because
// one hands on the other's error, needs one test.
func checkSentinels(t *Tree, report Report) {
	tested := map[string]bool{}
	for f := range t.files {
		if f.usesTesting() {
			sentinelUses(f, tested)
		}
	}
	for f := range t.files {
		if f.Test || f.Syntax.Name.Name == "main" {
			continue
		}
		for name, doc := range sentinels(f) {
			if doc == "" {
				report(f.Path, t.line(name), "%s has no doc comment", name.Name)
			}
			if !tested[name.Name] {
				report(f.Path, t.line(name), "%s is named by no test: is it ever returned?", name.Name)
			}
		}
	}
}

// sentinels yields the exported errors that a file declares at package level, with their doc comments.
func sentinels(f *File) func(yield func(*ast.Ident, string) bool) {
	return func(yield func(*ast.Ident, string) bool) {
		for _, decl := range f.Syntax.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				value := spec.(*ast.ValueSpec)
				doc := value.Doc.Text()
				if !gen.Lparen.IsValid() {
					doc = gen.Doc.Text()
				}
				for _, name := range value.Names {
					if sentinelName.MatchString(name.Name) && !yield(name, doc) {
						return
					}
				}
			}
		}
	}
}

// sentinelUses notes the Err… names in a test file's code: those of errors.Is and errors.As, and those in the
// tables that feed them. What the file itself declares is not a use.
func sentinelUses(f *File, tested map[string]bool) {
	declared := map[*ast.Ident]bool{}
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for _, name := range n.Names {
				declared[name] = true
			}
		case *ast.Ident:
			if sentinelName.MatchString(n.Name) && !declared[n] {
				tested[n.Name] = true
			}
		}
		return true
	})
}
