package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/term"
)

// streams is what a command reads from and writes to. Data goes to out, all else
// to err. Tests make their own.
type streams struct {
	in       io.Reader
	out, err io.Writer
	outTTY   bool // out is a terminal: tables, colour, a pager
	errTTY   bool // err is a terminal: progress
	inTTY    bool // in is a terminal: somebody can be asked
	width    int  // of the terminal, in columns
	env      func(string) string
}

func systemStreams() *streams {
	s := &streams{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		outTTY: term.IsTerminal(int(os.Stdout.Fd())),
		errTTY: term.IsTerminal(int(os.Stderr.Fd())),
		inTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		width:  80,
		env:    os.Getenv,
	}
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
		s.width = w
	}
	return s
}

// reader is in, but a read ends when ctx does. What is in the middle of a read
// by then is given up: its goroutine ends with the input or the process.
func (s *streams) reader(ctx context.Context) (r io.Reader, stop func()) {
	pr, pw := io.Pipe()
	go func() {
		_, err := io.Copy(pw, s.in)
		pw.CloseWithError(err)
	}()
	release := context.AfterFunc(ctx, func() { pw.CloseWithError(ctx.Err()) })
	return pr, func() { release(); pr.Close() }
}

// page calls write with where its text is to go: through a pager if out is a
// terminal and one is wanted (AGSTORE_PAGER, else PAGER), else straight to out.
func (s *streams) page(ctx context.Context, write func(io.Writer) error) error {
	words := strings.Fields(s.pager())
	if len(words) == 0 {
		return write(s.out)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = s.out, s.err
	cmd.Env = os.Environ()
	if s.env("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX") // stay out of the way of what fits on the screen
	}
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return write(s.out)
	}
	err = write(in)
	if closed := in.Close(); err == nil {
		err = closed
	}
	if isBrokenPipe(err) {
		err = nil // the pager was left before the end
	}
	_ = cmd.Wait() // how the pager ended says nothing about the data
	return err
}

func (s *streams) pager() string {
	if !s.outTTY {
		return ""
	}
	for _, name := range []string{"AGSTORE_PAGER", "PAGER"} {
		if p := s.env(name); p != "" {
			if p == "cat" {
				return ""
			}
			return p
		}
	}
	return ""
}
