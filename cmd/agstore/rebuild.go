package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
)

func (a *app) rebuildCommand() *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "rebuild [PROJECTION]",
		Short: "Make projections of the log anew",
		Long: "Makes the states of a projection anew from the log, or those of all: what a program that\n" +
			"embeds the store derives from it. While the program has the store, that is done at once,\n" +
			"with the old answers given until it is; otherwise when the program opens it next.\n" +
			"--list shows the projections and how far each is. In a pipe: name, version, position and\n" +
			"what it is at (current, building, stopped, stored), a line each.",
		Example: "  agstore rebuild\n  agstore rebuild usage\n  agstore rebuild --list",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if list && len(args) == 1 {
				return &usageError{text: "rebuild takes a projection, or --list"}
			}
			if a.server != "" {
				return &usageError{text: "--server: projections are made where the store is", hint: "run it on that machine, with --data"}
			}
			return a.with(ctx, reading, func(c *client.Client) error {
				if list {
					return a.listProjections(ctx, c)
				}
				return a.rebuild(ctx, c, args)
			})
		}),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.offer(cmd, projectionNames)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the projections")
	return cmd
}

func projectionNames(ctx context.Context, c *client.Client) (names []string, err error) {
	all, err := c.Projections(ctx)
	for _, p := range all.Projections {
		names = append(names, p.Name)
	}
	return names, err
}

// rebuild makes the projections named anew, or all, one after the other.
func (a *app) rebuild(ctx context.Context, c *client.Client, names []string) (err error) {
	if len(names) == 0 {
		if names, err = projectionNames(ctx, c); err != nil {
			return err
		}
	}
	for _, name := range names {
		var last *api.Projection
		for l, err := range c.RebuildProjection(ctx, name) {
			if err != nil {
				a.rebuildProgress(name, nil)
				return err
			}
			last = l.Projection
			if !l.Done {
				a.rebuildProgress(name, last)
			}
		}
		a.rebuildProgress(name, nil)
		if err := a.printRebuilt(last); err != nil {
			return err
		}
	}
	return nil
}

// rebuildProgress shows on a terminal how far a rebuild is; nil: it has ended.
func (a *app) rebuildProgress(name string, p *api.Projection) {
	switch {
	case !a.io.errTTY:
	case p == nil:
		fmt.Fprint(a.io.err, "\r\x1b[K")
	default:
		fmt.Fprintf(a.io.err, "\r\x1b[K%s: %d of %d", printable(name), p.Position, p.Target)
	}
}

func (a *app) printRebuilt(p *api.Projection) error {
	switch {
	case a.json:
		return json.NewEncoder(a.io.out).Encode(p)
	case !a.io.outTTY:
		return a.printTable(a.io.out, &table{rows: [][]string{projectionRow(p)}})
	case !p.Kept:
		_, err := fmt.Fprintf(a.io.out, "%s is made anew when the program that keeps it opens the store\n", printable(p.Name))
		return err
	}
	_, err := fmt.Fprintf(a.io.out, "%s was made anew, up to position %d\n", printable(p.Name), p.Position)
	return err
}

func projectionRow(p *api.Projection) []string {
	state := "current"
	switch {
	case p.Error != nil:
		state = "stopped"
	case p.Building:
		state = "building"
	case !p.Kept:
		state = "stored"
	}
	return []string{p.Name, strconv.Itoa(p.Version), strconv.FormatUint(p.Position, 10), state}
}

func (a *app) listProjections(ctx context.Context, c *client.Client) error {
	all, err := c.Projections(ctx)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(a.io.out)
	t := &table{header: []string{"PROJECTION", "VERSION", "POSITION", "STATE"}}
	for i := range all.Projections {
		p := &all.Projections[i]
		if a.json {
			if err := lines.Encode(p); err != nil {
				return err
			}
			continue
		}
		t.add(projectionRow(p)...)
		if p.Error != nil {
			fmt.Fprintf(a.io.err, "%s: %s\n", printable(p.Name), printable(p.Error.Detail))
		}
	}
	if a.json {
		return nil
	}
	return a.printTable(a.io.out, t)
}
