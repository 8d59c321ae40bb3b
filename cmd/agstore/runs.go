package main

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
)

func (a *app) runsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "runs THREAD",
		Short: "Show the tree of a thread's runs",
		Long: "Draws the runs of a thread as a tree: what became of each, how many events it has, how\n" +
			"long it took, and which one the thread continues from. In a pipe: run, parent, status,\n" +
			"events, first seq, last seq, started, seconds, and \"head\", a line each.",
		Example: "  agstore runs thread-1\n  agstore runs thread-1 --json | jq 'select(.head)'",
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			var runs []api.Run
			err := a.with(ctx, reading, func(c *client.Client) (err error) {
				runs, err = c.Runs(ctx, args[0])
				return err
			})
			if err != nil {
				return err
			}
			return a.io.page(ctx, func(w io.Writer) error { return a.printRuns(w, runs) })
		}),
		ValidArgsFunction: a.completeThread(false),
	}
}

func (a *app) printRuns(w io.Writer, runs []api.Run) error {
	if a.json {
		lines := json.NewEncoder(w)
		for _, r := range runs {
			if err := lines.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	times := a.listClock()
	if !a.io.outTTY {
		t := &table{}
		for _, r := range runs {
			t.add(runName(r), parentOf(r), r.Status.String(), number(r.Events), number(r.FirstSeq), number(r.LastSeq),
				times.show(r.Started), seconds(r), headMark(r))
		}
		return a.printTable(w, t)
	}
	t := &table{header: []string{"RUN", "STATUS", "EVENTS", "SEQ", "STARTED", "TOOK", ""}, marks: []style{bold}}
	drawTree(runs, func(prefix string, r api.Run) {
		took := ""
		if r.Ended != nil {
			took = short(r.Ended.Sub(r.Started))
		}
		t.add(prefix+shorten(runName(r), 32), r.Status.String(), number(r.Events),
			number(r.FirstSeq)+"–"+number(r.LastSeq), times.show(r.Started), took, headMark(r))
	})
	return a.printTable(w, t)
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func runName(r api.Run) string { return agui.RunKey{ID: string(r.Run), Attempt: r.Attempt}.String() }

func parentOf(r api.Run) string {
	if r.Parent == nil {
		return ""
	}
	return string(*r.Parent)
}

func headMark(r api.Run) string {
	if r.Head {
		return "head"
	}
	return ""
}

func seconds(r api.Run) string {
	if r.Ended == nil {
		return ""
	}
	return strconv.FormatFloat(r.Ended.Sub(r.Started).Round(time.Millisecond).Seconds(), 'f', 3, 64)
}

// drawTree calls line for every run, parents before their children, with what is
// to be drawn before it. A run with one child goes on in the same column, so a
// thread without branches is a plain list.
func drawTree(runs []api.Run, line func(prefix string, r api.Run)) {
	children := make(map[string][]api.Run)
	var roots []api.Run
	for _, r := range runs {
		if r.Parent == nil {
			roots = append(roots, r)
		} else {
			children[string(*r.Parent)] = append(children[string(*r.Parent)], r)
		}
	}
	type entry struct {
		run         api.Run
		own, behind string // before the run, and before all that stands under it
	}
	push := func(stack []entry, under string, siblings []api.Run) []entry {
		for i := len(siblings) - 1; i >= 0; i-- {
			e := entry{siblings[i], under + "├─ ", under + "│  "}
			switch {
			case len(siblings) == 1:
				e.own, e.behind = under, under
			case i == len(siblings)-1:
				e.own, e.behind = under+"└─ ", under+"   "
			}
			stack = append(stack, e)
		}
		return stack
	}
	for stack := push(nil, "", roots); len(stack) > 0; {
		e := stack[len(stack)-1]
		stack = push(stack[:len(stack)-1], e.behind, children[runName(e.run)])
		line(e.own, e.run)
	}
}
