package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// selection are the flags that select records of a thread.
type selection struct {
	run      string
	from, to uint64
}

func (s *selection) flags(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.run, "run", "", "only the lineage of this run: from the root to its end")
	cmd.Flags().Uint64Var(&s.from, "from", 0, "the first seq")
	cmd.Flags().Uint64Var(&s.to, "to", 0, "the last seq")
	a.completeRunFlag(cmd, "run")
}

// options is the selection as the API takes it.
func (s *selection) options(cmd *cobra.Command) (client.EventOptions, error) {
	if s.to > 0 && s.from > s.to {
		return client.EventOptions{}, &usageError{text: fmt.Sprintf("--from %d --to %d: the first seq is behind the last", s.from, s.to)}
	}
	opts := client.EventOptions{To: s.to, Run: optional(cmd, "run", &s.run)}
	if s.from > 0 {
		opts.After = s.from - 1
	}
	return opts, nil
}

// records yields the records of a thread; a seq to begin with that is behind the
// last one is not found, unless they are followed.
func records(ctx context.Context, c *client.Client, thread string, opts client.EventOptions) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		some := false
		for r, err := range c.Records(ctx, thread, opts) {
			some = true
			if !yield(r, err) {
				return
			}
		}
		if some || opts.Follow || opts.After == 0 {
			return
		}
		// The server has refused what is further behind the end than this.
		hint := fmt.Sprintf("the last record of the thread is %d", opts.After)
		if opts.Run != nil {
			hint = fmt.Sprintf("run %s and those before it have no record from there on", *opts.Run)
		}
		yield(eventlog.Record{}, &eventlog.Error{
			Op: "read", Key: eventlog.ThreadKey{Thread: thread}, Seq: opts.After + 1, Err: eventlog.ErrNotFound, Hint: hint,
		})
	}
}

func (a *app) exportCommand() *cobra.Command {
	var format string
	var short bool
	var selected selection
	formats := []string{"jsonl", "sse", "records"}
	cmd := &cobra.Command{
		Use:   "export THREAD [FILE]",
		Short: "Write out the events of a thread",
		Long: "Writes the stored events, byte for byte: as JSONL, as server-sent events, or as records,\n" +
			"which have everything that is stored beside the event. Of a thread that was cleared, records\n" +
			"begin with {\"gap\":{\"from\":…,\"to\":…,\"reason\":…}}; else that is said on standard error. agstore import of an export gives\n" +
			"the same view. A FILE is there wholly or, if the export fails, as it was before.\n\n" +
			"JSONL and server-sent events leave out when and in which run an event was stored, and the\n" +
			"echoes: where agstore serve recorded a run, its own RUN_STARTED is there, with the user's\n" +
			"turn, and the agent's is left out. Records leave out nothing.\n\n" +
			"With --compact pieces of text that belong together become one event, and states one\n" +
			"snapshot: another stream, of the same view.",
		Example: "  agstore export thread-1 events.jsonl\n  agstore export thread-1 --format records | jq .run",
		Args:    cobra.RangeArgs(1, 2),
		RunE: a.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if a.json {
				format = "records"
			}
			if !slices.Contains(formats, format) {
				return &usageError{text: fmt.Sprintf("--format %s: jsonl, sse or records", format)}
			}
			if short && format == "records" {
				return &usageError{text: "--compact: a record is of one event as it is stored; use --format jsonl or sse"}
			}
			write := export
			if short {
				write = exportCompact
			}
			opts, err := selected.options(cmd)
			if err != nil {
				return err
			}
			return a.with(ctx, reading, func(c *client.Client) error {
				opts.Gaps = true
				records := records(ctx, c, args[0], opts)
				if format != "records" {
					records = a.tellGaps(records)
				}
				if len(args) == 1 {
					return write(a.io.out, format, records)
				}
				return replaceFile(args[1], func(w io.Writer) error { return write(w, format, records) })
			})
		}),
		ValidArgsFunction: a.completeThread(true),
	}
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl, sse or records")
	cmd.Flags().BoolVar(&short, "compact", false, "fewer events that come to the same view")
	selected.flags(a, cmd)
	a.complete(cmd, "format", formats...)
	return cmd
}

// tellGaps says on standard error which records were removed, where the format
// has no place for it.
func (a *app) tellGaps(records iter.Seq2[eventlog.Record, error]) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range records {
			if gap := (*eventlog.GapError)(nil); errors.As(err, &gap) {
				fmt.Fprintln(a.io.err, "agstore: "+gapText(gap))
			} else if !yield(r, err) {
				return
			}
		}
	}
}

func gapText(g *eventlog.GapError) string {
	return fmt.Sprintf("seq %d to %d were removed (%v)", g.From, g.To, g.Reason)
}

// export writes records in a format, which has a place for gaps if it is records. An agent's own start of a run that the
// store had started is in records alone.
func export(w io.Writer, format string, records iter.Seq2[eventlog.Record, error]) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var buf []byte
	for r, err := range records {
		gap := (*eventlog.GapError)(nil)
		if err != nil && !errors.As(err, &gap) {
			return errors.Join(err, out.Flush())
		}
		buf = buf[:0]
		switch {
		case gap != nil:
			buf = append(api.AppendGap(buf, gap), '\n')
		case format == "records":
			buf = append(api.AppendRecord(buf, r), '\n')
		case isEchoOfAgent(r):
			continue
		case format == "sse":
			buf = api.AppendFrame(buf, r, false)
		default:
			buf = append(append(buf, r.Event...), '\n')
		}
		if _, err := out.Write(buf); err != nil {
			return err
		}
	}
	return out.Flush()
}

// isEchoOfAgent reports whether a record is an agent's own start of a run that
// the store had started.
func isEchoOfAgent(r eventlog.Record) bool { return r.Echo && r.Origin == eventlog.OriginAgent }

// exportCompact writes what is left of the events of records when they have been
// compacted. As server-sent events they have no ids: they are no records.
func exportCompact(w io.Writer, format string, records iter.Seq2[eventlog.Record, error]) error {
	out := bufio.NewWriterSize(w, 64<<10)
	write := func(events [][]byte) (err error) {
		for _, event := range events {
			if format == "sse" {
				_, err = fmt.Fprintf(out, "data: %s\n\n", lineBreaks.ReplaceAllLiteral(event, []byte{' '}))
			} else {
				_, err = fmt.Fprintf(out, "%s\n", event)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	c := agui.NewCompactor(agui.CompactLimits{})
	for r, err := range records {
		if err != nil {
			return errors.Join(err, write(c.Flush()), out.Flush())
		}
		if isEchoOfAgent(r) {
			continue
		}
		if err := write(c.Add(r.Event)); err != nil {
			return err
		}
	}
	return errors.Join(write(c.Flush()), out.Flush())
}

// lineBreaks in an event can only be white space between its tokens.
var lineBreaks = regexp.MustCompile(`[\r\n]`)

// replaceFile writes a file that is, whatever happens, either the old one or
// wholly the new one.
// A new one is readable by its owner alone: it holds conversations.
func replaceFile(name string, write func(io.Writer) error) (err error) {
	mode := os.FileMode(0o600)
	if old, err := os.Stat(name); err == nil {
		if !old.Mode().IsRegular() {
			return writeTo(name, write) // a pipe or a device has no old content
		}
		mode = old.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return naming(name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := write(f); err != nil {
		return errors.Join(naming(name, err), f.Close())
	}
	if err := errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return naming(name, err)
	}
	return naming(name, os.Rename(f.Name(), name))
}

// naming is err, but of the file that the user named instead of the one that is
// to replace it.
func naming(name string, err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return &fs.PathError{Op: "write", Path: name, Err: e.Err}
	}
	if e := (*os.LinkError)(nil); errors.As(err, &e) {
		return &fs.PathError{Op: "write", Path: name, Err: e.Err}
	}
	return err
}

func writeTo(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
