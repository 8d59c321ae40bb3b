package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVerify(t *testing.T) {
	c := newCLI(t)
	c.with(oneRun).ok("import", "t", "-")
	c.with(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"none","delta":"x"}`).ok("import", "odd", "-")
	if got := c.ok("verify", "t"); got != "" {
		t.Errorf("a sound thread: %s", got)
	}
	if got := c.ok("verify"); !strings.HasPrefix(got, "note:") || !strings.Contains(got, "\todd\t1\t") || strings.Count(got, "\n") != 1 {
		t.Errorf("a violation is a note: %q", got)
	}
	if got := c.ok("verify", "--json"); !strings.Contains(got, `{"done":{"threads":2,"records":6,`) {
		t.Errorf("json: %s", got)
	}
	if got := c.ok("verify", "--repair"); got != "" {
		t.Errorf("repair: %s", got)
	}
	c.fails(exitNotFound, "none", "verify", "none")
	stop := c.startServer()
	c.fails(exitUnavailable, "in use", "verify", "--repair")
	if got := c.ok("verify", "t"); got != "" {
		t.Errorf("beside a server: %s", got)
	}
	c.stopAtEnd(stop)
}

// A store of which a byte was flipped ends with its own exit code.
func TestVerifyDamaged(t *testing.T) {
	c := newCLI(t)
	c.with(oneRun).ok("import", "t", "-")
	tables, err := filepath.Glob(filepath.Join(c.data, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables %v, %v", tables, err)
	}
	for _, name := range tables {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data[20] ^= 1
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := c.run("verify")
	if r.code != int(exitDamaged) || !strings.HasPrefix(r.out, "unreadable_block\t") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	// Nor does a table that ends too early keep the others from being told of.
	if err := os.Truncate(tables[0], 100); err != nil {
		t.Fatal(err)
	}
	if r := c.run("verify", "--json"); r.code != int(exitDamaged) || !strings.Contains(r.out, filepath.Base(tables[0])) {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}
