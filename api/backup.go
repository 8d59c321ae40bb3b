package api

import (
	"encoding/json"
	"net/http"
	"path/filepath"

	"github.com/agstore/agstore/api/problem"
	"github.com/agstore/agstore/eventlog"
)

// BackupList is the answer to GET /v1/backups.
type BackupList struct {
	Backups []eventlog.Backup `json:"backups"` // the oldest first, without sizes
}

// BackupRequest is the body of POST /v1/backups.
type BackupRequest struct {
	// Dir is the directory to make, on the server's machine; absolute.
	Dir string `json:"dir"`
}

// owners answers a request only of those who may see every scope; to all others
// there is nothing.
func owners(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Context().Value(trusted{}) == nil {
			return problem.New(http.StatusNotFound, "path_not_found", "nothing is served at "+r.URL.Path)
		}
		return h(w, r)
	}
}

func (s *Server) backups(w http.ResponseWriter, r *http.Request) error {
	made, err := s.store.Backups(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, BackupList{Backups: append([]eventlog.Backup{}, made...)})
}

func (s *Server) backup(w http.ResponseWriter, r *http.Request) error {
	var req BackupRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, s.opts.BodyBytes)).Decode(&req); err != nil {
		return badRequest("back up", "the body is an object with the member dir")
	}
	if req.Dir != "" && !filepath.IsAbs(req.Dir) {
		return badRequest("back up", "dir is an absolute path on the machine of the server")
	}
	made, err := s.store.Backup(r.Context(), req.Dir)
	if err != nil {
		return err
	}
	return writeJSON(w, made)
}
