package api

import (
	"encoding/json"

	"net/http"
	"time"

	"github.com/agstore/agstore/api/problem"
	"github.com/agstore/agstore/projection"
)

// ProjectionList is the answer to GET /v1/projections.
type ProjectionList struct {
	Projections []Projection `json:"projections"`
	Position    uint64       `json:"position"` // of the log
}

// Projection is where a projection is (projection.Status).
type Projection struct {
	Name     string           `json:"name"`
	Version  int              `json:"version"`
	Global   bool             `json:"global"`
	Kept     bool             `json:"kept"` // up to date, by the server's process
	Position uint64           `json:"position"`
	Building bool             `json:"building"`
	Target   uint64           `json:"target"`  // where what is being built is answered from
	Serving  int              `json:"serving"` // the version that is answered from; 0: none
	Error    *problem.Problem `json:"error,omitempty"`
}

// RebuildLine is one line of the answer to POST /v1/projections/{name}/rebuild: how
// far it is, the error that ended it, or, last, that it is done. An answer without
// Done or Error was cut off; the rebuild goes on.
type RebuildLine struct {
	Projection *Projection      `json:"projection,omitempty"`
	Error      *problem.Problem `json:"error,omitempty"`
	Done       bool             `json:"done,omitempty"`
}

func projectionOf(st projection.Status) *Projection {
	out := &Projection{
		Name: st.Name, Version: st.Version, Global: st.Global, Kept: st.Kept, Position: st.Position,
		Building: st.Building, Target: st.Target, Serving: st.Serving,
	}
	if st.Err != nil {
		out.Error = problem.Of(st.Err)
	}
	return out
}

func (s *Server) projections(w http.ResponseWriter, r *http.Request) error {
	all, err := s.store.Projections(r.Context())
	if err != nil {
		return err
	}
	list := ProjectionList{Projections: []Projection{}, Position: s.store.Log().Watermark()}
	for _, st := range all {
		list.Projections = append(list.Projections, *projectionOf(st))
	}
	return writeJSON(w, list)
}

// rebuild makes a projection anew, and answers with how far it is, one JSON object
// a line, ten times a second at most.
func (s *Server) rebuild(w http.ResponseWriter, r *http.Request) error {
	control := http.NewResponseController(w)
	lines := json.NewEncoder(w)
	begun := false
	var sent time.Time
	send := func(l RebuildLine) {
		if !begun {
			w.Header().Set("Content-Type", typeNDJSON)
			w.Header().Set("Cache-Control", "no-store")
			begun = true
		}
		_ = control.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout)) // where there are any
		if lines.Encode(l) == nil {
			_ = control.Flush() // who has gone ends the request
		}
	}
	var last projection.Status
	err := s.store.RebuildProjection(r.Context(), r.PathValue("name"), func(st projection.Status) {
		last = st
		if now := time.Now(); now.Sub(sent) >= 100*time.Millisecond {
			sent = now
			send(RebuildLine{Projection: projectionOf(st)})
		}
	})
	switch {
	case err != nil && !begun:
		return err
	case err != nil:
		send(RebuildLine{Error: problem.Of(err)})
	default:
		send(RebuildLine{Projection: projectionOf(last), Done: true})
	}
	return nil
}
