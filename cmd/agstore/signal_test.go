package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// process starts the command as a process of its own.
func (c *cli) process(args ...string) (*exec.Cmd, *bytes.Buffer) {
	c.t.Helper()
	cmd, err := thisBinary(c.t.Context(), append(args, "--data", c.data)...)
	if err != nil {
		c.t.Fatal(err)
	}
	said := new(bytes.Buffer)
	cmd.Stderr = said
	return cmd, said
}

// Ctrl-C: the code for it, one line that says so, and a complete last line.
func TestSignalEndsReplay(t *testing.T) {
	c := storyCLI(t)
	cmd, said := c.process("replay", "t", "--follow", "--speed", "max")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, last := bufio.NewReader(out), ""
	for !strings.Contains(last, "waits for an answer") {
		if last, err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != int(exitInterrupted) || said.String() != "agstore: interrupted\n" {
		t.Errorf("%v; it says %q", err, said)
	}
	if len(rest) > 0 && rest[len(rest)-1] != '\n' {
		t.Errorf("it ends with %q", rest)
	}
}

// An import that is interrupted leaves whole batches, and a store like any other.
func TestSignalEndsImport(t *testing.T) {
	c := newCLI(t)
	cmd, said := c.process("import", "t", "-", "--idempotency-key", "k")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// More than a pipe holds: when it is written, some of it has been read.
	stream := many(20_500)
	if _, err := io.WriteString(in, stream); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != int(exitInterrupted) {
		t.Errorf("%v; it says %q", err, said)
	}
	if n := c.lastSeq("t"); n == 0 || n%importEvents != 0 {
		t.Errorf("%d records", n)
	}
	// The same command again completes it.
	c.with(stream).ok("import", "t", "-", "--idempotency-key", "k")
	if got := c.ok("export", "t"); got != stream {
		t.Error("the log is not the stream")
	}
}

// Whoever reads the output leaves: the command ends, and says nothing.
func TestReaderLeaves(t *testing.T) {
	c := newCLI(t)
	c.with(many(5000)).ok("import", "t", "-")
	cmd, said := c.process("export", "t")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	ended := (*exec.ExitError)(nil)
	if err := cmd.Wait(); !errors.As(err, &ended) || said.Len() > 0 {
		t.Fatalf("it ended with %v and says %q", err, said)
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGPIPE {
		t.Errorf("it ended with %v", ended)
	}
}
