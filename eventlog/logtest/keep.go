package logtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// KeepVariable names the directory in which failed tests leave what it takes to
// look into them. It is unset: they leave nothing.
const KeepVariable = "AGSTORE_KEEP"

// Keep sees to it that a test that fails leaves, in a directory of its own below
// that of KeepVariable, the command line, the settings of agstore's tests, a note
// (as a seed), and what save writes there: the store's files, the history. It
// must be called before what save needs is cleaned up is registered.
func Keep(t testing.TB, note func() string, save func(dir string) error) {
	t.Helper()
	root := os.Getenv(KeepVariable)
	if root == "" {
		return
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir, err := keepDir(root, t.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "command.txt"), []byte(command(t.Name(), note())), 0o600)
		}
		if err == nil && save != nil {
			err = save(dir)
		}
		if err != nil {
			t.Logf("what the failed test left could not be kept: %v", err)
			return
		}
		t.Logf("what the failed test left is in %s", dir)
	})
}

// keepDir makes a directory that no other test has.
func keepDir(root, name string) (string, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", err
	}
	plain := strings.Map(func(r rune) rune {
		if r == '/' || r == os.PathSeparator || r < ' ' {
			return '_'
		}
		return r
	}, name)
	return os.MkdirTemp(root, plain+"-")
}

// command is how the test was run, and how it is run again.
func command(name, note string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "test: %s\nbinary and flags: %q\n", name, os.Args)
	if dir, err := os.Getwd(); err == nil {
		fmt.Fprintf(&out, "in: %s\n", dir)
	}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "AGSTORE_") {
			fmt.Fprintf(&out, "setting: %s\n", v)
		}
	}
	fmt.Fprintf(&out, "again: go test -count=1 -run '^%s$' .\n%s\n", strings.ReplaceAll(name, "/", "$/^"), note)
	return out.String()
}
