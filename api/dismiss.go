package api

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// dismissRequest is the body of a dismissal, which may be empty.
type dismissRequest struct {
	Interrupts []ID `json:"interrupts"` // none: all that are pending
}

// Dismissed is the answer to a dismissal.
type Dismissed struct {
	Run        ID     `json:"run"` // that cancelled them
	Interrupts []ID   `json:"interrupts"`
	First      uint64 `json:"first"`
	Last       uint64 `json:"last"`
}

// dismiss takes back questions without asking an agent (agstore.Scope.Dismiss).
func (s *Server) dismiss(w http.ResponseWriter, r *http.Request, name string) error {
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	var req dismissRequest
	if len(bytes.TrimSpace(body)) > 0 && json.Unmarshal(body, &req) != nil {
		return badRequest("read the dismissal", `the body is {"interrupts": [ids]}, or empty for all that are pending`)
	}
	interrupts := make([]string, len(req.Interrupts))
	for i, id := range req.Interrupts {
		interrupts[i] = string(id)
	}
	done, err := s.scope(r).Dismiss(r.Context(), name, interrupts...)
	if err != nil {
		return err
	}
	out := Dismissed{Run: ID(done.Run.String()), First: done.First, Last: done.Last}
	for _, id := range done.Interrupts {
		out.Interrupts = append(out.Interrupts, ID(id))
	}
	return writeJSON(w, out)
}
