package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
)

// demoServerCommand is serve for a parent process: it ends when its standard
// input does, so that it does not outlive the parent.
func (a *app) demoServerCommand() *cobra.Command {
	s := service{app: a}
	cmd := &cobra.Command{
		Use: "demo-server", Hidden: true, Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() { // ends with the input, at the latest with the process
				defer cancel()
				_, _ = io.Copy(io.Discard, a.io.in)
			}()
			return s.run(ctx)
		}),
	}
	s.flags(cmd)
	return cmd
}

// child is a server of this program in a process of its own.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	err   bytes.Buffer
	url   string
}

// startChild starts a server of the store in dir, on any free port, and waits
// until it listens.
func startChild(ctx context.Context, self func(context.Context, ...string) (*exec.Cmd, error), dir string, args ...string) (*child, error) {
	args = append([]string{"demo-server", "--data", dir, "--listen", "127.0.0.1:0", "--json"}, args...)
	cmd, err := self(ctx, args...)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: cmd}
	cmd.Stderr = &c.err
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var ready struct {
		Listening string `json:"listening"`
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), c.kill(), errors.New(strings.TrimSpace(c.err.String())))
	}
	c.url = ready.Listening
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends the process at once, as kill -9 does.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	if err := c.cmd.Wait(); err != nil && c.cmd.ProcessState == nil {
		return err
	}
	return nil
}

// stop lets the process end by itself.
func (c *child) stop() error {
	if err := c.stdin.Close(); err != nil {
		return err
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("the server ended badly: %w: %s", err, strings.TrimSpace(c.err.String()))
	}
	return nil
}
