package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
)

func (a *app) dismissCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "dismiss THREAD [INTERRUPT…]",
		Short: "Take back questions, without asking an agent",
		Long: "Cancels interrupts of a thread: those named, or all that are pending. It is written as a\n" +
			"run that cancels them and ends as cancelled, so the history shows it, and nobody can\n" +
			"answer them any more. One that was answered already is a conflict that names the run. In\n" +
			"a pipe: run and interrupt, a line for each.",
		Example: "  agstore dismiss thread-1\n  agstore dismiss thread-1 approval-7",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			var done api.Dismissed
			err := a.with(ctx, reading, func(c *client.Client) (err error) {
				done, err = c.Dismiss(ctx, args[0], args[1:]...)
				return err
			})
			if err != nil {
				return err
			}
			return a.printDismissed(done)
		}),
		ValidArgsFunction: a.completeInterrupts,
	}
}

func (a *app) printDismissed(done api.Dismissed) error {
	if a.json {
		return json.NewEncoder(a.io.out).Encode(done)
	}
	if !a.io.outTTY {
		t := &table{}
		for _, id := range done.Interrupts {
			t.add(string(done.Run), string(id))
		}
		return a.printTable(a.io.out, t)
	}
	for _, id := range done.Interrupts {
		if _, err := fmt.Fprintf(a.io.out, "dismissed %s by run %s\n", printable(string(id)), printable(string(done.Run))); err != nil {
			return err
		}
	}
	return nil
}

// completeInterrupts offers a thread, and then what is pending in it.
func (a *app) completeInterrupts(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeThread(false)(cmd, args, typed)
	}
	return a.offer(cmd, func(ctx context.Context, c *client.Client) ([]string, error) {
		raw, err := c.View(ctx, args[0], client.ViewOptions{Messages: 1})
		if err != nil {
			return nil, err
		}
		var v view
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, err
		}
		var ids []string
		for _, open := range v.PendingInterrupts {
			ids = append(ids, open.ID)
		}
		return ids, nil
	})
}
