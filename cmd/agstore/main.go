package main

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(interruptible(os.Args[1:]))
}

// interruptible runs the command and cancels it at the first signal; the second
// one ends the process.
func interruptible(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, systemStreams(), self, args)
}

// self is a call of this program.
func self(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, path, args...), nil
}
