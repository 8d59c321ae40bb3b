package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"
)

// patience bounds every test: far longer than any takes, so that a machine under load is no failure.
const patience = 2 * time.Minute

// needClient skips the test, or fails it where it is required, unless Node.js and the client are here.
func needClient(t *testing.T) {
	t.Helper()
	refuse := t.Skipf
	if required() {
		refuse = t.Fatalf
	}
	if _, err := exec.LookPath("node"); err != nil {
		refuse("Node.js is missing: %v", err)
	}
	var pkg struct{ Version string }
	data, err := os.ReadFile("node_modules/@ag-ui/client/package.json")
	if err == nil {
		err = json.Unmarshal(data, &pkg)
	}
	if err != nil {
		refuse("the AG-UI client is missing, run `npm ci` in interop/: %v", err)
	}
	if pkg.Version != "1.0.0" {
		refuse("the AG-UI client is version %q, want 1.0.0: run `npm ci` in interop/", pkg.Version)
	}
}

// required tells whether the tests here are what this run is about.
func required() bool { return os.Getenv("AGSTORE_INTEROP") == "required" }

// A job is what a client is told to do; see client.mjs.
type job struct {
	URL      string           `json:"url"`
	ThreadID string           `json:"threadId"`
	Messages []map[string]any `json:"messages,omitempty"`
	Turns    []turn           `json:"turns,omitempty"`
}

// A turn is one user message and the run that answers it.
type turn struct {
	RunID   string `json:"runId"`
	Content string `json:"content"`
}

// An outcome is what a client holds at its end.
type outcome struct {
	Messages          []map[string]any `json:"messages"`
	State             any              `json:"state"`
	PendingInterrupts []any            `json:"pendingInterrupts"`
	Error             *string          `json:"error"`
}

// A client is a Node.js process that runs the official client.
type client struct {
	events chan string // the types of the events it has seen, closed at its end
	done   *outcome    // set when events is closed, nil if it died before its end
	stderr bytes.Buffer
}

// startClient starts a script with a job. The process ends with the test at the latest.
func startClient(t *testing.T, script string, j job) *client {
	t.Helper()
	arg, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	cmd := exec.CommandContext(ctx, "node", script, string(arg))
	c := &client{events: make(chan string, 4096)}
	cmd.Stderr = &c.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 16<<20)
		var last *outcome
		for lines.Scan() {
			var line struct {
				Event string
				Done  *outcome
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				break
			}
			if line.Done != nil {
				last = line.Done
				continue
			}
			c.events <- line.Event
		}
		cmd.Wait() // its outcome is what it printed
		c.done = last
		close(c.events)
	}()
	t.Cleanup(func() {
		cancel()
		for range c.events { // so that the reader never waits for room
		}
		<-ended
	})
	return c
}

// await returns when the client has seen an event of the type.
func (c *client) await(t *testing.T, eventType string) {
	t.Helper()
	for seen := range c.events {
		if seen == eventType {
			return
		}
	}
	t.Fatalf("the client ended before it saw %s\n%s", eventType, c.stderr.String())
}

// end waits for the client's end and returns what it holds, with the types of the events it saw since the last
// await.
func (c *client) end(t *testing.T) (outcome, []string) {
	t.Helper()
	var types []string
	for seen := range c.events {
		types = append(types, seen)
	}
	if c.done == nil {
		t.Fatalf("the client died\n%s", c.stderr.String())
	}
	return *c.done, types
}

// succeed is end for a client that must not have failed.
func (c *client) succeed(t *testing.T) outcome {
	t.Helper()
	o, types := c.end(t)
	if o.Error != nil {
		t.Fatalf("the client failed: %s\nafter %q\n%s", *o.Error, types, c.stderr.String())
	}
	return o
}
