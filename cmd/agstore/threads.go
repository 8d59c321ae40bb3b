package main

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/api/client"
)

func (a *app) threadsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "threads",
		Short:   "List the threads",
		Long:    "Lists the threads of the scope by their ids. In a pipe: id, records, runs, head, created\nand updated, a line each; with --json an object a line.",
		Example: "  agstore threads\n  agstore threads --json | jq -r .thread",
		Args:    noArgs,
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.with(ctx, reading, func(c *client.Client) error { return a.printThreads(ctx, c) })
		}),
	}
}

func (a *app) printThreads(ctx context.Context, c *client.Client) error {
	t := &table{
		header: []string{"THREAD", "RECORDS", "RUNS", "HEAD", "CREATED", "UPDATED"},
		marks:  []style{bold},
	}
	lines := json.NewEncoder(a.io.out)
	created, updated := a.listClock(), a.listClock()
	for thread, err := range c.Threads(ctx) {
		if err != nil {
			return err
		}
		if a.json {
			if err := lines.Encode(thread); err != nil {
				return err
			}
			continue
		}
		t.add(string(thread.Thread), strconv.FormatUint(thread.LastSeq, 10), strconv.Itoa(thread.Runs), string(thread.Head),
			created.show(thread.Created), updated.show(thread.Updated))
	}
	if a.json {
		return nil
	}
	return a.printTable(a.io.out, t)
}
