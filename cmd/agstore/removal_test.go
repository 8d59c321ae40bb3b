package main

import (
	"strings"
	"testing"
)

// A thread is erased after a plan, with a receipt, and stays erased.
func TestErase(t *testing.T) {
	c := newCLI(t)
	c.with(oneRun).ok("import", "t", "-")
	c.fails(exitUsage, "nobody can be asked", "erase", "t")
	if plan := c.ok("erase", "t", "--dry-run"); !strings.HasPrefix(plan, "t\t0\terase\t") {
		t.Errorf("plan:\n%s", plan)
	}
	if got := c.ok("export", "t"); got != oneRun {
		t.Errorf("after the plan:\n%s", got)
	}
	receipt := c.ok("erase", "t", "--yes", "--reason", "request 4711")
	if !strings.HasPrefix(receipt, "t\t1\terase\t") || !strings.Contains(receipt, "records\t5\t") || !strings.Contains(receipt, "request 4711") {
		t.Errorf("receipt:\n%s", receipt)
	}
	c.fails(exitNotFound, "erased at", "show", "t")
	c.fails(exitNotFound, "erased at", "export", "t")
	if again := c.ok("erase", "t", "--yes"); again != receipt {
		t.Errorf("again:\n%s", again)
	}
	if listed := c.ok("receipts"); listed != receipt {
		t.Errorf("receipts:\n%s", listed)
	}
	if got := c.ok("threads"); got != "" {
		t.Errorf("threads:\n%s", got)
	}
	c.fails(exitNotFound, "not found", "erase", "none", "--yes")
}

func TestClearAndRedact(t *testing.T) {
	c := newCLI(t)
	c.with(oneRun).ok("import", "t", "-")
	c.fails(exitUsage, "SEQ or --message", "redact", "t")
	c.fails(exitUsage, "number from 1", "redact", "t", "x")
	c.ok("redact", "t", "3", "--yes")
	if got := c.ok("show", "t"); strings.Contains(got, "kept") || !strings.Contains(got, "[redacted]") {
		t.Errorf("redacted:\n%s", got)
	}
	c.fails(exitNotFound, "not found", "redact", "t", "--message", "none", "--yes")
	c.ok("clear", "t", "--yes")
	if got := c.ok("export", "t"); got != "" {
		t.Errorf("cleared:\n%s", got)
	}
	c.with(oneRun).ok("import", "t", "-")
	if got := c.ok("export", "t"); got != oneRun {
		t.Errorf("after clear:\n%s", got)
	}
	if n := strings.Count(c.ok("receipts", "t", "--json"), "\n"); n != 2 {
		t.Errorf("%d receipts", n)
	}
}

func TestRetain(t *testing.T) {
	c := newCLI(t)
	c.with(oneRun).ok("import", "t", "-")
	c.fails(exitUsage, "--idle", "retain", "--yes")
	c.fails(exitUsage, "clear or erase", "retain", "--idle", "1h", "--action", "redact", "--yes")
	if got := c.ok("retain", "--idle", "1h", "--dry-run"); got != "" {
		t.Errorf("idle for an hour:\n%s", got)
	}
	if got := c.ok("retain", "--idle", "1us", "--dry-run"); !strings.Contains(got, "records\t5\t") {
		t.Errorf("plan:\n%s", got)
	}
	c.ok("retain", "--idle", "1us", "--action", "erase", "--yes")
	c.fails(exitNotFound, "erased at", "show", "t")
	c.fails(exitUsage, "ACTION=AGE", "serve", "--retain", "clear", "--listen", "127.0.0.1:0")
}
