package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/eventlog"
)

// LeaseOptions say who is to write a run.
type LeaseOptions struct {
	Owner string        // for the errors of others; empty: a client of the API
	TTL   time.Duration // how long the lease lasts without being renewed; 0: api.DefaultLeaseTTL
	// TakeOver closes a live run that is in the way, for BeginRun.
	TakeOver bool
}

func (o LeaseOptions) query() url.Values {
	query := url.Values{}
	if o.Owner != "" {
		query.Set("owner", o.Owner)
	}
	if o.TTL != 0 {
		query.Set("ttl", strconv.FormatFloat(o.TTL.Seconds(), 'f', -1, 64))
	}
	if o.TakeOver {
		query.Set("takeOver", "true")
	}
	return query
}

// leaseQuery names a lease.
func leaseQuery(query url.Values, lease eventlog.Lease) {
	query.Set("run", lease.Run.String())
	query.Set("epoch", strconv.FormatUint(lease.Epoch, 10))
}

// BeginRun starts a run that the caller writes, with a RunAgentInput: the user's
// turn is recorded, and the lease given. Write with [Client.Append] and
// AppendOptions.Lease, end the run with a terminal event or [Client.EndRun], and
// renew the lease in between when nothing is written for some time.
func (c *Client) BeginRun(ctx context.Context, thread string, input []byte, opts LeaseOptions) (eventlog.Lease, error) {
	return c.lease(ctx, thread, "/runs", opts.query(), input)
}

// TakeRun gives a new lease on a run that has not ended, whoever writes it.
func (c *Client) TakeRun(ctx context.Context, thread, run string, opts LeaseOptions) (eventlog.Lease, error) {
	query := opts.query()
	query.Set("run", run)
	return c.lease(ctx, thread, "/runs/take", query, nil)
}

// RenewRun is a heartbeat: the lease lasts its TTL from now. ErrFenced if it is
// gone.
func (c *Client) RenewRun(ctx context.Context, lease eventlog.Lease) (eventlog.Lease, error) {
	query := url.Values{}
	leaseQuery(query, lease)
	return c.lease(ctx, lease.Thread.Thread, "/runs/renew", query, nil)
}

// EndRun ends a run that the caller writes: it is closed with the ends that it
// lacks and a RUN_ERROR of this code and message. One that has ended by its own
// events is left as it is; ErrFenced if it was taken over.
func (c *Client) EndRun(ctx context.Context, lease eventlog.Lease, code, message string) (api.Run, error) {
	query := url.Values{"code": {code}, "message": {message}}
	leaseQuery(query, lease)
	return c.end(ctx, lease.Thread.Thread, query)
}

// StopRun ends a run, whoever writes it. One that has ended is left as it is.
func (c *Client) StopRun(ctx context.Context, thread, run, code, message string) (api.Run, error) {
	return c.end(ctx, thread, url.Values{"run": {run}, "code": {code}, "message": {message}})
}

func (c *Client) end(ctx context.Context, thread string, query url.Values) (api.Run, error) {
	var out api.Run
	err := c.decode(ctx, http.MethodPost, threadPath(thread, "/runs/end"), query, nil, &out)
	return out, err
}

func (c *Client) lease(ctx context.Context, thread, path string, query url.Values, body []byte) (eventlog.Lease, error) {
	var l api.Lease
	if err := c.decode(ctx, http.MethodPost, threadPath(thread, path), query, body, &l); err != nil {
		return eventlog.Lease{}, err
	}
	lease := eventlog.Lease{
		Thread: eventlog.ThreadKey{Thread: thread}, Run: agui.RunKey{ID: string(l.Run), Attempt: l.Attempt},
		Epoch: l.Epoch, Owner: string(l.Owner), TTL: time.Duration(l.TTL*1e6+0.5) * time.Microsecond,
	}
	if l.Expires != nil {
		lease.Expires = *l.Expires
	}
	return lease, nil
}
