package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/agstore/agstore/api"
)

// Dismiss cancels interrupts of a thread, without interrupts all that are
// pending.
func (c *Client) Dismiss(ctx context.Context, thread string, interrupts ...string) (api.Dismissed, error) {
	ids := make([]api.ID, len(interrupts))
	for i, id := range interrupts {
		ids[i] = api.ID(id)
	}
	var done api.Dismissed
	body, err := json.Marshal(map[string][]api.ID{"interrupts": ids})
	if err != nil {
		return done, err
	}
	err = c.decode(ctx, http.MethodPost, threadPath(thread, "/dismiss"), nil, body, &done)
	return done, err
}
