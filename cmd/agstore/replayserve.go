package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// replayServing are the flags of replay --serve.
type replayServing struct {
	addr   string
	origin string
	step   bool
	cutAt  uint64
	drop   []string
	delay  []string
}

func (s *replayServing) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.addr, "serve", "", "offer the thread as an AG-UI agent at this address; port 0: any free one")
	f.StringVar(&s.origin, "cors", "", "with --serve: pages of this origin may call it, as http://localhost:3000")
	f.BoolVar(&s.step, "step", false, "with --serve: each line of standard input lets one event go")
	f.Uint64Var(&s.cutAt, "cut-at", 0, "with --serve: break the connection off behind the event with this seq")
	f.StringSliceVar(&s.drop, "drop", nil, "with --serve: leave out the event with this seq, or all of a type; may be given again")
	f.StringSliceVar(&s.delay, "delay", nil, "with --serve: wait before each event, as 200ms, or before one, as 12=5s; may be given again")
}

// options reads the flags.
func (s *replayServing) options(cmd *cobra.Command, speed float64, limit time.Duration) (api.ReplayOptions, error) {
	opts := api.ReplayOptions{Speed: speed, Limit: limit, Origin: s.origin, CutAt: s.cutAt, DelayAt: make(map[uint64]time.Duration)}
	for _, flag := range []string{"cors", "step", "cut-at", "drop", "delay"} {
		if s.addr == "" && cmd.Flags().Changed(flag) {
			return opts, &usageError{text: "--" + flag + " is for --serve"}
		}
	}
	for _, what := range s.drop {
		if seq, err := strconv.ParseUint(what, 10, 64); err == nil {
			opts.DropSeqs = append(opts.DropSeqs, seq)
		} else if t := agui.Type(what); t.Known() {
			opts.DropTypes = append(opts.DropTypes, t)
		} else {
			return opts, &usageError{text: fmt.Sprintf("--drop %s: a seq, or an event type, as TEXT_MESSAGE_END", what)}
		}
	}
	for _, text := range s.delay {
		bad := &usageError{text: fmt.Sprintf("--delay %s: a duration, as 200ms, or SEQ=DURATION, as 12=5s", text)}
		at, value, one := strings.Cut(text, "=")
		if !one {
			value = text
		}
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return opts, bad
		}
		if !one {
			opts.Delay = d
			continue
		}
		seq, err := strconv.ParseUint(at, 10, 64)
		if err != nil {
			return opts, bad
		}
		opts.DelayAt[seq] = d
	}
	return opts, nil
}

// serveReplay offers records as an agent until ctx ends.
func (a *app) serveReplay(ctx context.Context, s *replayServing, opts api.ReplayOptions, c *client.Client, thread string, selected client.EventOptions) error {
	where := service{app: a, listen: s.addr}
	if err := where.checkListen(); err != nil {
		return err
	}
	if s.step {
		opts.Step = a.steps(ctx)
	}
	if selected.Run == nil {
		var err error
		if selected.Run, err = headOf(ctx, c, thread); err != nil { // what the thread shows, without other branches
			return err
		}
	}
	handler, err := api.ServeReplay(ctx, func(ctx context.Context) iter.Seq2[eventlog.Record, error] {
		return records(ctx, c, thread, selected)
	}, opts)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.addr)
	if err != nil {
		return &hinted{err, "--serve names another address; port 0 is any free one"}
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	base := "http://" + l.Addr().String()
	if a.json {
		err = json.NewEncoder(a.io.out).Encode(struct {
			Listening string `json:"listening"`
		}{base})
	} else {
		_, err = fmt.Fprintf(a.io.err, "agstore: thread %s is an agent at %s/\n", printable(thread), base)
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case end := <-ended:
			ended <- end // it is looked at below
		}
	}
	err = errors.Join(err, server.Close())
	if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// steps waits for a line of standard input each time it is called. At the end of
// the input all that is left goes.
func (a *app) steps(ctx context.Context) func(context.Context) error {
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		in := bufio.NewScanner(a.io.in)
		for in.Scan() {
			select {
			case lines <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func(request context.Context) error {
		select {
		case <-lines:
			return nil
		case <-request.Done():
			return request.Err()
		}
	}
}
