package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// removing are the flags of a command that removes content.
type removing struct {
	consent
	reason, actor string
	force         bool
}

func (r *removing) flags(cmd *cobra.Command) {
	consentFlags(cmd, &r.consent)
	cmd.Flags().StringVar(&r.reason, "reason", "", "why; kept in the receipt")
	cmd.Flags().StringVar(&r.actor, "actor", "", "who asked for it; kept in the receipt (default: the user of this process)")
}

func (r *removing) request(dryRun bool) api.RemovalRequest {
	in := api.RemovalRequest{Reason: r.reason, Actor: r.actor, DryRun: dryRun, TakeOver: r.force}
	if in.Actor == "" {
		in.Actor = thisUser()
	}
	return in
}

// thisUser is the user of this process; empty if it has no name.
func thisUser() string {
	who, err := user.Current()
	if err != nil {
		return ""
	}
	return who.Username
}

// remove shows what a removal would do, asks, does it and prints the receipt.
func (a *app) remove(ctx context.Context, r *removing, question string, do func(c *client.Client, in api.RemovalRequest) (api.Receipt, error)) error {
	var receipt api.Receipt
	err := a.with(ctx, reading, func(c *client.Client) (err error) {
		if receipt, err = do(c, r.request(true)); err != nil || r.dryRun {
			return err
		}
		if !r.yes && a.io.errTTY {
			if err := printReceipt(a.io.err, receipt); err != nil {
				return err
			}
		}
		if receipt.Number == 0 { // else it was done before
			if err := a.agree(ctx, &r.consent, question); err != nil {
				return err
			}
		}
		receipt, err = do(c, r.request(false))
		return err
	})
	if errors.Is(err, eventlog.ErrRunActive) {
		return &hinted{err, "try again when it has ended, or give --force not to wait for that"}
	}
	if err != nil {
		return err
	}
	return a.printReceipts(a.io.out, []api.Receipt{receipt})
}

func (a *app) eraseCommand() *cobra.Command {
	var r removing
	cmd := &cobra.Command{
		Use:   "erase THREAD",
		Short: "Remove a thread for good",
		Long: "Removes a thread with all that it holds, from the store and from its files, and prints a\n" +
			"receipt for each place. It is final: the id cannot be used again, and what is erased is only\n" +
			"in backups and exports that were made before. A run that is being written ends. Erasing\n" +
			"again prints the first receipt.",
		Example: "  agstore erase thread-1 --dry-run\n  agstore erase thread-1 --reason \"request 4711\" --yes",
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if receipt, err := a.erasedBefore(ctx, args[0]); err != nil || receipt != nil {
				if err != nil {
					return err
				}
				return a.printReceipts(a.io.out, []api.Receipt{*receipt})
			}
			return a.remove(ctx, &r, fmt.Sprintf("erase thread %s for good?", printable(args[0])), func(c *client.Client, in api.RemovalRequest) (api.Receipt, error) {
				return c.Erase(ctx, args[0], in)
			})
		}),
		ValidArgsFunction: a.completeThread(false),
	}
	r.flags(cmd)
	return cmd
}

// erasedBefore is the receipt of a thread that is erased already; nil: it is not.
func (a *app) erasedBefore(ctx context.Context, thread string) (*api.Receipt, error) {
	var found []api.Receipt
	err := a.with(ctx, reading, func(c *client.Client) (err error) {
		found, err = c.Receipts(ctx, thread)
		return err
	})
	if n := len(found); err == nil && n > 0 && found[n-1].Removal == eventlog.RemovalErase && found[n-1].Gone != nil {
		return &found[n-1], nil
	}
	return nil, err
}

func (a *app) clearCommand() *cobra.Command {
	var r removing
	cmd := &cobra.Command{
		Use:   "clear THREAD",
		Short: "Remove what a thread holds until now; it goes on",
		Long: "Removes all events and runs that a thread holds until now, from the store and from its\n" +
			"files, and prints a receipt. The thread goes on: its seqs continue, and readers from before\n" +
			"are told of the gap. A run that is being written is in the way, unless --force ends it.",
		Example: "  agstore clear thread-1 --dry-run\n  agstore clear thread-1 --yes",
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			return a.remove(ctx, &r, fmt.Sprintf("clear thread %s?", printable(args[0])), func(c *client.Client, in api.RemovalRequest) (api.Receipt, error) {
				return c.Clear(ctx, args[0], in)
			})
		}),
		ValidArgsFunction: a.completeThread(false),
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&r.force, "force", false, "end a run that is being written")
	return cmd
}

func (a *app) redactCommand() *cobra.Command {
	var r removing
	var message string
	cmd := &cobra.Command{
		Use:   "redact THREAD [SEQ]",
		Short: "Replace what one message says by a marker",
		Long: "Replaces what one message says by " + eventlog.RedactedText + " in every record that carries it, also in the\n" +
			"store's files, and prints a receipt. The message is that of record SEQ, or the one whose id\n" +
			"--message gives. Seqs, runs and all other messages stay. What repeats the text without naming\n" +
			"the message (RAW and CUSTOM events, state) is not found.",
		Example: "  agstore redact thread-1 12 --dry-run\n  agstore redact thread-1 --message msg-3 --yes",
		Args:    cobra.RangeArgs(1, 2),
		RunE: a.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			var seq uint64
			if byID := cmd.Flags().Changed("message"); byID == (len(args) == 2) {
				return &usageError{text: "redact takes a SEQ or --message"}
			}
			if len(args) == 2 {
				if _, err := fmt.Sscan(args[1], &seq); err != nil || seq == 0 {
					return &usageError{text: fmt.Sprintf("%s: SEQ is a number from 1", args[1])}
				}
			}
			return a.remove(ctx, &r, fmt.Sprintf("redact the message in thread %s?", printable(args[0])), func(c *client.Client, in api.RemovalRequest) (api.Receipt, error) {
				in.Message, in.Seq = api.ID(message), seq
				return c.Redact(ctx, args[0], in)
			})
		}),
		ValidArgsFunction: a.completeThread(false),
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&message, "message", "", "the id of the message")
	cmd.Flags().BoolVar(&r.force, "force", false, "also while its run is being written; what comes later stays")
	return cmd
}

func (a *app) retainCommand() *cobra.Command {
	var c consent
	var idle time.Duration
	var action string
	cmd := &cobra.Command{
		Use:   "retain",
		Short: "Remove the threads that were idle for long",
		Long: "Clears, or with --action erase erases, every thread of the scope whose latest commit is\n" +
			"longer ago than --idle, and prints their receipts. A thread with a run that is being written\n" +
			"stays. --dry-run shows which would go, with the bytes. agstore serve --retain does it by itself.",
		Example: "  agstore retain --idle 2160h --dry-run\n  agstore retain --idle 2160h --action erase --yes",
		Args:    noArgs,
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			kind, err := parseAction(action)
			if err != nil {
				return err
			}
			if idle <= 0 {
				return &usageError{text: "--idle: how long a thread must have been idle, as 2160h"}
			}
			if !c.dryRun {
				if err := a.agree(ctx, &c, fmt.Sprintf("%s all threads that were idle for %v?", action, idle)); err != nil {
					return err
				}
			}
			var found []api.Receipt
			err = a.with(ctx, reading, func(cl *client.Client) (err error) {
				found, err = cl.Retain(ctx, idle, kind, c.dryRun)
				return err
			})
			if err != nil {
				return err
			}
			return a.printReceipts(a.io.out, found)
		}),
	}
	consentFlags(cmd, &c)
	cmd.Flags().DurationVar(&idle, "idle", 0, "how long ago the latest commit of a thread must be")
	cmd.Flags().StringVar(&action, "action", "clear", "clear or erase")
	a.complete(cmd, "action", "clear", "erase")
	return cmd
}

func parseAction(text string) (eventlog.Removal, error) {
	var kind eventlog.Removal
	if kind.UnmarshalText([]byte(text)) != nil || kind == eventlog.RemovalRedact {
		return 0, &usageError{text: fmt.Sprintf("%s: the action is clear or erase", text)}
	}
	return kind, nil
}

func (a *app) receiptsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "receipts [THREAD]",
		Short:   "List what was erased, cleared and redacted",
		Long:    "Prints the receipts of a thread, also of one that was erased, or of all threads. In a pipe, a\nline for each place: thread, number, removal, time, place, count, bytes, gone from the files, reason.",
		Example: "  agstore receipts thread-1\n  agstore receipts --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			var found []api.Receipt
			err := a.with(ctx, reading, func(c *client.Client) (err error) {
				found, err = c.Receipts(ctx, strings.Join(args, ""))
				return err
			})
			if err != nil {
				return err
			}
			return a.io.page(ctx, func(w io.Writer) error { return a.printReceipts(w, found) })
		}),
	}
}

// printReceipts prints receipts: JSON, a table of places for programs, text for
// people.
func (a *app) printReceipts(w io.Writer, list []api.Receipt) error {
	lines := json.NewEncoder(w)
	t := &table{}
	for _, r := range list {
		switch {
		case a.json:
			if err := lines.Encode(r); err != nil {
				return err
			}
		case a.io.outTTY:
			if err := printReceipt(w, r); err != nil {
				return err
			}
		}
		gone := ""
		if r.Gone != nil {
			gone = r.Gone.UTC().Format(time.RFC3339)
		}
		for _, p := range r.Places {
			t.add(string(r.Thread), number(r.Number), r.Removal.String(), r.Time.UTC().Format(time.RFC3339), p.Name, number(p.Count), number(p.Bytes), gone, r.Reason)
		}
	}
	if a.json || a.io.outTTY {
		return nil
	}
	return a.printTable(w, t)
}

func printReceipt(w io.Writer, r api.Receipt) error {
	var b strings.Builder
	if r.Number == 0 {
		fmt.Fprintf(&b, "would %s thread %s", r.Removal, r.Thread)
	} else {
		fmt.Fprintf(&b, "%s of thread %s, receipt %d, %s", r.Removal, r.Thread, r.Number, r.Time.UTC().Format(time.RFC3339))
	}
	if r.Message != "" {
		fmt.Fprintf(&b, ", message %s", r.Message)
	}
	if r.First > 0 {
		fmt.Fprintf(&b, ", seq %d to %d", r.First, r.Last)
	}
	b.WriteByte('\n')
	for _, p := range r.Places {
		fmt.Fprintf(&b, "  %s: %d, %d bytes\n", p.Name, p.Count, p.Bytes)
	}
	if r.Number > 0 && r.Gone == nil {
		b.WriteString("  not yet gone from the files: that goes on while the store is open\n")
	}
	for _, h := range r.Holders {
		fmt.Fprintf(&b, "  still in %s\n", h)
	}
	if r.Reason != "" || r.Actor != "" {
		fmt.Fprintf(&b, "  by %s: %s\n", r.Actor, r.Reason)
	}
	_, err := io.WriteString(w, printable(b.String()))
	return err
}
