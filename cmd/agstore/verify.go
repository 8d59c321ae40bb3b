package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// verdict counts what a verification or a repair has found.
type verdict struct {
	faults, mended, notes int
	done                  eventlog.VerifyProgress
}

// mendedLine is a line of verify --repair --json.
type mendedLine struct {
	Fault  *api.VerifyFault `json:"fault"`
	Action string           `json:"action,omitempty"`
}

func (a *app) verifyCommand() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "verify [THREAD]",
		Short: "Look for damage in the store, and mend what is derived",
		Long: "Looks at everything that is stored, of all scopes, or at one thread: checksums, holes, the\n" +
			"chain of commits, the indexes, and kept views against views folded anew. Every fault is\n" +
			"printed as it is found, with its place and what it means; what the producers of a thread\n" +
			"did against the protocol is noted. The store can be in use. --repair writes anew what is\n" +
			"derived, never the log; for that nobody else may have the store. Faults that are left:\n" +
			"exit code 6. In a pipe: kind, scope, thread, seq, position, detail, and with --repair what\n" +
			"was done, a line each.",
		Example: "  agstore verify\n  agstore verify thread-1 --json\n  agstore verify --repair",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if a.server != "" {
				return &usageError{text: "--server: a store is verified where it is", hint: "run it on that machine, with --data"}
			}
			thread := ""
			if len(args) == 1 {
				thread = args[0]
			}
			var v verdict
			var err error
			if repair {
				err = a.repair(ctx, thread, &v)
			} else {
				err = a.with(ctx, reading, func(c *client.Client) error { return a.verify(ctx, c, thread, &v) })
				if errors.Is(err, eventlog.ErrCorrupt) && v == (verdict{}) {
					err = a.verifyDir(ctx, thread, &v) // it cannot be opened
				}
			}
			if err != nil {
				return err
			}
			return a.judge(v)
		}),
		ValidArgsFunction: a.completeThread(false),
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "write anew what is derived from records")
	return cmd
}

func (a *app) verify(ctx context.Context, c *client.Client, thread string, v *verdict) error {
	lines := json.NewEncoder(a.io.out)
	for l, err := range c.Verify(ctx, thread) {
		if err != nil {
			return err
		}
		switch {
		case l.Done != nil:
			v.done = *l.Done
		case l.Fault != nil:
			v.faults++
			err = a.printFault(l.Fault, nil)
		case l.Note != nil:
			v.notes++
			err = a.printNote(l.Note)
		}
		if a.json && err == nil {
			err = lines.Encode(l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyDir looks at a store that cannot be opened.
func (a *app) verifyDir(ctx context.Context, thread string, v *verdict) error {
	lines := json.NewEncoder(a.io.out)
	for f, err := range agstore.VerifyDir(ctx, a.data, a.verifyOptions(thread, v)) {
		if err != nil {
			return err
		}
		v.faults++
		line := api.VerifyLine{Fault: api.FaultOf(f)}
		if a.json {
			err = lines.Encode(line)
		} else {
			err = a.printFault(line.Fault, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) verifyOptions(thread string, v *verdict) eventlog.VerifyOptions {
	opts := eventlog.VerifyOptions{Progress: func(p eventlog.VerifyProgress) { v.done = p }}
	if thread != "" {
		opts.Thread = &eventlog.ThreadKey{Scope: a.scope, Thread: thread}
	}
	return opts
}

func (a *app) repair(ctx context.Context, thread string, v *verdict) error {
	if err := a.exists(); err != nil {
		return err
	}
	lines := json.NewEncoder(a.io.out)
	for m, err := range agstore.Repair(ctx, a.data, a.verifyOptions(thread, v)) {
		if errors.Is(err, eventlog.ErrLocked) {
			return &hinted{err, "a store is repaired when nobody has it: end the program that holds it first"}
		}
		if err != nil {
			return err
		}
		v.faults++
		if m.Action != "" {
			v.mended++
		}
		f := api.FaultOf(m.Fault)
		if a.json {
			err = lines.Encode(mendedLine{f, m.Action})
		} else {
			err = a.printFault(f, &m.Action)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printFault prints a fault, and what a repair did about it.
func (a *app) printFault(f *api.VerifyFault, action *string) error {
	if a.json {
		return nil
	}
	if !a.io.outTTY {
		cells := []string{string(f.Kind), f.Scope, f.Thread, number(f.Seq), number(f.Position), f.Detail}
		if action != nil {
			cells = append(cells, *action)
		}
		return a.printTable(a.io.out, &table{rows: [][]string{cells}})
	}
	text := f.Fault().String()
	if _, err := fmt.Fprintf(a.io.out, "%s\n  %s\n", printable(text), f.Meaning); err != nil || action == nil {
		return err
	}
	done := "left as it is"
	if *action != "" {
		done = *action
	}
	_, err := fmt.Fprintf(a.io.out, "  %s\n", printable(done))
	return err
}

func (a *app) printNote(n *api.VerifyNote) error {
	if a.json {
		return nil
	}
	detail, err := json.Marshal(n.Detail)
	if err != nil {
		return err
	}
	if !a.io.outTTY {
		return a.printTable(a.io.out, &table{rows: [][]string{{"note:" + n.Rule, n.Scope, n.Thread, number(n.Seq), "", string(detail)}}})
	}
	_, err = fmt.Fprintf(a.io.out, "note: scope %q thread %q seq %d: %s %s\n", n.Scope, n.Thread, n.Seq, n.Rule, printable(string(detail)))
	return err
}

// judge says on standard error how it ended, and fails if faults are left.
func (a *app) judge(v verdict) error {
	if left := v.faults - v.mended; left > 0 {
		hint := "agstore verify --repair mends what is derived; restore a backup for the rest"
		if v.mended > 0 {
			hint = strconv.Itoa(v.mended) + " were mended; restore a backup for the rest"
		}
		return &hinted{&eventlog.Error{Op: "verify", Err: fmt.Errorf("%w: %d faults", eventlog.ErrCorrupt, left)}, hint}
	}
	what := "no fault"
	if v.mended > 0 {
		what = fmt.Sprintf("%d faults mended, none left", v.mended)
	}
	_, err := fmt.Fprintf(a.io.err, "%s in %d threads, %d records, %d commits\n", what, v.done.Threads, v.done.Records, v.done.Commits)
	return err
}
