package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Records yields the records of a thread. It is Events in the format "records",
// read back. One error is no end: an [eventlog.GapError] says that the thread was
// cleared while it was followed or, with Gaps, before; what is there comes behind
// it.
func (c *Client) Records(ctx context.Context, thread string, opts EventOptions) iter.Seq2[eventlog.Record, error] {
	opts.Format = "records"
	return func(yield func(eventlog.Record, error) bool) {
		for line, err := range c.Events(ctx, thread, opts) {
			var r eventlog.Record
			if err == nil {
				r, err = readRecord(line)
			}
			if !yield(r, err) || err != nil && !errors.Is(err, eventlog.ErrGap) {
				return
			}
		}
	}
}

func readRecord(line []byte) (eventlog.Record, error) {
	var fields struct {
		Seq      uint64          `json:"seq"`
		Position uint64          `json:"position"`
		Time     time.Time       `json:"time"`
		Run      json.RawMessage `json:"run"`
		Attempt  int             `json:"attempt"`
		Type     json.RawMessage `json:"type"`
		Origin   eventlog.Origin `json:"origin"`
		Echo     bool            `json:"echo"`
		Redacted bool            `json:"redacted"`
		Event    json.RawMessage `json:"event"`
		Gap      *struct {
			From   uint64           `json:"from"`
			To     uint64           `json:"to"`
			Reason eventlog.Removal `json:"reason"`
		} `json:"gap"`
	}
	if err := json.Unmarshal(line, &fields); err != nil {
		return eventlog.Record{}, &eventlog.Error{Op: "read records", Err: fmt.Errorf("%w: %w", eventlog.ErrUnavailable, err)}
	}
	if g := fields.Gap; g != nil {
		return eventlog.Record{}, &eventlog.Error{Op: "read records", Err: &eventlog.GapError{From: g.From, To: g.To, Reason: g.Reason}}
	}
	// Ids by our own reading: encoding/json has no lone surrogates.
	run, _ := agui.Unquote(fields.Run)
	typ, _ := agui.Unquote(fields.Type)
	return eventlog.Record{
		Seq: fields.Seq, Position: fields.Position, Time: fields.Time,
		Run: agui.RunKey{ID: run, Attempt: fields.Attempt}, Type: agui.Type(typ),
		Origin: fields.Origin, Echo: fields.Echo, Redacted: fields.Redacted, Event: fields.Event,
	}, nil
}
