package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Records yields the records of a thread. It is Events in the format "records",
// read back.
func (c *Client) Records(ctx context.Context, thread string, opts EventOptions) iter.Seq2[eventlog.Record, error] {
	opts.Format = "records"
	return func(yield func(eventlog.Record, error) bool) {
		for line, err := range c.Events(ctx, thread, opts) {
			var r eventlog.Record
			if err == nil {
				r, err = readRecord(line)
			}
			if !yield(r, err) || err != nil {
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
	}
	if err := json.Unmarshal(line, &fields); err != nil {
		return eventlog.Record{}, &eventlog.Error{Op: "read records", Err: fmt.Errorf("%w: %w", eventlog.ErrUnavailable, err)}
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
