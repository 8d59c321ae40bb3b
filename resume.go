package agstore

import (
	"encoding/json"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

// answered refuses answers to an interrupt that a run of the view has answered:
// what was approved once is not done twice. It is a conflict that names that run
// and the seq before it, at which the interrupt was open. What is no list of
// answers is recorded as it is.
func answered(view *fold.View, resume json.RawMessage) error {
	var entries []struct {
		InterruptID string `json:"interruptId"`
	}
	if len(resume) == 0 || json.Unmarshal(resume, &entries) != nil {
		return nil
	}
	for _, e := range entries {
		var latest *fold.Interrupt // it may have been asked again
		for i := range view.InterruptHistory {
			if in := &view.InterruptHistory[i]; in.ID == e.InterruptID {
				latest = in
			}
		}
		if latest == nil || !latest.Answered {
			continue
		}
		for _, a := range latest.Answers {
			if endedWell(view, a.Run) {
				return &eventlog.ConflictError{Expected: a.Seq - 1, Actual: view.Seq, Run: a.Run}
			}
		}
	}
	return nil
}

// endedWell reports whether a run has answered what it was started to answer: one
// that fails leaves its interrupts open (fold-rules R18).
func endedWell(view *fold.View, key agui.RunKey) bool {
	for i := range view.Runs {
		if r := &view.Runs[i]; r.Key == key {
			return r.Status == agui.RunSuccess || r.Status == agui.RunInterrupted || r.Status == agui.RunCancelled
		}
	}
	return false
}
