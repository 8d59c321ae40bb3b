package api

import "net/http"

// diff answers with what has to be done to the view at one point to get that at
// another (replay.Difference). Parameters: from and to, as Scope.FindPoint reads
// them; without to the head.
func (s *Server) diff(w http.ResponseWriter, r *http.Request, name string) error {
	scope, q := s.scope(r), r.URL.Query()
	if !q.Has("from") {
		return badRequest("compare", "from is missing: a run, @SEQ, head or root")
	}
	to := "head"
	if q.Has("to") {
		to = q.Get("to")
	}
	a, err := scope.FindPoint(r.Context(), name, q.Get("from"))
	if err != nil {
		return err
	}
	b, err := scope.FindPoint(r.Context(), name, to)
	if err != nil {
		return err
	}
	d, err := scope.Diff(r.Context(), name, a, b)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(d.AppendJSON(nil), '\n'))
	return ignore(err)
}
