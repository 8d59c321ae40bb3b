package main

import (
	"fmt"
	"strings"
	"testing"
)

// An export that was compacted is shorter and comes to the same view.
func TestExportCompact(t *testing.T) {
	c := newCLI(t)
	var in strings.Builder
	in.WriteString(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}` + "\n")
	in.WriteString(`{"type":"STATE_SNAPSHOT","snapshot":{"n":0}}` + "\n")
	in.WriteString(`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}` + "\n")
	for i := range 100 {
		fmt.Fprintf(&in, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%d "}`+"\n", i)
		fmt.Fprintf(&in, `{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":%d}]}`+"\n", i)
	}
	in.WriteString(`{"type":"TEXT_MESSAGE_END","messageId":"m"}` + "\n")
	in.WriteString(`{"type":"RUN_FINISHED","threadId":"t","runId":"r"}` + "\n")
	c.with(in.String()).ok("import", "t", "-")
	want := c.ok("fold", c.file("whole.jsonl", in.String()), "--profile", "reference")
	for _, format := range []string{"jsonl", "sse"} {
		out := c.ok("export", "t", "--compact", "--format", format)
		if n := strings.Count(out, `"type"`); n != 6 {
			t.Errorf("%s: %d events:\n%s", format, n, out)
		}
		got := c.with(out).ok("fold", "-", "--profile", "reference")
		if memberOf(t, got, "messages") != memberOf(t, want, "messages") || memberOf(t, got, "state") != memberOf(t, want, "state") {
			t.Errorf("%s: the view is\n%s\nwant\n%s", format, got, want)
		}
		other := newCLI(t)
		other.with(out).ok("import", "t", "-")
		if a, b := memberOf(t, other.ok("show", "t", "--json"), "messages"), memberOf(t, c.ok("show", "t", "--json"), "messages"); a != b {
			t.Errorf("%s: imported it is\n%s\nwant\n%s", format, a, b)
		}
	}
	c.fails(exitUsage, "--compact", "export", "t", "--compact", "--format", "records")
}
