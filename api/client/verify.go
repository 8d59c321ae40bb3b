package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"

	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/eventlog"
)

// Verify has the server look for damage in the whole store, or in one thread of
// the client's scope, and yields what it finds as it is found. The last line has
// Done. It is for the owner of the store, as Backup is; elsewhere it is not
// found.
func (c *Client) Verify(ctx context.Context, thread string) iter.Seq2[api.VerifyLine, error] {
	query := url.Values{}
	if thread != "" {
		query.Set("thread", thread)
	}
	return func(yield func(api.VerifyLine, error) bool) {
		resp, err := c.do(ctx, http.MethodGet, "/v1/verify", query, nil)
		if err != nil {
			yield(api.VerifyLine{}, err)
			return
		}
		defer resp.Body.Close()
		lines := json.NewDecoder(bufio.NewReader(resp.Body))
		for {
			var l api.VerifyLine
			err := lines.Decode(&l)
			switch {
			case ctx.Err() != nil:
				err = ctx.Err()
			case errors.Is(err, io.EOF):
				err = fmt.Errorf("%w: the answer was cut off", eventlog.ErrUnavailable)
				fallthrough
			case err != nil:
				err = &eventlog.Error{Op: "verify", Err: fmt.Errorf("%w: %w", eventlog.ErrUnavailable, err)}
			case l.Error != nil:
				err = l.Error.Err()
			}
			if !yield(l, err) || err != nil || l.Done != nil {
				return
			}
		}
	}
}
