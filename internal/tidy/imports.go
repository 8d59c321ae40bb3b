package tidy

import (
	"go/ast"
	"slices"
	"strings"
)

// checkImports compares every import of a package of this module with the table of layers.
func checkImports(t *Tree, report Report) {
	for _, dir := range t.dirs() {
		own, ok := layerOf(dir)
		if !ok {
			report(dir, 0, "family %s has no layer: add it to the table in internal/tidy/layers.go", family(dir))
			continue
		}
		for _, f := range t.Packages[dir].Files {
			for _, imp := range f.Imports {
				target, isLocal := t.local(imp.Path)
				if !isLocal {
					continue
				}
				if slices.Contains(kits, target) && !f.usesTesting() && !slices.Contains(kits, dir) {
					report(f.Path, imp.Line, "%s is for tests only", target)
				}
				if why := refused(dir, own, target, f.Test); why != "" {
					report(f.Path, imp.Line, "%s must not import %s: %s", dir, target, why)
				}
			}
		}
	}
}

// refused says why a package may not import another, or nothing.
func refused(dir string, own int, target string, test bool) string {
	layer, ok := layerOf(target)
	from, to := family(dir), family(target)
	switch {
	case !ok:
		return "it has no layer"
	case from == to || layer < own, test && slices.Contains(kits, target):
		return ""
	case layer > own:
		return "it is of a higher layer"
	case test || slices.Contains(sideways[from], to):
		return ""
	}
	return "it is of the same layer"
}

// checkFences looks at the imports that only a few packages may make.
func checkFences(t *Tree, report Report) {
	for _, dir := range t.dirs() {
		for _, f := range t.Packages[dir].Files {
			for _, imp := range f.Imports {
				for _, fence := range fences {
					if t.crosses(fence, dir, f, imp.Path) {
						report(f.Path, imp.Line, "%s must not import %s: only %s", dir, imp.Path, fence.who())
					}
				}
			}
		}
	}
}

func (t *Tree) crosses(f fence, dir string, file *File, importPath string) bool {
	what := f.what
	if rest, isLocal := strings.CutPrefix(what, "./"); isLocal {
		what = t.Module + "/" + rest
	}
	if !within(importPath, what) || f.tests && file.Test {
		return false
	}
	return !slices.ContainsFunc(f.allowed, func(root string) bool { return within(dir, root) })
}

// who names those that a fence lets through.
func (f fence) who() string {
	names := strings.Join(f.allowed, ", ")
	if f.tests {
		names += " and tests"
	}
	return names + " may"
}

// checkPure follows the imports of the pure packages through this module, and refuses what no pure package has
// a use for. Test files are not meant: they read their testdata.
func checkPure(t *Tree, report Report) {
	reached := map[string]string{} // directory -> the pure package that needs it
	var visit func(dir, root string)
	visit = func(dir, root string) {
		p := t.Packages[dir]
		if _, seen := reached[dir]; seen || p == nil {
			return
		}
		reached[dir] = root
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			t.checkPureFile(f, root, report)
			for _, imp := range f.Imports {
				if target, isLocal := t.local(imp.Path); isLocal {
					visit(target, root)
				}
			}
		}
	}
	for _, dir := range t.dirs() {
		if slices.Contains(pureRoots, family(dir)) {
			visit(dir, family(dir))
		}
	}
}

func (t *Tree) checkPureFile(f *File, root string, report Report) {
	for _, imp := range f.Imports {
		if slices.ContainsFunc(impure, func(path string) bool { return within(imp.Path, path) }) {
			report(f.Path, imp.Line, "%s is pure: no %s", root, imp.Path)
		}
	}
	for _, name := range clockCalls {
		for _, call := range uses(f, "time", name) {
			report(f.Path, t.line(call), "%s is pure: no time.%s", root, name)
		}
	}
}

// uses finds every mention of a name that a file takes from an imported package, under whatever name the file
// imports it.
func uses(f *File, importPath, name string) []ast.Node {
	local := ""
	for _, spec := range f.Syntax.Imports {
		if strings.Trim(spec.Path.Value, "\"`") != importPath {
			continue
		}
		local = importPath[strings.LastIndexByte(importPath, '/')+1:]
		if spec.Name != nil {
			local = spec.Name.Name
		}
	}
	if local == "" {
		return nil
	}
	var found []ast.Node
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == name {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}
