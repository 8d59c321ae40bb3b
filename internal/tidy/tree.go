package tidy

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A Tree is the source of one module as the checks see it.
type Tree struct {
	Module   string              // module path, from go.mod
	Requires []Require           // the module's requirements, direct and indirect, in go.mod's order
	Packages map[string]*Package // by directory, "." for the root
	Texts    map[string][]byte   // every text file, Go files among them, by path
	fset     *token.FileSet      // positions of all Files
}

// A Require is one module that go.mod asks for.
type Require struct {
	Path     string
	Version  string
	Indirect bool
}

// A Package is one directory with Go files. Its external test package, if any, counts as part of it.
type Package struct {
	Dir   string
	Name  string // of the files that are not of the external test package
	Files []*File
}

// A File is one parsed Go file.
type File struct {
	Path    string // from the root, with forward slashes
	Test    bool   // named *_test.go
	Syntax  *ast.File
	Imports []Import
}

// An Import is one import of a file.
type Import struct {
	Path string
	Line int
}

// Load reads a tree. Directories that hold no source of ours (.git, node_modules, and whatever the root's
// .gitignore names) are left out; testdata counts as text only. A Go file that does not parse is an error.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{Packages: map[string]*Package{}, Texts: map[string][]byte{}, fset: token.NewFileSet()}
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("load tree: %w", err)
	}
	t.readModule(string(mod))
	ignored, err := ignoreList(fsys)
	if err != nil {
		return nil, fmt.Errorf("load tree: %w", err)
	}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && ignored.match(name, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(data, 0) >= 0 {
			return nil // not text
		}
		t.Texts[name] = data
		if path.Ext(name) == ".go" && !inTestdata(name) {
			return t.addGo(name, data)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load tree: %w", err)
	}
	return t, nil
}

func inTestdata(name string) bool {
	return slices.Contains(strings.Split(path.Dir(name), "/"), "testdata")
}

// addGo parses one Go file and files it with its package.
func (t *Tree) addGo(name string, data []byte) error {
	syntax, err := parser.ParseFile(t.fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &File{Path: name, Test: strings.HasSuffix(name, "_test.go"), Syntax: syntax}
	for _, spec := range syntax.Imports {
		f.Imports = append(f.Imports, Import{Path: strings.Trim(spec.Path.Value, "\"`"), Line: t.line(spec)})
	}
	dir := path.Dir(name)
	p := t.Packages[dir]
	if p == nil {
		p = &Package{Dir: dir}
		t.Packages[dir] = p
	}
	p.Files = append(p.Files, f)
	if pkg := syntax.Name.Name; p.Name == "" || !f.Test {
		p.Name = strings.TrimSuffix(pkg, "_test")
	}
	return nil
}

// readModule takes the module path and the requirements out of go.mod.
func (t *Tree) readModule(mod string) {
	block := false
	for line := range strings.Lines(mod) {
		text, comment, _ := strings.Cut(line, "//")
		words := strings.Fields(text)
		switch {
		case len(words) == 2 && words[0] == "module":
			t.Module = words[1]
		case len(words) == 2 && words[0] == "require" && words[1] == "(":
			block = true
		case len(words) == 1 && words[0] == ")":
			block = false
		case len(words) == 3 && words[0] == "require":
			t.Requires = append(t.Requires, Require{words[1], words[2], strings.TrimSpace(comment) == "indirect"})
		case block && len(words) == 2:
			t.Requires = append(t.Requires, Require{words[0], words[1], strings.TrimSpace(comment) == "indirect"})
		}
	}
}

// line is the line number of a node.
func (t *Tree) line(n ast.Node) int { return t.fset.Position(n.Pos()).Line }

// dirs lists the directories of all packages, sorted.
func (t *Tree) dirs() []string {
	dirs := make([]string, 0, len(t.Packages))
	for dir := range t.Packages {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}

// files yields every Go file of the tree, by package and path.
func (t *Tree) files(yield func(*File) bool) {
	for _, dir := range t.dirs() {
		for _, f := range t.Packages[dir].Files {
			if !yield(f) {
				return
			}
		}
	}
}

// local turns an import path into the directory of a package of this module.
func (t *Tree) local(importPath string) (dir string, ok bool) {
	if importPath == t.Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.Module+"/")
}

// usesTesting tells whether a file is test code: a test file, or part of a kit that tests import.
func (f *File) usesTesting() bool {
	return f.Test || slices.ContainsFunc(f.Imports, func(i Import) bool { return i.Path == "testing" })
}

// An ignores is what the walk leaves out: the patterns of a .gitignore, in the simple form that this project
// uses (a name or a glob, at the root with a leading slash, directories alone with a trailing one).
type ignores []string

func ignoreList(fsys fs.FS) (ignores, error) {
	list := ignores{"/.git", "node_modules/"}
	data, err := fs.ReadFile(fsys, ".gitignore")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list, nil
}

func (list ignores) match(name string, dir bool) bool {
	for _, pattern := range list {
		rooted, dirOnly := strings.HasPrefix(pattern, "/"), strings.HasSuffix(pattern, "/")
		if dirOnly && !dir {
			continue
		}
		target := path.Base(name)
		if rooted {
			target = name
		}
		if ok, err := path.Match(strings.Trim(pattern, "/"), target); ok && err == nil {
			return true
		}
	}
	return false
}
