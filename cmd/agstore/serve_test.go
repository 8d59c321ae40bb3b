package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/agstore/agstore/api/client"
)

// startServer starts a server of the command's data in a process of its own.
func (c *cli) startServer(args ...string) *child {
	c.t.Helper()
	server, err := startChild(context.WithoutCancel(c.ctx), thisBinary, c.data, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return server
}

// stopAtEnd stops a server when the test is over.
func (c *cli) stopAtEnd(server *child) {
	c.t.Cleanup(func() {
		if err := server.stop(); err != nil {
			c.t.Error(err)
		}
	})
}

// Must hold 5: what another process serves can be read, and written, beside it.
func TestBesideServe(t *testing.T) {
	c := newCLI(t)
	c.stopAtEnd(c.startServer())
	c.with(story).ok("import", "t", "-")
	if got := c.ok("export", "t"); got != story {
		t.Errorf("the log is\n%s", got)
	}
	if got := ids(c.view("t").Messages); got != "u1 a1 res1 a2 a3" {
		t.Errorf("the messages are %s", got)
	}
	if got := c.ok("replay", "t", "--speed", "max"); !strings.Contains(got, "It is sunny") {
		t.Errorf("the replay is\n%s", got)
	}
	if got := c.ok("runs", "t"); strings.Count(got, "\n") != 2 {
		t.Errorf("the runs are\n%s", got)
	}
	// Over the control socket too each scope is its own.
	c.with("").ok("import", "t", "-", "--scope", "acme")
	if got := c.ok("export", "t", "--scope", "acme"); got != "" {
		t.Errorf("the other scope holds %q", got)
	}
	if got := c.ok("threads", "--scope", "acme"); !strings.HasPrefix(got, "t\t0\t") {
		t.Errorf("the threads of the other scope are %q", got)
	}
}

// The same commands over the network.
func TestServerFlag(t *testing.T) {
	c := newCLI(t)
	server := c.startServer()
	c.stopAtEnd(server)
	remote := newCLI(t)
	remote.with(story).ok("import", "t", "-", "--server", server.url)
	if got := remote.ok("export", "t", "--server", server.url); got != story {
		t.Errorf("the log is\n%s", got)
	}
	remote.fails(exitNotFound, "", "show", "other", "--server", server.url)
	if _, err := os.Stat(remote.data); !os.IsNotExist(err) {
		t.Error("a data directory was made here")
	}
	if got := ids(c.view("t").Messages); got != "u1 a1 res1 a2 a3" {
		t.Errorf("at the server: %s", got)
	}
}

// A replay that follows shows what is written while it runs, by a program that
// holds the store or beside the replay, which then holds it itself.
func TestReplayFollows(t *testing.T) {
	for _, held := range []bool{true, false} {
		t.Run(fmt.Sprintf("held=%v", held), func(t *testing.T) {
			c := newCLI(t)
			if held {
				c.hold(true)
			}
			c.with(turn("r1", "", "one")).ok("import", "t", "-")
			ctx, cancel := context.WithCancel(t.Context())
			follower := *c
			pr, pw := io.Pipe()
			follower.ctx, follower.out = ctx, pw
			ended := make(chan result, 1)
			go func() { ended <- follower.run("replay", "t", "--follow", "--speed", "max", "--json") }()
			lines := bufio.NewReader(pr)
			read := func(from, to int) {
				for seq := from; seq <= to; seq++ {
					line, err := lines.ReadString('\n')
					if err != nil || !strings.HasPrefix(line, fmt.Sprintf(`{"seq":%d,`, seq)) {
						t.Errorf("seq %d: %q, %v", seq, line, err)
					}
				}
			}
			read(1, 5)
			c.with(turn("r2", "", "two")).ok("import", "t", "-")
			read(6, 10)
			cancel()
			if r := <-ended; r.code != int(exitInterrupted) {
				t.Errorf("exit %d: %s", r.code, r.err)
			}
		})
	}
}

// scripted is an agent that answers every run with the same frames.
func scripted(t *testing.T, events ...string) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestServeRecords(t *testing.T) {
	c := newCLI(t)
	agent := scripted(t, strings.Split(strings.TrimSpace(turn("r1", "", "hello")), "\n")...)
	server := c.startServer("--agent", "helper="+agent.URL)
	remote := client.New(server.url, client.Options{})
	input := `{"threadId":"t","runId":"r1","messages":[{"id":"u","role":"user","content":"Hi."}],"tools":[],"context":[]}`
	heard := 0
	for event, err := range remote.Run(t.Context(), "helper", []byte(input)) {
		if err != nil {
			t.Fatal(err)
		}
		if heard++; event.Seq != uint64(heard) {
			t.Errorf("seq %d is the %d-th event", event.Seq, heard)
		}
	}
	remote.Close()
	// SIGTERM lets go of everything in order.
	if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v: %s", err, server.err.String())
	}
	v := c.view("t")
	if ids(v.Messages) != "u m-r1" || !v.says("Hi.") || v.Status != "success" {
		t.Errorf("the view is %+v", v)
	}
	if got := strings.Count(c.ok("export", "t", "--format", "records"), "\n"); got != heard {
		t.Errorf("%d records, %d events were heard", got, heard)
	}
	// The agent's own start is a record, and no second event of an export.
	if got := strings.Count(c.ok("export", "t"), "RUN_STARTED"); got != 1 {
		t.Errorf("an export holds %d starts", got)
	}
}

// A server that is told to stop closes the runs whose agents go on, and those
// who follow do not keep it.
func TestServeStops(t *testing.T) {
	t.Parallel() // it waits for the server's patience to end
	c := newCLI(t)
	hanging := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer hanging.Close()
	server := c.startServer("--agent", "helper="+hanging.URL, "--agent-idle-timeout", "1h")
	remote := client.New(server.url, client.Options{})
	defer remote.Close()
	for _, err := range remote.Run(t.Context(), "helper", []byte(`{"threadId":"t","runId":"r1","messages":[]}`)) {
		if err != nil {
			t.Fatal(err)
		}
		break // the run has begun
	}
	following := make(chan error, 1)
	go func() {
		var last error
		for _, err := range remote.Records(context.WithoutCancel(t.Context()), "t", client.EventOptions{Follow: true}) {
			last = err
		}
		following <- last
	}()
	if err := server.stop(); err != nil {
		t.Error(err)
	}
	if err := <-following; exitOf(err) != exitUnavailable {
		t.Errorf("the follower ended with %v", err)
	}
	if got := c.ok("export", "t"); !strings.Contains(got, `"AGSTORE_STOPPED"`) {
		t.Errorf("the run was not closed:\n%s", got)
	}
}

// What serve says when it is ready, and to whom.
func TestServeIsReady(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		c := newCLI(t)
		args := []string{"serve", "--listen", "127.0.0.1:0", "--data", c.data}
		if asJSON {
			args = append(args, "--json")
		}
		cmd, err := thisBinary(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		url, other := ready(t, cmd, asJSON)
		resp, err := http.Get(url + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("healthz: %d", resp.StatusCode)
		}
		// A page from elsewhere may not write.
		post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/threads/t/events", strings.NewReader(turn("r", "", "x")))
		if err != nil {
			t.Fatal(err)
		}
		post.Header.Set("Origin", "http://elsewhere.example")
		if resp, err = http.DefaultClient.Do(post); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("a page from elsewhere: %d", resp.StatusCode)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || other.Len() != 0 {
			t.Errorf("it ended with %v; on the other stream: %q", err, other)
		}
	}
}

// ready starts a server and reads where it listens; other is what it writes to
// the stream on which it does not say so.
func ready(t *testing.T, cmd *exec.Cmd, asJSON bool) (url string, other *bytes.Buffer) {
	t.Helper()
	other = new(bytes.Buffer)
	pipe := cmd.StderrPipe
	cmd.Stdout = other
	if asJSON {
		pipe = cmd.StdoutPipe
		cmd.Stdout, cmd.Stderr = nil, other
	}
	from, err := pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if asJSON {
		var said struct{ Listening string }
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatal(err)
		}
		return said.Listening, other
	}
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "agstore: listening on ")
	if !ok {
		t.Fatalf("it says %q", line)
	}
	return url, other
}

// A second server of the same store says who has it.
func TestServeTwice(t *testing.T) {
	c := newCLI(t)
	server := c.startServer()
	c.stopAtEnd(server)
	c.fails(exitUnavailable, fmt.Sprintf("process %d", server.pid()), "serve", "--listen", "127.0.0.1:0")
}
