package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/api/client"
)

func (a *app) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff THREAD A [B]",
		Short: "What changed between two points or two branches",
		Long: "Compares what a thread looks like at two points: which messages were added, removed,\n" +
			"changed or moved, and the state, as a JSON Patch (RFC 6902) that makes the second of the\n" +
			"first. A point is a run (its id, a beginning of it that only one has, or id#2), @SEQ,\n" +
			"head, or root: before the first run. Without B it is head.",
		Example: "  agstore diff thread-1 run-1 run-2\n  agstore diff thread-1 @120 --json | jq .state",
		Args:    cobra.RangeArgs(2, 3),
		RunE: a.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			to := "head"
			if len(args) == 3 {
				to = args[2]
			}
			var diff []byte
			err := a.with(ctx, reading, func(c *client.Client) (err error) {
				diff, err = c.Diff(ctx, args[0], args[1], to)
				return err
			})
			if err != nil {
				return err
			}
			return a.io.page(ctx, func(w io.Writer) error {
				if a.json {
					return a.printJSON(w, diff)
				}
				return a.printDiff(w, diff)
			})
		}),
		ValidArgsFunction: a.completePoints,
	}
}

// completePoints offers a thread, and then points of it.
func (a *app) completePoints(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 || len(args) > 2 {
		return a.completeThread(false)(cmd, args, typed)
	}
	return a.offer(cmd, func(ctx context.Context, c *client.Client) ([]string, error) {
		runs, err := c.Runs(ctx, args[0])
		points := []string{"head", "root"}
		for _, r := range runs {
			points = append(points, runName(r))
		}
		return points, err
	})
}

// difference is what is shown of one.
type difference struct {
	Messages []struct {
		Change        string
		ID            string
		From, To      int
		Before, After *message
	}
	State []struct {
		Op, Path string
		Value    json.RawMessage
	}
	StateGone bool
}

// printDiff prints a difference as text.
func (a *app) printDiff(w io.Writer, diff []byte) error {
	var d difference
	if err := json.Unmarshal(diff, &d); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, m := range d.Messages {
		switch m.Change {
		case "added":
			a.printSide(out, "+", green, m.ID, m.After)
		case "removed":
			a.printSide(out, "-", red, m.ID, m.Before)
		case "changed":
			fmt.Fprintln(out, a.paint(yellow, "~ "+printable(m.After.Role+" "+m.ID)))
			before, after := differing(bodyOf(m.Before), bodyOf(m.After))
			a.printLines(out, "-", red, before)
			a.printLines(out, "+", green, after)
			if len(before)+len(after) == 0 {
				fmt.Fprintln(out, "  (metadata)")
			}
		case "moved":
			fmt.Fprintln(out, a.paint(yellow, fmt.Sprintf("> %s from place %d to %d", printable(m.ID), m.From+1, m.To+1)))
		}
	}
	for _, op := range d.State {
		line := op.Op + " " + op.Path
		if op.Path == "" {
			line = op.Op + " the whole state"
		}
		if len(op.Value) > 0 {
			line += " " + string(op.Value)
		}
		fmt.Fprintln(out, "state: "+printable(line))
	}
	if d.StateGone {
		fmt.Fprintln(out, "state: there is none any more")
	}
	if len(d.Messages)+len(d.State) == 0 && !d.StateGone && a.io.outTTY {
		fmt.Fprintln(out, "The messages and the state are the same.")
	}
	return out.Flush()
}

func (a *app) printSide(out *bufio.Writer, sign string, mark style, id string, m *message) {
	fmt.Fprintln(out, a.paint(mark, sign+" "+printable(m.Role+" "+id)))
	a.printLines(out, sign, mark, bodyOf(m))
}

func (a *app) printLines(out *bufio.Writer, sign string, mark style, lines []string) {
	for _, line := range lines {
		fmt.Fprintln(out, a.paint(mark, sign+"   "+printable(line)))
	}
}

// bodyOf is what a message says, line by line.
func bodyOf(m *message) []string {
	var lines []string
	if text := contentText(m.Content); text != "" {
		lines = strings.Split(text, "\n")
	}
	if m.Error != "" {
		lines = append(lines, "error: "+m.Error)
	}
	for _, c := range m.ToolCalls {
		lines = append(lines, "→ "+c.Function.Name+" "+c.Function.Arguments)
	}
	return lines
}

// differing leaves out the lines that both begin and end with.
func differing(a, b []string) (before, after []string) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}
