package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

func (a *app) foldCommand() *cobra.Command {
	f := folding{app: a}
	var upto uint64
	cmd := &cobra.Command{
		Use:   "fold FILE|-",
		Short: "Show what a stream comes to, without a store",
		Long: "Folds a stream, one JSON event a line or server-sent events, and prints the view: that of\n" +
			"its last run, as if it had been imported. A line that is no event is a diagnostic. The\n" +
			"profile reference shows what the official client shows, as canonical JSON, up to what\n" +
			"would be an error there. Whatever the stream holds, the command is done, unless --verify\n" +
			"strict asks for a stream without fault. --verify off leaves out, in the profile reference,\n" +
			"the check of the order of events; durable never stops at one.",
		Example: "  agstore fold events.jsonl\n  agstore fold events.jsonl --upto 12 --json\n  agstore fold events.jsonl --profile reference --per-event",
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			f.upto = optional(cmd, "upto", &upto)
			return f.run(ctx, args[0])
		}),
	}
	cmd.Flags().StringVar(&f.profile, "profile", "durable", "durable, or reference: as the official client shows it")
	cmd.Flags().Uint64Var(&upto, "upto", 0, "only the first so many events")
	cmd.Flags().BoolVar(&f.perEvent, "per-event", false, "after each event a line: its number and the digests of messages, state and pending interrupts")
	cmd.Flags().StringVar(&f.verify, "verify", "record", "record faults as diagnostics, strict: fail at the first, or off: do not look for them")
	cmd.Flags().BoolVar(&f.compact, "compact", false, "compact the stream first, which does not change what it comes to")
	a.complete(cmd, "profile", "durable", "reference")
	a.complete(cmd, "verify", verifyModes...)
	return cmd
}

// folding is one call of fold.
type folding struct {
	*app
	profile  string
	upto     *uint64
	perEvent bool
	verify   string
	compact  bool
}

// verifyModes is what becomes of events that stand where they may not.
var verifyModes = []string{"record", "strict", "off"}

func (f *folding) run(ctx context.Context, file string) error {
	opts := fold.Options{}
	switch f.profile {
	case "durable":
	case "reference":
		opts.Profile = fold.Reference
	default:
		return &usageError{text: fmt.Sprintf("--profile %s: durable or reference", f.profile)}
	}
	if !slices.Contains(verifyModes, f.verify) {
		return &usageError{text: fmt.Sprintf("--verify %s: record, strict or off", f.verify)}
	}
	opts.NoVerify = f.verify == "off"
	in, stop, err := f.openInput(ctx, file)
	if err != nil {
		return err
	}
	defer stop()
	events, lines, err := readStream(in, f.upto)
	if err != nil {
		return fmt.Errorf("fold %s: %w", file, err)
	}
	if f.verify == "strict" {
		if err := firstFault(events, lines); err != nil {
			return fmt.Errorf("verify %s: %w", file, err)
		}
	}
	if f.compact {
		events = slices.Collect(agui.Compact(slices.Values(events)))
	}
	if f.perEvent {
		return f.printDigests(events, opts)
	}
	view := fold.Stream(slices.Values(events), opts, 0)
	if opts.Profile == fold.Reference {
		return f.printJSON(f.io.out, view.AppendReferenceJSON(nil))
	}
	return f.printJSON(f.io.out, view.AppendJSON(nil))
}

// readStream reads the lines of a stream, events or not, and where each stands.
func readStream(in io.Reader, upto *uint64) (events [][]byte, lines []int, err error) {
	r := newEventReader(in, eventlog.DefaultLimits().EventBytes)
	for upto == nil || uint64(len(events)) < *upto {
		next, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, eventlog.ErrTooLarge) {
			// No event either. What stands for it is none, and short.
			next.data = []byte("too large")
		} else if err != nil {
			return nil, nil, err
		}
		events, lines = append(events, append([]byte(nil), next.data...)), append(lines, next.line)
	}
	return events, lines, nil
}

// firstFault is the first thing that the official client would refuse.
func firstFault(events [][]byte, lines []int) error {
	view := fold.Stream(slices.Values(events), fold.Options{Profile: fold.Reference}, 0)
	if view.Reference == nil || view.Reference.Error == nil {
		return nil
	}
	fault := view.Reference.Error
	return &lineError{lines[fault.At-1], &faultError{fault.Err}}
}

// faultError is a fault of a stream that was to have none.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

// Is reports that the stream is refused.
func (e *faultError) Is(target error) bool { return target == eventlog.ErrInvalidEvent }

// printDigests prints a line for what the stream comes to after each event.
func (f *folding) printDigests(events [][]byte, opts fold.Options) error {
	out := bufio.NewWriter(f.io.out)
	n := 0
	for view := range fold.Prefixes(slices.Values(events), opts) {
		n++
		if _, err := out.Write(append(view.AppendDigests(nil, n), '\n')); err != nil {
			return err
		}
		if view.Reference != nil && view.Reference.Error != nil {
			break
		}
	}
	return out.Flush()
}
