// Package tidy is the project's own lint. It reads the source tree as text and syntax, never builds it, and
// reports what no compiler and no general linter can know: which package may import which, which names
// are banned, what every package, error, skip and dependency owes its reader.
//
// [Load] reads a tree, [Run] applies every check of [Checks] to it and returns the findings in order of
// place. The test of this package runs all of them over the module itself, so that `go test ./...` fails on
// the first violation, and shows every check failing on a small tree of its own (testdata/*.txt).
//
//	tree, err := tidy.Load(os.DirFS("../.."))
//	if err != nil {
//		return err
//	}
//	for _, f := range tidy.Run(tree) {
//		fmt.Println(f)
//	}
//
// The layers of the module stand in one table, in layers.go; a new top-level directory needs a line there.
package tidy
