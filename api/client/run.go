package client

import (
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tmaxmax/go-sse"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/eventlog"
)

// Event is one event of a run that is streamed.
type Event struct {
	Seq  uint64 // its number in the thread; it is durable
	Data []byte // the event; empty for an echo, which only moves the seq on
}

// Run starts a run of an agent with a RunAgentInput and yields its events as
// they become durable, up to the run's end. Whoever stops earlier, or loses the
// connection, does not stop the run: [Client.Events] has the rest. A stream that
// breaks off yields an eventlog.ErrUnavailable.
func (c *Client) Run(ctx context.Context, agent string, input []byte) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		resp, err := c.do(ctx, http.MethodPost, "/v1/agents/"+url.PathEscape(agent)+"/run", nil, input)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer resp.Body.Close()
		limit, ended := eventlog.DefaultLimits().EventBytes+1024, false
		for frame, err := range sse.Read(resp.Body, &sse.ReadConfig{MaxEventSize: limit}) {
			var event Event
			if err == nil {
				event, err = eventOf(frame)
			} else if ctx.Err() != nil {
				err = ctx.Err()
			} else {
				err = &eventlog.Error{Op: "read the run", Err: fmt.Errorf("%w: %w", eventlog.ErrUnavailable, err)}
			}
			var h agui.Header
			if err == nil && agui.ReadHeader(event.Data, &h) == nil {
				ended = ended || h.Type.Terminal()
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
		if !ended {
			// The server closes the stream only behind the run's end.
			yield(Event{}, &eventlog.Error{Op: "read the run", Err: eventlog.ErrUnavailable, Hint: "the run may go on; its events are in the thread"})
		}
	}
}

// ConnectOptions say how a client comes to a thread; the zero value is every
// event from the first on.
type ConnectOptions struct {
	Mode  api.ConnectMode // empty: raw
	After uint64          // the Seq of the last event that the caller has; 0: it has nothing
}

// Connect yields the events that lead to a thread's head, in the way that the
// mode says, and if a run is live, those to come up to its end. Only threadId
// counts of the RunAgentInput. An event with Seq 0 is one of several that stand for the
// history up to a seq: who loses the connection before that seq has come has
// nothing to go on from.
func (c *Client) Connect(ctx context.Context, agent string, input []byte, opts ConnectOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		query, header := url.Values{}, http.Header{}
		if opts.Mode != "" {
			query.Set("mode", string(opts.Mode))
		}
		if opts.After > 0 {
			header.Set("Last-Event-ID", strconv.FormatUint(opts.After, 10))
		}
		resp, err := c.send(ctx, http.MethodPost, "/v1/agents/"+url.PathEscape(agent)+"/connect", query, header, input)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer resp.Body.Close()
		// A snapshot of a transcript may be larger than an event may.
		var last string
		for frame, err := range sse.Read(resp.Body, &sse.ReadConfig{MaxEventSize: math.MaxInt32}) {
			event := Event{Data: []byte(frame.Data)}
			switch {
			case err != nil && ctx.Err() != nil:
				err = ctx.Err()
			case err != nil:
				err = &eventlog.Error{Op: "connect", Err: fmt.Errorf("%w: %w", eventlog.ErrUnavailable, err)}
			case frame.LastEventID != last:
				last = frame.LastEventID
				event, err = eventOf(frame)
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

func eventOf(frame sse.Event) (Event, error) {
	seq, err := strconv.ParseUint(frame.LastEventID, 10, 64)
	if err != nil {
		return Event{}, fmt.Errorf("%w: the server sent an event without a seq", eventlog.ErrUnavailable)
	}
	return Event{Seq: seq, Data: []byte(frame.Data)}, nil
}
