package api

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

// runInput is a RunAgentInput as a client sent it.
type runInput struct {
	members  map[string]json.RawMessage // all of them, also those unknown here
	thread   string
	run      string
	parent   string
	named    bool // parent is given
	messages []json.RawMessage
	digest   [16]byte
}

// readInput reads the body of a run or connect request.
func (s *Server) readInput(w http.ResponseWriter, r *http.Request) (*runInput, error) {
	body, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	bad := func(reason string) error {
		return badRequest("read RunAgentInput", reason)
	}
	if !utf8.Valid(body) {
		return nil, bad("the body is not valid UTF-8")
	}
	in := &runInput{}
	if err := json.Unmarshal(body, &in.members); err != nil || in.members == nil {
		return nil, bad("the body is one JSON object, AG-UI's RunAgentInput")
	}
	var ok bool
	if in.thread, ok = in.text("threadId"); !ok || in.thread == "" {
		return nil, bad("threadId is a string that is not empty")
	}
	if in.run, ok = in.text("runId"); !ok && in.has("runId") {
		return nil, bad("runId is a string")
	}
	if in.parent, in.named = in.text("parentRunId"); !in.named && in.has("parentRunId") {
		return nil, bad("parentRunId is a string")
	}
	if in.has("messages") {
		if err := json.Unmarshal(in.members["messages"], &in.messages); err != nil {
			return nil, bad("messages is a list")
		}
	}
	for i, m := range in.messages {
		var fields map[string]json.RawMessage
		if json.Unmarshal(m, &fields) != nil || fields == nil {
			return nil, bad(fmt.Sprintf("messages[%d] is an object", i))
		}
	}
	digest := sha256.Sum256(body)
	copy(in.digest[:], digest[:])
	return in, nil
}

// readBody reads a request body up to the limit.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.BodyBytes))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, &eventlog.Error{Op: "read the request", Err: &eventlog.TooLargeError{
			What: "request body", Size: int(max(r.ContentLength, large.Limit+1)), Limit: int(large.Limit),
		}}
	}
	if err != nil {
		return nil, badRequest("read the request", "the body ended early: "+err.Error())
	}
	return body, nil
}

// has reports whether a member is there and not null.
func (in *runInput) has(name string) bool {
	m, ok := in.members[name]
	return ok && string(m) != "null"
}

func (in *runInput) text(name string) (string, bool) { return agui.Unquote(in.members[name]) }

func (in *runInput) value(name string) json.RawMessage {
	if !in.has(name) {
		return nil
	}
	return in.members[name]
}

// StateHeader says whose state a run starts with: "client" for that of the
// request, "server" (the default) for the stored one. A thread that has no state
// yet takes the client's.
const StateHeader = "Agstore-State"

// HistoryHeader says whose history the agent is sent: "server" (the default)
// for the stored transcript and behind it what the client sent anew, "client"
// for the client's as it is.
const HistoryHeader = "Agstore-History"

// choice reads a header that is "server", "client" or absent.
func choice(r *http.Request, header string) (client bool, err error) {
	switch r.Header.Get(header) {
	case "", "server":
		return false, nil
	case "client":
		return true, nil
	}
	return false, badRequest("read "+header, header+" is server or client")
}

// start is what the store records of the input. forwardedProps stay out: front
// ends put tokens there (DESIGN decision 1).
func (in *runInput) start(parent *agui.RunKey, clientState bool) agstore.RunInput {
	start := agstore.RunInput{
		RunID: in.run, Parent: parent, Messages: in.messages, Digest: in.digest,
		Tools: in.value("tools"), Context: in.value("context"), Resume: in.value("resume"),
		InitialState: in.value("state"),
	}
	if clientState {
		start.State = in.value("state")
	}
	if in.named && parent == nil {
		start.UnknownParent = in.parent
	}
	return start
}

// forAgent is the RunAgentInput that the agent is sent.
func (in *runInput) forAgent(run *agstore.Run, clientHistory, clientState bool) ([]byte, error) {
	out := make(map[string]json.RawMessage, len(in.members)+1)
	for name, value := range in.members {
		out[name] = value
	}
	out["runId"] = agui.Quote(run.Lease().Run.ID)
	if !clientHistory {
		messages, err := transcript(run.Before, run.Turn)
		if err != nil {
			return nil, err
		}
		out["messages"] = messages
	}
	if !clientState && run.Before.State != nil {
		out["state"] = run.Before.State
	}
	// encoding/json checks raw members and keeps their text, but for escapes of
	// <, > and &, which mean the same.
	return json.Marshal(out)
}

// transcript is the stored messages and behind them the new ones.
func transcript(before *fold.View, turn []json.RawMessage) (json.RawMessage, error) {
	list := make([]json.RawMessage, 0, len(before.Messages)+len(turn))
	for i := range before.Messages {
		list = append(list, before.Messages[i].AppendJSON(nil))
	}
	return json.Marshal(append(list, turn...))
}
