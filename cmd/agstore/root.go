package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore"
)

// app is one call of the command: its streams and its global flags.
type app struct {
	io   *streams
	self func(ctx context.Context, args ...string) (*exec.Cmd, error)
	now  func() time.Time

	data   string // the data directory
	server string // a server's URL; empty: the data directory
	scope  string
	json   bool
	colour string // auto, always or never
	times  string // relative, iso or delta; empty: as fits
	// entered: the command line was understood, so what fails now is no misuse
	// of it.
	entered bool
}

const defaultData = "./agstore-data"

// run is the whole command: it ends with the exit code.
func run(ctx context.Context, io *streams, self func(context.Context, ...string) (*exec.Cmd, error), args []string) int {
	a := &app{io: io, self: self, now: time.Now}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return int(exitDone)
	case isBrokenPipe(err):
		return int(exitFailed) // whoever read is gone, and knows
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		report(io.err, errors.New("interrupted"))
		return int(exitInterrupted)
	case !a.entered && !errors.Is(err, errUsage):
		err = misuse(cmd, err)
	case errors.Is(err, errUsage) && hintOf(err) == "":
		err = &hinted{err, helpOf(cmd)}
	}
	report(io.err, err)
	return int(exitOf(err))
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "agstore",
		Short: "Durable, replayable AG-UI conversations",
		Long: "agstore keeps AG-UI conversations: every event of a thread in a durable log, and\n" +
			"everything a product shows folded from it. A thread survives any restart, and can\n" +
			"be followed live, replayed, and branched from any run.",
		Example:           "  agstore demo\n  agstore serve --agent helper=http://127.0.0.1:8000/agent\n  agstore replay thread-1 --speed 4x",
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.validate() },
	}
	data := defaultData
	if dir := a.io.env("AGSTORE_DATA"); dir != "" {
		data = dir
	}
	f := root.PersistentFlags()
	f.StringVar(&a.data, "data", data, "the data directory (environment: AGSTORE_DATA)")
	f.StringVar(&a.server, "server", "", "the URL or address of a running agstore serve, instead of a data directory")
	f.StringVar(&a.scope, "scope", agstore.DefaultScope, "the tenant or user that the threads belong to")
	f.BoolVar(&a.json, "json", false, "print JSON: one value, or one a line")
	f.StringVar(&a.colour, "color", "auto", "auto, always or never (environment: NO_COLOR)")
	f.StringVar(&a.times, "time", "", "how times are shown: relative, iso or delta")
	a.complete(root, "color", "auto", "always", "never")
	a.complete(root, "time", "relative", "iso", "delta")
	root.AddCommand(
		a.demoCommand(), a.demoServerCommand(), a.serveCommand(),
		a.importCommand(), a.exportCommand(), a.showCommand(), a.replayCommand(),
		a.threadsCommand(), a.runsCommand(), a.diffCommand(), a.branchCommand(), a.dismissCommand(), a.foldCommand(),
		a.backupCommand(), a.restoreCommand(), a.verifyCommand(), a.rebuildCommand(),
		a.eraseCommand(), a.clearCommand(), a.redactCommand(), a.retainCommand(), a.receiptsCommand(),
		a.versionCommand(),
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitHelp()},
	)
	return root
}

// validate checks the global flags.
func (a *app) validate() error {
	if !slices.Contains([]string{"auto", "always", "never"}, a.colour) {
		return &usageError{text: fmt.Sprintf("--color %s: auto, always or never", a.colour)}
	}
	if !slices.Contains([]string{"", "relative", "iso", "delta"}, a.times) {
		return &usageError{text: fmt.Sprintf("--time %s: relative, iso or delta", a.times)}
	}
	for flag, value := range map[string]string{"scope": a.scope, "data": a.data} {
		if value == "" { // an unset variable of a script, not the default
			return &usageError{text: "--" + flag + " is empty", hint: "leave it out for the default"}
		}
	}
	if a.server != "" && a.scope != agstore.DefaultScope {
		return &usageError{text: "--scope: a server acts in its own scope", hint: "leave out --scope, or use --data where the store is"}
	}
	if a.server != "" {
		var err error
		a.server, err = serverURL(a.server)
		return err
	}
	return nil
}

// do makes a cobra command's function of f.
func (a *app) do(f func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.entered = true
		return f(cmd.Context(), cmd, args)
	}
}

// optional is the value of a flag, nil if it was not given.
func optional[T any](cmd *cobra.Command, flag string, value *T) *T {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return value
}
