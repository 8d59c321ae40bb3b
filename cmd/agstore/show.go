package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/api/client"
)

func (a *app) showCommand() *cobra.Command {
	var opts client.ViewOptions
	var run string
	var at uint64
	var transcript bool
	cmd := &cobra.Command{
		Use:   "show THREAD",
		Short: "Show what a thread looks like, now or at any point",
		Long: "Prints the view of a thread as JSON: messages, state, pending interrupts, runs and what\n" +
			"else is folded from its events. Numbers and escapes stay as they were written. With\n" +
			"--history only the messages, as model providers accept them: every call has one result,\n" +
			"directly behind it; calls without one, reasoning and activities are left out.",
		Example: "  agstore show thread-1 --transcript\n  agstore show thread-1 --at 120 --json | jq .state\n  agstore show thread-1 --history --unanswered \"no answer\"",
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if transcript && a.json {
				return &usageError{text: "--transcript and --json exclude each other"}
			}
			if opts.Unanswered != "" && !opts.History {
				return &usageError{text: "--unanswered is for --history"}
			}
			opts.Run, opts.At = optional(cmd, "run", &run), optional(cmd, "at", &at)
			var view []byte
			err := a.with(ctx, reading, func(c *client.Client) (err error) {
				view, err = c.View(ctx, args[0], opts)
				return err
			})
			if err != nil {
				return err
			}
			return a.io.page(ctx, func(w io.Writer) error {
				if transcript {
					return a.printTranscript(w, view)
				}
				return a.printJSON(w, view)
			})
		}),
		ValidArgsFunction: a.completeThread(false),
	}
	cmd.Flags().StringVar(&run, "run", "", "at the end of this run")
	cmd.Flags().Uint64Var(&at, "at", 0, "when the thread had so many records")
	cmd.Flags().IntVar(&opts.Messages, "messages", 0, "only the newest so many messages")
	cmd.Flags().StringVar(&opts.Profile, "profile", "", "durable, or reference: as the official client shows it")
	cmd.Flags().BoolVar(&transcript, "transcript", false, "as text, for people")
	cmd.Flags().BoolVar(&opts.History, "history", false, "only the messages, as model providers accept them")
	cmd.Flags().StringVar(&opts.Unanswered, "unanswered", "", "in the history, the result of calls that have none")
	cmd.MarkFlagsMutuallyExclusive("run", "at")
	cmd.MarkFlagsMutuallyExclusive("history", "transcript")
	cmd.MarkFlagsMutuallyExclusive("history", "messages")
	a.complete(cmd, "profile", "durable", "reference")
	a.completeRunFlag(cmd, "run")
	return cmd
}

// printJSON prints one JSON value: indented for people, else on one line. Its
// numbers and strings stay as they are written.
func (a *app) printJSON(w io.Writer, value []byte) error {
	var out bytes.Buffer
	value = bytes.TrimSpace(value)
	var err error
	if a.io.outTTY && !a.json {
		err = json.Indent(&out, value, "", "  ")
	} else {
		err = json.Compact(&out, value)
	}
	if err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = w.Write(out.Bytes())
	return err
}
