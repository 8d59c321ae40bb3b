package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

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
func (s *selection) options(cmd *cobra.Command) client.EventOptions {
	opts := client.EventOptions{To: s.to, Run: optional(cmd, "run", &s.run)}
	if s.from > 0 {
		opts.After = s.from - 1
	}
	return opts
}

func (a *app) exportCommand() *cobra.Command {
	var format string
	var selected selection
	formats := []string{"jsonl", "sse", "records"}
	cmd := &cobra.Command{
		Use:   "export THREAD [FILE]",
		Short: "Write out the events of a thread",
		Long: "Writes the stored events, byte for byte: as JSONL, as server-sent events, or as records,\n" +
			"which have everything that is stored beside the event. agstore import of an export gives\n" +
			"the same view. A FILE is there wholly or, if the export fails, as it was before.",
		Example: "  agstore export thread-1 events.jsonl\n  agstore export thread-1 --format records | jq .run",
		Args:    cobra.RangeArgs(1, 2),
		RunE: a.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if a.json {
				format = "records"
			}
			if !slices.Contains(formats, format) {
				return &usageError{text: fmt.Sprintf("--format %s: jsonl, sse or records", format)}
			}
			return a.with(ctx, reading, func(c *client.Client) error {
				records := c.Records(ctx, args[0], selected.options(cmd))
				if len(args) == 1 {
					return export(a.io.out, format, records)
				}
				return replaceFile(args[1], func(w io.Writer) error { return export(w, format, records) })
			})
		}),
		ValidArgsFunction: a.completeThread(true),
	}
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl, sse or records")
	selected.flags(a, cmd)
	a.complete(cmd, "format", formats...)
	return cmd
}

// export writes records in a format. An agent's own start of a run that the
// store had started is in records alone.
func export(w io.Writer, format string, records iter.Seq2[eventlog.Record, error]) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var buf []byte
	for r, err := range records {
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		buf = buf[:0]
		switch {
		case format == "records":
			buf = append(api.AppendRecord(buf, r), '\n')
		case r.Echo && r.Origin == eventlog.OriginAgent:
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
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := write(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func writeTo(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
