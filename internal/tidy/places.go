package tidy

import (
	"path"
	"regexp"
	"strings"
)

// A place is something that only makes sense on one machine or network. The patterns are written so that this
// file does not match itself.
type place struct {
	what    string
	pattern *regexp.Regexp
}

var places = []place{
	{"a path of one machine", regexp.MustCompile(`(?:^|[^A-Za-z0-9_.])/(?:w[o]rk|f[a]rm|r[o]ot|t[m]p)/[a-z.]`)},
	{"a home directory", regexp.MustCompile(`(?:^|[^A-Za-z0-9_.])/(?:h[o]me|U[s]ers)/[a-z]+/`)},
	{"the host of a registry", regexp.MustCompile(
		`(?:proxy|sum)[.]golang[.]org|registry[.]npmjs[.]org|registry[.]yarnpkg[.]com|(?:deb|security)[.]debian[.]org|files[.]pythonhosted[.]org|index[.]crates[.]io`)},
	{"an address in a lock file", regexp.MustCompile(`"resolved"[:] *"http`)},
}

// checkPlaces reads every text file but go.sum, whose hashes hold no names of ours.
func checkPlaces(t *Tree, report Report) {
	for name, text := range t.Texts {
		if path.Base(name) == "go.sum" {
			continue
		}
		for _, p := range places {
			eachMatch(text, p.pattern, func(line int, match string) {
				report(name, line, "%q is %s", strings.TrimSpace(match), p.what)
			})
		}
	}
}

const dependenciesPage = "docs/dependencies.md"

// checkDependencies wants each module that go.mod requires directly, and each that a Go file imports, to be
// named on the page that gives the reasons.
func checkDependencies(t *Tree, report Report) {
	page := string(t.Texts[dependenciesPage])
	missing := map[string]bool{}
	for _, r := range t.Requires {
		if !r.Indirect && !names(page, r.Path) {
			missing[r.Path] = true
		}
	}
	for f := range t.files {
		for _, imp := range f.Imports {
			if module := t.moduleOf(imp.Path); module != "" && !names(page, module) {
				missing[module] = true
			}
		}
	}
	for module := range missing {
		report("go.mod", 0, "%s is not named in %s: who needs it, and why?", module, dependenciesPage)
	}
}

// names tells whether the page names a module, as code and in full.
func names(page, module string) bool { return strings.Contains(page, "`"+module+"`") }

// moduleOf returns the required module that a package belongs to, or nothing. Of nested modules it is the inner.
func (t *Tree) moduleOf(importPath string) string {
	module := ""
	for _, r := range t.Requires {
		if within(importPath, r.Path) && len(r.Path) > len(module) {
			module = r.Path
		}
	}
	return module
}
