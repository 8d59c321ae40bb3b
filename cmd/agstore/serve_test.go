package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
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

// A replay that follows a thread which is cleared says so and goes on with what
// comes, in this process and beside another; an export says it too.
func TestReplayFollowsAcrossAClear(t *testing.T) {
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
			read := func(want ...string) {
				t.Helper()
				for _, begin := range want {
					if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, begin) {
						t.Fatalf("%q, %v; want %s", line, err, begin)
					}
				}
			}
			read(`{"seq":1,`, `{"seq":2,`, `{"seq":3,`, `{"seq":4,`, `{"seq":5,`)
			c.ok("clear", "t", "--yes")
			read(`{"gap":{"from":5,"to":5,"reason":"clear"}}` + "\n")
			c.with(turn("r2", "", "two")).ok("import", "t", "-")
			read(`{"seq":6,`, `{"seq":7,`, `{"seq":8,`, `{"seq":9,`, `{"seq":10,`)
			records := c.ok("export", "t", "--format", "records")
			if !strings.HasPrefix(records, `{"gap":{"from":1,"to":5,"reason":"clear"}}`+"\n"+`{"seq":6,`) {
				t.Errorf("export begins with %.100s", records)
			}
			if r := c.run("export", "t"); r.code != 0 || strings.Contains(r.out, "gap") || r.err != "agstore: seq 1 to 5 were removed (clear)\n" {
				t.Errorf("export as jsonl: exit %d, says %q\n%s", r.code, r.err, r.out)
			}
			if got := c.with(records).ok("import", "copy", "-"); got != "1\t5\n" {
				t.Errorf("import of the records: %q", got)
			}
			if got := c.ok("replay", "t", "--speed", "max"); !strings.HasPrefix(got, "seq 1 to 5 were removed (clear)\n") {
				t.Errorf("replay begins with %.100s", got)
			}
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
	// So is an import of its records the same events.
	other := newCLI(t)
	other.with(c.ok("export", "t", "--format", "records")).ok("import", "t", "-")
	if got, want := other.ok("export", "t"), c.ok("export", "t"); got != want {
		t.Errorf("imported again it is\n%swant\n%s", got, want)
	}
}

// A server that is told to stop closes the runs whose agents go on, and those
// who follow do not keep it.
func TestServeStops(t *testing.T) {
	t.Parallel() // it waits for the server's patience to end
	c := newCLI(t)
	hanging := hangingAgent(t)
	server := c.startServer("--agent", "helper="+hanging, "--agent-idle-timeout", "1h")
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

// A second server of the same store says who has it, and what to do.
func TestServeTwice(t *testing.T) {
	c := newCLI(t)
	server := c.startServer()
	c.stopAtEnd(server)
	r := c.fails(exitUnavailable, fmt.Sprintf("process %d", server.pid()), "serve", "--listen", "127.0.0.1:0")
	if !strings.HasSuffix(r.err, "\nstop it, or give another --data\n") {
		t.Errorf("it says %s", r.err)
	}
}

// What cannot be served is said before a store is made.
func TestServeRefusesBeforeItOpens(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := newCLI(t)
	r := c.fails(exitUnavailable, "address already in use", "serve", "--listen", taken.Addr().String())
	if !strings.Contains(r.err, "\n--listen names another address") {
		t.Errorf("it says %s", r.err)
	}
	c.fails(exitUsage, `configure agent "x"`, "serve", "--listen", "127.0.0.1:0", "--agent", "x=nowhere")
	if _, err := os.Stat(c.data); !os.IsNotExist(err) {
		t.Errorf("there is a data directory now: %v", err)
	}
	// A store that is in use does not keep the address.
	c.hold(false)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	c.fails(exitUnavailable, "the store is in use", "serve", "--listen", address)
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// hangingAgent begins an answer and never ends it.
func hangingAgent(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// begin starts a run of an agent and leaves it to itself.
func begin(t *testing.T, url, agent, thread, run string) {
	t.Helper()
	remote := client.New(url, client.Options{})
	defer remote.Close()
	for _, err := range remote.Run(t.Context(), agent, fmt.Appendf(nil, `{"threadId":%q,"runId":%q,"messages":[]}`, thread, run)) {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
}

// What serve tells the people who start and stop it: where its agents are called,
// which runs of a killed process it has closed, what it waits for. Told twice, it
// waits no longer.
func TestServeTells(t *testing.T) {
	c := newCLI(t)
	agents := []string{"--agent", "writer=" + hangingAgent(t), "--agent", "a b=" + hangingAgent(t), "--agent-idle-timeout", "1h"}
	killed := c.startServer(agents...)
	begin(t, killed.url, "writer", "t1", "r1")
	if err := killed.kill(); err != nil {
		t.Fatal(err)
	}
	cmd, err := thisBinary(t.Context(), append([]string{"serve", "--listen", "127.0.0.1:0", "--data", c.data}, agents...)...)
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(stderr)
	line := func() string {
		text, err := said.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(text, "\n")
	}
	url, ok := strings.CutPrefix(line(), "agstore: listening on ")
	if !ok {
		t.Fatal("the first line is not that it listens")
	}
	for _, want := range []string{
		"agstore: agent a b: " + url + "/v1/agents/a%20b/run",
		"agstore: agent writer: " + url + "/v1/agents/writer/run",
		"agstore: closed run r1 of thread t1: AGSTORE_ABANDONED",
	} {
		if got := line(); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	begin(t, url, "writer", "t1", "r2")
	begin(t, url, "a b", "t2", "r3")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got, want := line(), "agstore: waiting up to 5.0s for 2 runs; again to stop at once"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(said)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	for _, want := range []string{"closed run r2 of thread t1: AGSTORE_STOPPED", "closed run r3 of thread t2: AGSTORE_STOPPED"} {
		if !strings.Contains(string(rest), want) {
			t.Errorf("at the end it says\n%s", rest)
		}
	}
}

// With --json what is printed is one object, whatever is told.
func TestServeTellsBesideJSON(t *testing.T) {
	c := newCLI(t)
	cmd, err := thisBinary(t.Context(), "serve", "--listen", "127.0.0.1:0", "--data", c.data, "--json", "--agent", "x=http://127.0.0.1:1/")
	if err != nil {
		t.Fatal(err)
	}
	url, told := ready(t, cmd, true)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got, want := told.String(), "agstore: agent x: "+url+"/v1/agents/x/run\n"; got != want {
		t.Errorf("it tells %q, want %q", got, want)
	}
}
