package client

import (
	"context"
	"net/http"
	"net/url"
)

// Diff gives what has to be done to the view at one point of a thread to get that
// at another, as JSON (replay.Difference.AppendJSON). Points are runs, "@42",
// "head" or "root".
func (c *Client) Diff(ctx context.Context, thread, from, to string) ([]byte, error) {
	return c.bytes(ctx, http.MethodGet, threadPath(thread, "/diff"), url.Values{"from": {from}, "to": {to}}, nil)
}
