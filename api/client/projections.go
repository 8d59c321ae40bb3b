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

// Projections says where the projections of the store are. It is for the owner of
// the store, as Backup is; elsewhere it is not found.
func (c *Client) Projections(ctx context.Context) (list api.ProjectionList, err error) {
	return list, c.decode(ctx, http.MethodGet, "/v1/projections", nil, nil, &list)
}

// RebuildProjection makes a projection anew and yields how far that is; the last
// line has Done. It goes on if the caller stops. As Projections, it is for the
// owner.
func (c *Client) RebuildProjection(ctx context.Context, name string) iter.Seq2[api.RebuildLine, error] {
	return func(yield func(api.RebuildLine, error) bool) {
		resp, err := c.do(ctx, http.MethodPost, "/v1/projections/"+url.PathEscape(name)+"/rebuild", nil, nil)
		if err != nil {
			yield(api.RebuildLine{}, err)
			return
		}
		defer resp.Body.Close()
		lines := json.NewDecoder(bufio.NewReader(resp.Body))
		for {
			var l api.RebuildLine
			err := lines.Decode(&l)
			switch {
			case ctx.Err() != nil:
				err = ctx.Err()
			case errors.Is(err, io.EOF):
				err = &eventlog.Error{Op: "rebuild " + name, Err: fmt.Errorf("%w: the answer was cut off", eventlog.ErrUnavailable)}
			case err != nil:
				err = &eventlog.Error{Op: "rebuild " + name, Err: fmt.Errorf("%w: %w", eventlog.ErrUnavailable, err)}
			case l.Error != nil:
				err = l.Error.Err()
			}
			if !yield(l, err) || err != nil || l.Done {
				return
			}
		}
	}
}
