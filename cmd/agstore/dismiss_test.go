package main

import (
	"strings"
	"testing"
)

func TestDismiss(t *testing.T) {
	c := storyCLI(t)
	c.fails(exitNotFound, "interrupt other", "dismiss", "t", "other")
	c.fails(exitNotFound, "thread not found", "dismiss", "nobody")
	fields := strings.Split(strings.TrimSpace(c.ok("dismiss", "t", "i1")), "\t")
	if len(fields) != 2 || fields[1] != "i1" {
		t.Fatalf("in a pipe: %q", fields)
	}
	if v := c.view("t"); len(v.PendingInterrupts) != 0 || v.Status != "cancelled" {
		t.Errorf("the view is %+v", v)
	}
	if got := c.ok("show", "t", "--json"); !strings.Contains(got, `"answers":[{"run":"`+fields[0]+`","seq":19,"status":"cancelled"}]`) {
		t.Errorf("the history of answers: %s", got)
	}
	r := c.fails(exitConflict, fields[0], "dismiss", "t", "i1")
	if !strings.Contains(r.err, "answered") {
		t.Errorf("answered already: %s", r.err)
	}
	c.fails(exitNotFound, "", "dismiss", "t")

	c.with(`{"type":"RUN_STARTED","threadId":"t","runId":"r8"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r8","outcome":{"type":"interrupt","interrupts":[{"id":"a","reason":"x"},{"id":"b","reason":"x"}]}}
`).ok("import", "t", "-")
	if got := c.onTerminal().ok("dismiss", "t"); strings.Count(got, "dismissed ") != 2 {
		t.Errorf("all of them: %s", got)
	}
	c.ok("verify")
}
