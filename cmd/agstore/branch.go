package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

func (a *app) branchCommand() *cobra.Command {
	var opts client.BranchOptions
	var text string
	cmd := &cobra.Command{
		Use:   "branch THREAD --from RUN|root [FILE|-]",
		Short: "Start another path from an earlier run",
		Long: "Starts a run behind an earlier one, or with \"root\" from nothing, and ends it. The thread\n" +
			"goes on from there; the other path stays where it is. The run holds the events of FILE and\n" +
			"begins with the user's turn of --message, if they are given. No agent is called: with\n" +
			"--message, the next run of the thread answers. In a pipe: run, parent, first seq and last\n" +
			"seq, on one line.",
		Example: "  agstore branch thread-1 --from run-1 --message \"Rather by train.\"\n  agstore branch thread-1 --from root events.jsonl --run retold",
		Args:    cobra.RangeArgs(1, 2),
		RunE: a.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				events, err := a.readEvents(ctx, args[1])
				if err != nil {
					return fmt.Errorf("read %s: %w", args[1], err)
				}
				opts.Events = events
			}
			if cmd.Flags().Changed("message") {
				opts.Messages = [][]byte{userMessage(text)}
			}
			var done api.Branched
			err := a.with(ctx, reading, func(c *client.Client) (err error) {
				done, err = c.Branch(ctx, args[0], opts)
				return err
			})
			if err != nil {
				return err
			}
			return a.printBranched(done)
		}),
		ValidArgsFunction: a.completeThread(true),
	}
	cmd.Flags().StringVar(&opts.From, "from", "", "the run to continue, or \"root\"")
	cmd.Flags().StringVar(&opts.Run, "run", "", "the id of the new run; without it a random one")
	cmd.Flags().StringVar(&text, "message", "", "what the user says at its start")
	a.completeRunFlag(cmd, "from")
	if err := cmd.MarkFlagRequired("from"); err != nil {
		panic(err) // the flag is made three lines above
	}
	return cmd
}

func userMessage(text string) []byte {
	id := "msg-" + strings.ToLower(rand.Text())
	return fmt.Appendf(nil, `{"id":%s,"role":"user","content":%s}`, agui.Quote(id), agui.Quote(text))
}

// readEvents reads a whole input, which must be events and fit into one request.
func (a *app) readEvents(ctx context.Context, name string) ([][]byte, error) {
	in, stop, err := a.openInput(ctx, name)
	if err != nil {
		return nil, err
	}
	defer stop()
	limits := eventlog.DefaultLimits()
	events := newEventReader(in, limits.EventBytes)
	var out [][]byte
	for size := 0; ; {
		next, err := events.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if err := checkEvent(next); err != nil {
			return nil, err
		}
		if size += len(next.data); size > limits.BatchBytes {
			return nil, &lineError{next.line, &eventlog.TooLargeError{What: "branch", Size: size, Limit: limits.BatchBytes}}
		}
		out = append(out, append([]byte(nil), next.data...))
	}
}

func (a *app) printBranched(done api.Branched) error {
	if a.json {
		return json.NewEncoder(a.io.out).Encode(done)
	}
	if !a.io.outTTY {
		return a.printTable(a.io.out, &table{rows: [][]string{{string(done.Run), string(done.Parent), number(done.First), number(done.Last)}}})
	}
	_, err := fmt.Fprintf(a.io.out, "run %s behind %s, seq %d to %d\n", printable(string(done.Run)), printable(string(done.Parent)), done.First, done.Last)
	return err
}
