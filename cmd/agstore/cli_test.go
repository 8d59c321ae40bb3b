package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/api"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// mainVariable makes the test binary the command itself, for the tests that need
// a process of its own.
const mainVariable = "AGSTORE_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		os.Exit(interruptible(os.Args[1:]))
	}
	if name := os.Getenv(writerVariable); name != "" {
		os.Exit(writerMain(name, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// thisBinary is self for tests.
func thisBinary(ctx context.Context, args ...string) (*exec.Cmd, error) {
	cmd, err := self(ctx, args...)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	return cmd, nil
}

// cli calls the command in this process, on one data directory.
type cli struct {
	t     *testing.T
	data  string
	in    io.Reader
	tty   bool
	asked bool // somebody can be asked
	env   map[string]string
	ctx   context.Context
	out   io.Writer // instead of a buffer
}

func newCLI(t *testing.T) *cli {
	t.Helper()
	return &cli{t: t, data: filepath.Join(t.TempDir(), "data"), in: strings.NewReader(""), env: map[string]string{}, ctx: t.Context()}
}

// result is how a call ended.
type result struct {
	code     int
	out, err string
}

func (c *cli) run(args ...string) result {
	c.t.Helper()
	var out, errs bytes.Buffer
	s := &streams{
		in: c.in, out: &out, err: &errs, outTTY: c.tty, inTTY: c.asked, errTTY: c.asked, width: 80,
		env: func(name string) string {
			if name == "AGSTORE_DATA" {
				return c.data
			}
			return c.env[name]
		},
	}
	if c.out != nil {
		s.out = c.out
	}
	code := run(c.ctx, s, thisBinary, args)
	return result{code, out.String(), errs.String()}
}

// ok is run for a call that must be done; it gives what it printed.
func (c *cli) ok(args ...string) string {
	c.t.Helper()
	r := c.run(args...)
	if r.code != 0 {
		c.t.Fatalf("agstore %s: exit %d\n%s", strings.Join(args, " "), r.code, r.err)
	}
	return r.out
}

// fails is run for a call that must end with a code, and say a text.
func (c *cli) fails(code exitCode, says string, args ...string) result {
	c.t.Helper()
	r := c.run(args...)
	if r.code != int(code) || !strings.Contains(r.err, says) {
		c.t.Fatalf("agstore %s: exit %d, want %d and %q\n%s", strings.Join(args, " "), r.code, code, says, r.err)
	}
	if !strings.HasPrefix(r.err, "agstore: ") || strings.Count(r.err, "\n") > 2 {
		c.t.Errorf("agstore %s: want one line and a hint, got\n%s", strings.Join(args, " "), r.err)
	}
	return r
}

// with gives the same cli with something to read.
func (c *cli) with(input string) *cli {
	other := *c
	other.in = strings.NewReader(input)
	return &other
}

// onTerminal gives the same cli on a terminal.
func (c *cli) onTerminal() *cli {
	other := *c
	other.tty = true
	return &other
}

// file writes a file and gives its name.
func (c *cli) file(name, content string) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// hold opens the store as a program of its own would; with a control socket the
// calls go through it.
func (c *cli) hold(control bool) *agstore.Store {
	c.t.Helper()
	store, err := agstore.Open(c.data, agstore.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := store.Close(); err != nil {
			c.t.Error(err)
		}
	})
	if control {
		socket, err := api.ControlSocket(store)
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() {
			if err := socket.Close(); err != nil {
				c.t.Error(err)
			}
		})
	}
	return store
}

// turn is a run of one answer, as a stream.
func turn(run, more, says string) string {
	return fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":%[1]q%[2]s}
{"type":"TEXT_MESSAGE_START","messageId":"m-%[1]s","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m-%[1]s","delta":%[3]q}
{"type":"TEXT_MESSAGE_END","messageId":"m-%[1]s"}
{"type":"RUN_FINISHED","threadId":"t","runId":%[1]q}
`, run, more, says)
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update rewrites it); got\n%s", path, got)
	}
}
