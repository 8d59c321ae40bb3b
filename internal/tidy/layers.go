package tidy

import "strings"

// layers holds the families of packages from the bottom up; a family is a top-level directory with all below
// it, "." the root package. A family imports families of lower layers only, and itself. Two families of one
// layer do not know each other.
var layers = [][]string{
	{"agui", "internal"},
	{"eventlog", "fold"},
	{"replay", "projection", "feed"},
	{"."},
	{"session", "agstoretest"},
	{"directory"},
	{"api"},
	{"cmd", "bench", "examples", "interop", "crashtest"},
}

// sideways are the exceptions from the last rule: the key may import the values, of its own layer. agui and
// internal, at the bottom, share what the one decodes and the other reads; replay looks at stored views.
var sideways = map[string][]string{
	"agui":     {"internal"},
	"internal": {"agui"},
	"replay":   {"projection"},
}

// kits are the packages that exist for tests: only test files, of any layer, and other kits import them.
var kits = []string{"agstoretest", "eventlog/history", "eventlog/logtest"}

// A fence limits who imports something.
type fence struct {
	what    string   // import path, or directory of this module with a leading "./"; all below it is meant too
	allowed []string // directories that may, with all below them
	tests   bool     // test files may, wherever they are
}

var fences = []fence{
	{"net/http", []string{"session", "api", "cmd", "bench", "examples", "interop", "crashtest"}, true},
	{"./eventlog/pebblelog", []string{"eventlog/pebblelog", ".", "cmd", "bench"}, true},
	{"./feed/natsembed", []string{"feed/natsembed", "cmd", "bench", "examples"}, true},
	{"github.com/nats-io/nats-server", []string{"feed/natsembed"}, false},
}

// impure are the imports that a pure package has no use for: files, network, processes, storage.
var impure = []string{
	"database", "io/ioutil", "net", "os", "syscall",
	"github.com/cockroachdb", "github.com/nats-io", "golang.org/x/net", "golang.org/x/sys",
}

// clockCalls are the functions of package time that read or wait for the clock.
var clockCalls = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// pureRoots are the packages whose purity is promised.
var pureRoots = []string{"agui", "fold"}

// bannedNames say nothing about what a package holds.
var bannedNames = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "misc"}

// layerOf returns the layer of a directory, from 0 at the bottom; ok is false for a family without one.
func layerOf(dir string) (layer int, ok bool) {
	fam := family(dir)
	for i, families := range layers {
		for _, f := range families {
			if f == fam {
				return i, true
			}
		}
	}
	return 0, false
}

// family is the first element of a directory.
func family(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// within tells whether an import path or directory is the given one or below it. The root package, ".", has
// nothing below it: the directories there are families of their own.
func within(name, root string) bool {
	return name == root || strings.HasPrefix(name, root+"/")
}
