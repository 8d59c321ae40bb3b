package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api/problem"
	"github.com/agstore/agstore/eventlog"
)

// VerifyLine is one line of the answer to GET /v1/verify: a fault, a note, the
// error that ended it, or, last, what was looked at. An answer without Done was
// cut off.
type VerifyLine struct {
	Fault *VerifyFault             `json:"fault,omitempty"`
	Note  *VerifyNote              `json:"note,omitempty"`
	Error *problem.Problem         `json:"error,omitempty"`
	Done  *eventlog.VerifyProgress `json:"done,omitempty"`
}

// VerifyFault is an eventlog.Fault. Seq and To are of the companion stream if
// Companion; the zero value of a field says that there is none.
type VerifyFault struct {
	Kind       eventlog.FaultKind `json:"kind"`
	Scope      string             `json:"scope,omitempty"`
	Thread     string             `json:"thread,omitempty"`
	Seq        uint64             `json:"seq,omitempty"`
	To         uint64             `json:"to,omitempty"`
	Companion  bool               `json:"companion,omitempty"`
	Position   uint64             `json:"position,omitempty"`
	PositionTo uint64             `json:"positionTo,omitempty"`
	Run        string             `json:"run,omitempty"`
	Attempt    int                `json:"attempt,omitempty"`
	Place      string             `json:"place,omitempty"`
	Detail     string             `json:"detail"`
	Meaning    string             `json:"meaning"`
	Derived    bool               `json:"derived,omitempty"` // a repair can write it anew
}

// VerifyNote is what a fold has remarked on at a seq.
type VerifyNote struct {
	Scope  string     `json:"scope"`
	Thread string     `json:"thread"`
	Seq    uint64     `json:"seq"`
	Rule   string     `json:"rule"`
	Detail agui.Value `json:"detail"`
}

// FaultOf is a fault as it is printed and sent.
func FaultOf(f eventlog.Fault) *VerifyFault {
	return &VerifyFault{
		Kind: f.Kind, Scope: f.Thread.Scope, Thread: f.Thread.Thread, Seq: f.Seq, To: f.To, Companion: f.Companion,
		Position: f.Position, PositionTo: f.PositionTo, Run: f.Run.ID, Attempt: f.Run.Attempt,
		Place: f.Place, Detail: f.Detail, Meaning: f.Kind.Meaning(), Derived: f.Derived,
	}
}

// Fault is the fault as the log told it.
func (f *VerifyFault) Fault() eventlog.Fault {
	return eventlog.Fault{
		Kind: f.Kind, Thread: eventlog.ThreadKey{Scope: f.Scope, Thread: f.Thread}, Seq: f.Seq, To: f.To, Companion: f.Companion,
		Position: f.Position, PositionTo: f.PositionTo, Run: agui.RunKey{ID: f.Run, Attempt: f.Attempt},
		Place: f.Place, Detail: f.Detail, Derived: f.Derived,
	}
}

// verify answers with what is found as it is found, one JSON object a line.
func (s *Server) verify(w http.ResponseWriter, r *http.Request) error {
	var opts eventlog.VerifyOptions
	if thread := r.URL.Query().Get("thread"); thread != "" {
		opts.Thread = &eventlog.ThreadKey{Scope: s.scope(r).Name(), Thread: thread}
	}
	var done eventlog.VerifyProgress
	opts.Progress = func(p eventlog.VerifyProgress) { done = p }
	w.Header().Set("Content-Type", typeNDJSON)
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	lines := json.NewEncoder(w)
	send := func(l VerifyLine) error {
		_ = control.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout)) // where there are any
		if err := lines.Encode(l); err != nil {
			return err
		}
		return control.Flush()
	}
	for f, err := range s.store.Verify(r.Context(), opts) {
		line := VerifyLine{}
		switch {
		case err != nil:
			line.Error = problem.Of(err)
		case f.Fault != nil:
			line.Fault = FaultOf(*f.Fault)
		default:
			line.Note = &VerifyNote{Scope: f.Note.Thread.Scope, Thread: f.Note.Thread.Thread, Seq: f.Note.Seq, Rule: f.Note.Rule, Detail: f.Note.Detail}
		}
		if err := send(line); err != nil || line.Error != nil {
			return nil // nobody reads it any more, or it has said why it ends
		}
	}
	_ = send(VerifyLine{Done: &done})
	return nil
}
