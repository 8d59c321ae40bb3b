package tidy_test

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agstore/agstore/internal/tidy"
)

// TestModule holds the module itself to every rule.
func TestModule(t *testing.T) {
	tree, err := tidy.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if tree.Module != "github.com/agstore/agstore" || tree.Packages["internal/tidy"] == nil {
		t.Fatalf("loaded %q with %d packages: not this module", tree.Module, len(tree.Packages))
	}
	for _, f := range tidy.Run(tree) {
		t.Error(f)
	}
}

// TestChecks shows every check failing. Each testdata/NAME.txt is a small tree that breaks the rules of the check
// NAME, with what the check must say under "want", and nothing else.
func TestChecks(t *testing.T) {
	for _, check := range tidy.Checks() {
		t.Run(check.Name, func(t *testing.T) {
			files := readArchive(t, "testdata/"+check.Name+".txt")
			want := strings.Split(strings.TrimSpace(string(files["want"].Data)), "\n")
			delete(files, "want")
			if files["go.mod"] == nil {
				files["go.mod"] = &fstest.MapFile{Data: []byte("module example.test/m\n")}
			}
			if !strings.Contains(want[0], "("+check.Name+")") {
				t.Fatalf("the fixture wants no finding of %s", check.Name)
			}
			tree, err := tidy.Load(files)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range tidy.Run(tree) {
				if f.Check == check.Name {
					got = append(got, f.String())
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func TestLoadLeavesOut(t *testing.T) {
	tree, err := tidy.Load(fstest.MapFS{
		"go.mod":                  {Data: []byte("module example.test/m\n")},
		".gitignore":              {Data: []byte("# built\n/m\n*.out\nscratch/\n")},
		"a.go":                    {Data: []byte("package m\n")},
		"m":                       {Data: []byte("text")},
		"sub/m":                   {Data: []byte("text")},
		"sub/cover.out":           {Data: []byte("text")},
		"sub/scratch/a.go":        {Data: []byte("package scratch\n")},
		"testdata/bad.go":         {Data: []byte("no Go at all")},
		"picture.png":             {Data: []byte("\x89PNG\x00")},
		".git/config":             {Data: []byte("text")},
		"web/node_modules/x/x.go": {Data: []byte("package x\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for name := range tree.Texts {
		got = append(got, name)
	}
	slices.Sort(got)
	if want := []string{".gitignore", "a.go", "go.mod", "sub/m", "testdata/bad.go"}; !slices.Equal(got, want) {
		t.Errorf("texts = %q, want %q", got, want)
	}
	if len(tree.Packages) != 1 || tree.Packages["."] == nil {
		t.Errorf("packages = %v, want the root alone", tree.Packages)
	}
}

func TestLoadErrors(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"no go.mod": {"a.go": {Data: []byte("package m\n")}},
		"not Go":    {"go.mod": {Data: []byte("module m\n")}, "a.go": {Data: []byte("packag m\n")}},
	} {
		if tree, err := tidy.Load(files); err == nil {
			t.Errorf("%s: loaded %v without an error", name, tree.Packages)
		}
	}
}

// readArchive reads a text file of the form "-- NAME --" line, then the file's lines, and so on. What stands
// before the first name is a comment. Every "~" is taken out, so that a fixture can hold what the lint refuses
// without being refused itself.
func readArchive(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	data, err := fs.ReadFile(os.DirFS(path.Dir(name)), path.Base(name))
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{"want": {}}
	var current *fstest.MapFile
	for line := range strings.Lines(strings.ReplaceAll(string(data), "~", "")) {
		if rest, ok := strings.CutPrefix(line, "-- "); ok {
			current = &fstest.MapFile{}
			files[strings.TrimSuffix(strings.TrimSpace(rest), " --")] = current
		} else if current != nil {
			current.Data = append(current.Data, line...)
		}
	}
	return files
}
