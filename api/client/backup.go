package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/eventlog"
)

// Backup makes a copy of the whole store in a directory of the server's machine,
// named by an absolute path, that does not exist yet. Only over a control socket;
// elsewhere it is not found. See agstore.Store.Backup.
func (c *Client) Backup(ctx context.Context, dir string) (made eventlog.Backup, err error) {
	body, err := json.Marshal(api.BackupRequest{Dir: dir})
	if err != nil {
		return made, err
	}
	return made, c.decode(ctx, http.MethodPost, "/v1/backups", nil, body, &made)
}

// Backups lists the backups that were made of the store, the oldest first.
func (c *Client) Backups(ctx context.Context) ([]eventlog.Backup, error) {
	var list api.BackupList
	err := c.decode(ctx, http.MethodGet, "/v1/backups", nil, nil, &list)
	return list.Backups, err
}
