package main

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	c := storyCLI(t)
	want := `{"messages":[{"change":"added","id":"a3","to":4,"after":{"id":"a3","role":"assistant","content":"May I book?"}}],"state":[]}` + "\n"
	for _, args := range [][]string{{"r1", "r2"}, {"r1", "head"}, {"r1"}, {"@13", "@18"}, {"run:r1", "run:r2"}} {
		if got := c.ok(append([]string{"diff", "t", "--json"}, args...)...); got != want {
			t.Errorf("diff %v: %s", args, got)
		}
	}
	if got := c.ok("diff", "t", "--json", "@11", "@12"); got != `{"messages":[],"state":[{"op":"add","path":"/hat","value":true}]}`+"\n" {
		t.Errorf("of the state: %s", got)
	}
	golden(t, "diff.txt", c.onTerminal().ok("diff", "t", "@9", "r2", "--color", "never")+
		c.ok("diff", "t", "r2", "@9")+c.ok("diff", "t", "root", "r1")+c.onTerminal().ok("diff", "t", "head", "head"))
	if got := c.ok("diff", "t", "r1", "r1"); got != "" {
		t.Errorf("of one point, in a pipe: %q", got)
	}

	c.with(turn("longer-name-1", "", "x")+turn("longer-name-2", "", "y")).ok("import", "t", "-")
	if got := c.ok("diff", "t", "longer-name-1", "head", "--json"); !strings.Contains(got, `"m-longer-name-2"`) {
		t.Errorf("by whole ids: %s", got)
	}
	c.fails(exitUsage, "begin with", "diff", "t", "long", "head")
	c.fails(exitNotFound, "run not found", "diff", "t", "nobody", "head")
	c.fails(exitNotFound, "", "diff", "t", "@999")
	c.fails(exitNotFound, "", "diff", "none", "head")
	c.fails(exitUsage, "seq", "diff", "t", "@x")
	r := c.fails(exitUsage, "", "diff", "t", "longer-")
	if !strings.Contains(r.err, "longer-name-1 longer-name-2") {
		t.Errorf("a prefix of several lists them: %s", r.err)
	}
}
