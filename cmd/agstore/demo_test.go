package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Must hold 1: every step of the story, with a real kill -9.
func TestDemo(t *testing.T) {
	c := newCLI(t)
	out := c.ok("demo", "--dir", c.data)
	for n := 1; n <= 7; n++ {
		step := ""
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, fmt.Sprintf("[%d] ", n)) {
				step = line
			}
		}
		if !strings.HasSuffix(step, "… ok\n") {
			t.Errorf("step %d: %q", n, step)
		}
	}
	for _, says := range []string{
		"kill -9", "is gone, 12 events of run-2 had been acknowledged", "run-2 is abandoned, with the user's turn",
		"Book the boat trip for 40 euros?", "├─ run-2  abandoned", "└─ run-5  success", demoRain,
	} {
		if !strings.Contains(out, says) {
			t.Errorf("it does not say %q:\n%s", says, out)
		}
	}
	// What it leaves is a store like any other.
	if got := strings.Count(c.ok("runs", "demo"), "\n"); got != 5 {
		t.Errorf("%d runs", got)
	}
	c.fails(exitUsage, "not empty", "demo", "--dir", c.data)
}

func TestDemoJSON(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := newCLI(t)
	steps := 0
	for line := range strings.Lines(c.ok("demo", "--json")) {
		var step struct {
			Step     int
			What     string
			OK       bool
			Evidence string
		}
		if err := json.Unmarshal([]byte(line), &step); err != nil {
			t.Fatal(err)
		}
		if steps++; step.Step != steps || !step.OK || step.What == "" || step.Evidence == "" {
			t.Errorf("%+v", step)
		}
	}
	if steps != 7 {
		t.Errorf("%d steps", steps)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
