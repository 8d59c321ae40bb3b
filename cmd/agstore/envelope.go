package main

import (
	"bytes"
	"encoding/json"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// envelope is a line of the format "records" (see api.AppendRecord): an event
// with what a store keeps beside it.
type envelope struct {
	Seq      *uint64         `json:"seq"`
	Position *uint64         `json:"position"`
	Type     *string         `json:"type"`
	Origin   *string         `json:"origin"`
	Echo     *bool           `json:"echo"`
	Event    json.RawMessage `json:"event"`
}

// echoed reports whether the event says again what the store wrote before it: it
// is in no other format, and goes into no other thread.
func (e *envelope) echoed() bool { return *e.Echo && *e.Origin == eventlog.OriginAgent.String() }

// readEnvelope reads a line of a records export; nil if it is none.
func readEnvelope(line []byte) *envelope {
	for _, name := range []string{`"position"`, `"origin"`, `"echo"`, `"event"`} {
		if !bytes.Contains(line, []byte(name)) {
			return nil // as nearly all lines, without decoding them
		}
	}
	var e envelope
	if json.Unmarshal(line, &e) != nil {
		return nil
	}
	if e.Seq == nil || e.Position == nil || e.Type == nil || e.Origin == nil || e.Echo == nil || !bytes.HasPrefix(e.Event, []byte("{")) {
		return nil
	}
	return &e
}

// isGap reports whether a line of the format "records" says what was removed (see
// api.AppendGap).
func isGap(line []byte) bool {
	if !bytes.HasPrefix(line, []byte(`{"gap":`)) {
		return false
	}
	var e struct {
		Gap  *eventlog.GapError `json:"gap"`
		Type *string            `json:"type"`
	}
	return json.Unmarshal(line, &e) == nil && e.Gap != nil && e.Type == nil
}

// refusal is an input that is not what it should be.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// Is reports that it is an errRefused.
func (r *refusal) Is(target error) bool { return target == errRefused }

// checkEvent is an error for an item that is no event. A record is none either:
// in a stream of events it has come from another file.
func checkEvent(i item) error {
	if !i.unwrapped && readEnvelope(i.data) != nil {
		return &lineError{i.line, &refusal{"a record, in a stream of events"}}
	}
	var h agui.Header
	if err := agui.ReadHeader(i.data, &h); err != nil {
		return &lineError{i.line, err}
	}
	return nil
}
