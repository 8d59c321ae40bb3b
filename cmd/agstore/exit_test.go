package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api/problem"
	"github.com/agstore/agstore/eventlog"
)

func TestExitCodesOfErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want exitCode
	}{
		{nil, 0},
		{errors.New("whatever"), 1},
		{&usageError{text: "no such flag"}, 2},
		{eventlog.ErrInvalid, 2},
		{eventlog.ErrNotFound, 3},
		{eventlog.ErrThreadNotFound, 3},
		{eventlog.ErrRunNotFound, 3},
		{fs.ErrNotExist, 3},
		{problem.New(404, "agent_not_found", "no such agent"), 3},
		{problem.New(401, "who", "who are you"), 4},
		{problem.New(403, "denied", "no"), 4},
		{fs.ErrPermission, 4},
		{&eventlog.ConflictError{Expected: 1, Actual: 2}, 5},
		{&eventlog.KeyConflictError{Key: "k"}, 5},
		{&eventlog.RunExistsError{}, 5},
		{&eventlog.RunActiveError{}, 5},
		{&eventlog.FencedError{}, 5},
		{eventlog.ErrCorrupt, 6},
		{&eventlog.VersionError{What: "store", Found: 9, Known: 1}, 6},
		{&eventlog.LockedError{PID: 1}, 7},
		{eventlog.ErrUnavailable, 7},
		{eventlog.ErrNoSpace, 7},
		{syscall.ENOSPC, 7},
		{syscall.EADDRINUSE, 7},
		{eventlog.ErrClosed, 7},
		{context.DeadlineExceeded, 7},
		{&agui.InvalidEventError{}, 8},
		{&eventlog.TooLargeError{}, 8},
		{&refusal{"no list"}, 8},
		{context.Canceled, 130},
	} {
		if got := exitOf(c.err); got != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, got, c.want)
		}
		if c.err == nil {
			continue
		}
		// What a server answers has the code that the error itself has.
		wrapped := fmt.Errorf("do: %w", &eventlog.Error{Op: "append", Err: c.err})
		if got := exitOf(wrapped); got != c.want {
			t.Errorf("%v, wrapped: exit %d, want %d", c.err, got, c.want)
		}
		if p := problem.Of(c.err); p.Code != "internal" {
			if got := exitOf(p.Err()); got != c.want {
				t.Errorf("%v, over the network: exit %d, want %d", c.err, got, c.want)
			}
		}
	}
}

func TestHelpExitCodes(t *testing.T) {
	golden(t, "exit-codes.txt", newCLI(t).ok("help", "exit-codes"))
}

func TestUsageErrors(t *testing.T) {
	c := newCLI(t)
	for _, c2 := range []struct{ says, args string }{
		{"unknown command", "nonsense"},
		{"unknown flag", "threads --nonsense"},
		{"accepts 1 arg", "show"},
		{"accepts 2 arg", "import t"},
		{`required flag(s) "from"`, "branch t"},
		{"invalid argument", "show t --at many"},
		{"--color loud", "threads --color loud"},
		{"--time local", "threads --time local"},
		{"--format xml", "export t --format xml"},
		{"--speed 0x", "replay t --speed 0x"},
		{"--speed fast", "replay t --speed fast"},
		{"--follow and --run", "replay t --follow --run r"},
		{"[at run]", "show t --at 1 --run r"},
		{"[history transcript]", "show t --history --transcript"},
		{"[history messages]", "show t --history --messages 1"},
		{"--scope is empty", "erase t --yes --scope="},
		{"--data is empty", "threads --data="},
		{"--scope", "threads --server http://127.0.0.1:1 --scope acme"},
		{"loopback", "serve --listen 0.0.0.0:0"},
		{"loopback", "serve --listen :0"},
		{"loopback", "serve --listen example.org:80"},
		{"an address and a port", "serve --listen localhost"},
		{"an address and a port", "serve --listen 127.0.0.1:99999"},
		{"an address and a port", "serve --listen 127.0.0.1:nowhere"},
		{`threads: it takes no arguments, and was given "t"`, "threads t"},
		{"NAME=URL", "serve --agent helper"},
		{`configure agent "x"`, "serve --agent x=http://a/ --agent x=http://b/"},
		{`configure agent "x"`, "serve --agent x=nowhere"},
	} {
		c.fails(exitUsage, c2.says, strings.Fields(c2.args)...)
	}
}

// A command that only reads makes no store.
func TestReadingMakesNoStore(t *testing.T) {
	c := newCLI(t)
	for _, args := range []string{"threads", "show t", "runs t", "export t", "replay t", "branch t --from root"} {
		c.fails(exitNotFound, "open the store", strings.Fields(args)...)
	}
	if _, err := os.Stat(c.data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is something now: %v", err)
	}
	if err := os.Mkdir(c.data, 0o700); err != nil {
		t.Fatal(err)
	}
	c.fails(exitNotFound, "open the store", "threads")
	other := filepath.Join(c.data, "notes.txt")
	if err := os.WriteFile(other, []byte("no store"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(exitNotFound, "open the store", "threads")
	if entries, err := os.ReadDir(c.data); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

func TestNotFound(t *testing.T) {
	c := newCLI(t)
	c.with(turn("r1", "", "hello")).ok("import", "t", "-")
	for _, args := range []string{
		"show other", "runs other", "export other", "replay other", "branch other --from root",
		"show t --run other", "show t --at 99", "export t --run other", "branch t --from other",
		"import t no-such-file.jsonl",
	} {
		c.fails(exitNotFound, "", strings.Fields(args)...)
	}
}

// A seq to begin with must be there.
func TestFromBehindTheEnd(t *testing.T) {
	c := newCLI(t)
	c.with(turn("r1", "", "one")+turn("r2", "", "two")+turn("r3", `,"parentRunId":"r1"`, "three")).ok("import", "t", "-")
	for _, args := range []string{"export t", "replay t --speed max", "export t --format records"} {
		for _, from := range []string{"16", "17", "500"} {
			r := c.fails(exitNotFound, "seq "+from+": not found", append(strings.Fields(args), "--from", from)...)
			if !strings.HasSuffix(r.err, "\nthe last record of the thread is 15\n") || r.out != "" {
				t.Errorf("%s --from %s: %q and\n%s", args, from, r.out, r.err)
			}
		}
		if got := c.ok(append(strings.Fields(args), "--from", "15")...); strings.Count(got, "\n") != 1 {
			t.Errorf("%s: the last record is %q", args, got)
		}
	}
	c.fails(exitNotFound, "\nrun r2 and those before it have no record from there on\n", "export", "t", "--run", "r2", "--from", "11")
	// An empty thread has an empty export.
	c.ok("import", "empty", "-")
	if got := c.ok("export", "empty", "--from", "1"); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// Somebody holds the store and answers no calls: it says who, and what to do.
func TestLockedStore(t *testing.T) {
	c := newCLI(t)
	c.hold(false)
	r := c.fails(exitUnavailable, fmt.Sprintf("process %d", os.Getpid()), "threads")
	if !strings.Contains(r.err, "api.ControlSocket(store)") {
		t.Errorf("it does not say how to make it work:\n%s", r.err)
	}
}

// A store that is only held for a moment is waited for.
func TestBriefLockIsWaitedFor(t *testing.T) {
	c := newCLI(t)
	c.with(turn("r1", "", "hello")).ok("import", "t", "-")
	var calls []*exec.Cmd
	for range 4 {
		cmd, err := thisBinary(t.Context(), "show", "t", "--data", c.data)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = new(bytes.Buffer)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, cmd)
	}
	for _, cmd := range calls {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, cmd.Stderr)
		}
	}
}

// Where nobody serves, it says so in words, and asks the likely question. A
// scheme may be left out.
func TestNoServer(t *testing.T) {
	for _, server := range []string{"http://127.0.0.1:1", "127.0.0.1:1", "localhost:1"} {
		r := newCLI(t).fails(exitUnavailable, "127.0.0.1:1: connect: connection refused\nis agstore serve running there?\n", "threads", "--server", server)
		want := "agstore: call http://" + strings.TrimPrefix(server, "http://") + ": no server answers: dial tcp "
		if !strings.HasPrefix(r.err, want) {
			t.Errorf("%s: %s", server, r.err)
		}
	}
	for _, server := range []string{"ftp://127.0.0.1:1", "http://", "://", "http://[::1", "a b"} {
		newCLI(t).fails(exitUsage, "\nas http://127.0.0.1:4180,", "threads", "--server", server)
	}
}

// What is meant instead stands on the hint's line.
func TestUnknownCommand(t *testing.T) {
	c := newCLI(t)
	r := c.fails(exitUsage, "", "shwo", "t")
	if want := "agstore: unknown command \"shwo\" for \"agstore\"\nDid you mean this? show; agstore --help lists commands and flags\n"; r.err != want {
		t.Errorf("it says\n%swant\n%s", r.err, want)
	}
	r = c.fails(exitUsage, "", "zzzzzz")
	if want := "agstore: unknown command \"zzzzzz\" for \"agstore\"\nagstore --help lists commands and flags\n"; r.err != want {
		t.Errorf("it says\n%swant\n%s", r.err, want)
	}
}

// Of a command that is not understood its usage is shown, and where it is
// explained.
func TestMisuseShowsUsage(t *testing.T) {
	c := newCLI(t)
	for args, want := range map[string]string{
		"show":                      "agstore: show: accepts 1 arg(s), received 0\nusage: agstore show THREAD [flags]; agstore show --help explains it\n",
		"import t":                  "agstore: import: accepts 2 arg(s), received 1\nusage: agstore import THREAD FILE|- [flags]; agstore import --help explains it\n",
		"branch t":                  "agstore: branch: required flag(s) \"from\" not set\nusage: agstore branch THREAD --from RUN|root [FILE|-] [flags]; agstore branch --help explains it\n",
		"threads --nonsense":        "agstore: threads: unknown flag: --nonsense\nusage: agstore threads [flags]; agstore threads --help explains it\n",
		"export t --format xml":     "agstore: --format xml: jsonl, sse or records\nagstore export --help explains it\n",
		"show t --unanswered x":     "agstore: --unanswered is for --history\nagstore show --help explains it\n",
		"export t --from 5 --to 4":  "agstore: --from 5 --to 4: the first seq is behind the last\nagstore export --help explains it\n",
		"replay t --from 5 --to 4":  "agstore: --from 5 --to 4: the first seq is behind the last\nagstore replay --help explains it\n",
		"import t no.file --run r1": "agstore: --run: the events of a stream name their runs\n--run is for --messages\n",
	} {
		if r := c.fails(exitUsage, "", strings.Fields(args)...); r.err != want {
			t.Errorf("%s says\n%swant\n%s", args, r.err, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	c := newCLI(t)
	c.with(turn("r1", "", "hello")).ok("import", "t", "-")
	ctx, cancel := context.WithCancel(t.Context())
	c.ctx, c.out = ctx, writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "finished") {
			cancel() // Ctrl-C, once all is on the screen
		}
		return len(p), nil
	})
	c.fails(exitInterrupted, "interrupted", "replay", "t", "--follow", "--speed", "max")
}

// Ctrl-C ends an import that waits for its input.
func TestInterruptedImport(t *testing.T) {
	c := newCLI(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.ctx = ctx
	release := make(chan struct{})
	defer close(release)
	c.in = readerFunc(func([]byte) (int, error) { cancel(); <-release; return 0, errors.New("released") })
	c.fails(exitInterrupted, "interrupted", "import", "t", "-")
}

// Whoever reads the output may leave: no error, no message.
func TestBrokenPipe(t *testing.T) {
	c := newCLI(t)
	c.with(turn("r1", "", "hello")).ok("import", "t", "-")
	c.out = writerFunc(func([]byte) (int, error) { return 0, syscall.EPIPE })
	for _, args := range []string{"export t", "replay t", "show t", "threads", "runs t"} {
		if r := c.run(strings.Fields(args)...); r.err != "" || r.code == 0 {
			t.Errorf("%s: exit %d, %q", args, r.code, r.err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestShortDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		300 * time.Microsecond: "300µs", 20 * time.Millisecond: "20ms", 1500 * time.Millisecond: "1.5s",
		61 * time.Second: "1m01s", 25 * time.Hour: "1d01h", 3*time.Hour + 4*time.Minute: "3h04m", -time.Second: "-1.0s",
	} {
		if got := short(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
