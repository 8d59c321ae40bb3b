package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/eventlog"
)

// Erase removes a thread for good; with in.DryRun it says what would go.
func (c *Client) Erase(ctx context.Context, thread string, in api.RemovalRequest) (api.Receipt, error) {
	return c.remove(ctx, thread, "/erase", in)
}

// Clear removes what a thread holds until now; it goes on.
func (c *Client) Clear(ctx context.Context, thread string, in api.RemovalRequest) (api.Receipt, error) {
	return c.remove(ctx, thread, "/clear", in)
}

// Redact replaces what a message says, named by in.Message or in.Seq.
func (c *Client) Redact(ctx context.Context, thread string, in api.RemovalRequest) (api.Receipt, error) {
	return c.remove(ctx, thread, "/redact", in)
}

func (c *Client) remove(ctx context.Context, thread, path string, in api.RemovalRequest) (out api.Receipt, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	err = c.decode(ctx, http.MethodPost, threadPath(thread, path), nil, body, &out)
	return out, err
}

// Receipts lists the receipts of a thread, also of one that was erased; of all
// threads if thread is empty.
func (c *Client) Receipts(ctx context.Context, thread string) ([]api.Receipt, error) {
	path := "/v1/receipts"
	if thread != "" {
		path = threadPath(thread, "/receipts")
	}
	var list api.ReceiptList
	err := c.decode(ctx, http.MethodGet, path, nil, nil, &list)
	return list.Receipts, err
}

// Retain removes the threads of the scope that were idle for so long; with dryRun
// it says which would go.
func (c *Client) Retain(ctx context.Context, idle time.Duration, action eventlog.Removal, dryRun bool) ([]api.Receipt, error) {
	body, err := json.Marshal(api.RetainRequest{IdleFor: idle.String(), Action: action, DryRun: dryRun})
	if err != nil {
		return nil, err
	}
	var list api.ReceiptList
	err = c.decode(ctx, http.MethodPost, "/v1/retain", nil, body, &list)
	return list.Receipts, err
}
