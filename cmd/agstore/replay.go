package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/replay"
)

// pauseLimit is the longest pause of a replay, unless --full-pauses is given.
const pauseLimit = 2 * time.Second

func (a *app) replayCommand() *cobra.Command {
	var selected selection
	var speed string
	var follow, full, interactive bool
	var serving replayServing
	cmd := &cobra.Command{
		Use:   "replay THREAD",
		Short: "Play a thread back as it happened",
		Long: "Plays the events of a thread at the pace at which they were recorded: the transcript\n" +
			"builds up, with tool calls, changes of state, interrupts and the ends of runs. Pauses are\n" +
			"cut to two seconds. With --follow it goes on with what comes. With --json the records, an\n" +
			"object a line, at the same pace.\n\n" +
			"With -i, on a terminal, one steps through it: by event, run or message, forwards and back,\n" +
			"with the transcript and the state as they were, and what each event changed.\n\n" +
			"With --serve it offers the thread as an AG-UI agent, for a front end to be tried without a\n" +
			"model: each run of a threadId is answered with the next recorded run, at the same pace, step\n" +
			"by step, or with faults. A path that ends with /connect plays all of them.",
		Example: "  agstore replay thread-1 --speed 4x\n  agstore replay thread-1 --follow --from 120\n  agstore replay thread-1 --speed max --json > records.jsonl\n  agstore replay thread-1 --serve 127.0.0.1:8000 --cut-at 40",
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			factor, err := parseSpeed(speed)
			if err != nil {
				return err
			}
			opts, err := selected.options(cmd)
			if err != nil {
				return err
			}
			if opts.Follow = follow; follow && opts.Run != nil {
				return &usageError{text: "--follow and --run exclude each other", hint: "a lineage ends with its run; --from follows the thread from a seq"}
			}
			limit := pauseLimit
			if full {
				limit = 0
			}
			faults, err := serving.options(cmd, factor, limit)
			if err != nil {
				return err
			}
			want := reading
			if follow || serving.addr != "" {
				want = following
			}
			if follow && serving.addr != "" {
				return &usageError{text: "--serve and --follow exclude each other", hint: "agstore serve has the live thread: POST /v1/agents/NAME/connect"}
			}
			if interactive && (follow || a.json || serving.addr != "") {
				return &usageError{text: "-i excludes --follow, --json and --serve"}
			}
			return a.with(ctx, want, func(c *client.Client) error {
				if interactive {
					return a.debug(ctx, c, args[0], opts)
				}
				if serving.addr != "" {
					return a.serveReplay(ctx, &serving, faults, c, args[0], opts)
				}
				opts.Gaps = true
				return a.play(replay.Pace(ctx, records(ctx, c, args[0], opts), factor, limit))
			})
		}),
		ValidArgsFunction: a.completeThread(false),
	}
	selected.flags(a, cmd)
	serving.flags(cmd)
	cmd.Flags().BoolVarP(&interactive, "interactive", "i", false, "step through it: timeline, transcript and state at each event")
	cmd.Flags().StringVar(&speed, "speed", "1x", "how many times as fast, or max: without pauses")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().BoolVar(&full, "full-pauses", false, "do not cut long pauses")
	a.complete(cmd, "speed", "0.5x", "1x", "2x", "4x", "10x", "max")
	return cmd
}

// parseSpeed reads "4x", "4" or "max", which is 0: without pauses.
func parseSpeed(text string) (float64, error) {
	if text == "max" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) {
		return 0, &usageError{text: fmt.Sprintf("--speed %s: a factor, as 4x or 0.5x, or max", text)}
	}
	return n, nil
}

// play shows records as they come, as text or as JSON.
func (a *app) play(records iter.Seq2[eventlog.Record, error]) (err error) {
	out := bufio.NewWriter(a.io.out)
	p := a.newPlayer(out)
	defer func() {
		p.endLine() // an interrupted replay too leaves a complete last line
		err = errors.Join(err, out.Flush())
	}()
	for r, err := range records {
		gap := (*eventlog.GapError)(nil)
		switch {
		case errors.As(err, &gap) && a.json:
			_, err = out.Write(append(api.AppendGap(nil, gap), '\n'))
		case gap != nil:
			err = nil
			p.gap(gap)
		case err != nil:
			return err
		case a.json:
			_, err = out.Write(append(api.AppendRecord(nil, r), '\n'))
		default:
			p.record(r)
		}
		if err = errors.Join(err, out.Flush()); err != nil {
			return err
		}
	}
	return nil
}
