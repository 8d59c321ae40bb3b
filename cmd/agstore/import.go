package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// What one batch of an import holds at most.
const (
	importEvents = 1000
	importBytes  = 32 << 20
)

func (a *app) importCommand() *cobra.Command {
	im := importer{app: a}
	var expect uint64
	cmd := &cobra.Command{
		Use:   "import THREAD FILE|-",
		Short: "Append a stream of events to a thread",
		Long: "Appends a stream to a thread, byte for byte, and creates the thread if need be. The stream\n" +
			"has one JSON event a line, or is of server-sent events, or the records of an export. It is\n" +
			"written in batches of 1,000 events, each wholly or not at all; a line that is no event ends\n" +
			"the import, and nothing of its batch is written. The time of an event is that of its import.\n\n" +
			"The same file again is appended again. With an idempotency key it is not: so an import that\n" +
			"was cut off can be repeated.\n\n" +
			"With --messages the file is a JSON list of AG-UI messages, an existing history. It becomes\n" +
			"one run: its RUN_STARTED, with the messages as its input, and its RUN_FINISHED.\n\n" +
			"--verify strict looks at the whole stream first, in memory and by itself: if the official\n" +
			"client would refuse an event, nothing of the file is written. Else all is written as it is,\n" +
			"and the views say what is wrong with it; record and off are the same here.\n\n" +
			"In a pipe: the first and the last seq, on one line.",
		Example: "  agstore import thread-1 events.jsonl\n  curl -sN $AGENT | agstore import thread-1 - --idempotency-key nightly-7\n  agstore import thread-2 --messages history.json --run before",
		Args:    cobra.ExactArgs(2),
		RunE: a.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			im.expect = optional(cmd, "expect-seq", &expect)
			if im.runID != "" && !im.messages {
				return &usageError{text: "--run: the events of a stream name their runs", hint: "--run is for --messages"}
			}
			if !slices.Contains(verifyModes, im.verify) {
				return &usageError{text: fmt.Sprintf("--verify %s: record, strict or off", im.verify)}
			}
			if im.verify == "strict" && im.messages {
				return &usageError{text: "--verify strict: messages are no stream of events", hint: "it excludes --messages"}
			}
			return im.run(ctx, args[0], args[1])
		}),
		ValidArgsFunction: a.completeThread(true),
	}
	cmd.Flags().Uint64Var(&expect, "expect-seq", 0, "append only if this is the thread's last seq")
	cmd.Flags().StringVar(&im.key, "idempotency-key", "", "append only what was not appended under this key before")
	cmd.Flags().BoolVar(&im.messages, "messages", false, "the file is a JSON list of AG-UI messages")
	cmd.Flags().StringVar(&im.runID, "run", "", "the id of the run that holds the messages; without it one by the key, or a random one")
	cmd.Flags().StringVar(&im.verify, "verify", "record", "strict: write nothing of a stream with a fault; record or off: write it as it is")
	a.complete(cmd, "verify", verifyModes...)
	return cmd
}

// importer is one import.
type importer struct {
	*app
	key      string
	expect   *uint64
	messages bool   // the input is a list of messages, not a stream
	runID    string // of the messages
	verify   string // one of verifyModes

	client *client.Client
	thread string
	done   imported
	fresh  bool // something was written that was not there

	batch [][]byte
	lines []int // where each event of the batch begins; of messages: none
	size  int
}

// imported says what an import did.
type imported struct {
	Thread    string `json:"thread"`
	First     uint64 `json:"first"` // 0: no events
	Last      uint64 `json:"last"`
	Events    int    `json:"events"`
	Duplicate bool   `json:"duplicate"` // all of it was there already
}

func (im *importer) run(ctx context.Context, thread, file string) error {
	in, stop, err := im.openInput(ctx, file)
	if err != nil {
		return err
	}
	defer stop()
	im.thread, im.done.Thread = thread, thread
	if im.verify == "strict" {
		if in, err = withoutFault(in); err != nil {
			return im.failed(file, err)
		}
	}
	err = im.with(ctx, writing, func(c *client.Client) error {
		im.client = c
		if im.messages {
			return im.copyMessages(ctx, in)
		}
		return im.copy(ctx, in)
	})
	if err != nil {
		return im.failed(file, err)
	}
	im.done.Duplicate = im.done.Events > 0 && !im.fresh
	return im.print()
}

// withoutFault reads a stream to its end and gives it again; an error at the first
// thing in it that the official client would refuse.
func withoutFault(in io.Reader) (io.Reader, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	events, lines, err := readStream(bytes.NewReader(text), nil)
	if err == nil {
		err = firstFault(events, lines)
	}
	return bytes.NewReader(text), err
}

// copy reads the input to its end and appends it batch by batch.
func (im *importer) copy(ctx context.Context, in io.Reader) error {
	events := newEventReader(in, eventlog.DefaultLimits().EventBytes)
	for {
		next, err := events.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := checkEvent(next); err != nil {
			return err
		}
		if len(im.batch) == importEvents || im.size+len(next.data) > importBytes {
			if err := im.flush(ctx); err != nil {
				return err
			}
		}
		im.batch = append(im.batch, append([]byte(nil), next.data...))
		im.lines = append(im.lines, next.line)
		im.size += len(next.data) + 1
	}
	if len(im.batch) > 0 || im.done.Events == 0 {
		return im.flush(ctx)
	}
	return nil
}

// flush appends the batch; one without events only creates the thread.
func (im *importer) flush(ctx context.Context) error {
	opts := client.AppendOptions{Expect: im.expect, Import: true}
	if im.key != "" && len(im.batch) > 0 {
		part := "messages"
		if !im.messages {
			part = strconv.Itoa(im.lines[0])
		}
		opts.Key = im.key + ":" + part
	}
	done, err := im.client.Append(ctx, im.thread, im.batch, opts)
	if err != nil {
		return im.atLine(err)
	}
	if im.done.First == 0 {
		im.done.First = done.First
	}
	im.done.Last = done.Last
	im.done.Events += len(im.batch)
	im.fresh = im.fresh || !done.Duplicate
	if im.expect != nil {
		im.expect = &im.done.Last
	}
	im.batch, im.lines, im.size = im.batch[:0], im.lines[:0], 0
	if im.io.errTTY && im.done.Events > 0 {
		fmt.Fprintf(im.io.err, "\r%d events", im.done.Events)
	}
	return nil
}

// atLine tells where in the file the event is that the store refused.
func (im *importer) atLine(err error) error {
	e := (*eventlog.Error)(nil)
	if errors.As(err, &e) && e.Line > 0 && e.Line <= len(im.lines) {
		return &lineError{im.lines[e.Line-1], err}
	}
	return err
}

// failed is why an import ended early, with what had been written by then.
func (im *importer) failed(file string, err error) error {
	im.endProgress()
	if file == "-" {
		file = "standard input"
	}
	hint := hintOf(err)
	if im.done.Events > 0 {
		hint = fmt.Sprintf("%d events before that are in the thread, up to seq %d", im.done.Events, im.done.Last)
	}
	return &hinted{fmt.Errorf("import %s: %w", file, err), hint}
}

func (im *importer) endProgress() {
	if im.io.errTTY && im.done.Events > 0 {
		fmt.Fprintln(im.io.err)
	}
}

func (im *importer) print() error {
	im.endProgress()
	switch {
	case im.json:
		return json.NewEncoder(im.io.out).Encode(im.done)
	case !im.io.outTTY:
		_, err := fmt.Fprintf(im.io.out, "%d\t%d\n", im.done.First, im.done.Last)
		return err
	case im.done.Events == 0:
		_, err := fmt.Fprintf(im.io.out, "no events; the last seq of the thread is %d\n", im.done.Last)
		return err
	}
	text := fmt.Sprintf("%d events, seq %d to %d", im.done.Events, im.done.First, im.done.Last)
	if im.done.Duplicate {
		text += "; they were there already"
	}
	_, err := fmt.Fprintln(im.io.out, text)
	return err
}
