package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/agstore/agstore/agui"
)

// What the user says in the demo; the agent answers by it.
const (
	demoPlan   = "Plan a day in Lisbon for me."
	demoDetail = "Tell me about the morning, in detail."
	demoBook   = "Book the boat trip."
	demoRain   = "Plan it again: it is going to rain."
)

const demoInterrupt = "approve-boat"

// demoAgent is an AG-UI agent that follows a script. It runs in the process of
// the demo and so outlives the recorder that is killed.
type demoAgent struct {
	server *http.Server
	url    string
	ended  chan error
}

func startDemoAgent() (*demoAgent, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &demoAgent{url: "http://" + l.Addr().String() + "/agent", ended: make(chan error, 1)}
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second}
	go func() { a.ended <- a.server.Serve(l) }()
	return a, nil
}

func (a *demoAgent) close() error {
	err := a.server.Close()
	<-a.ended
	return err
}

// demoInput is what the agent looks at of a RunAgentInput.
type demoInput struct {
	Thread   string            `json:"threadId"`
	Run      string            `json:"runId"`
	Messages []message         `json:"messages"`
	Resume   []json.RawMessage `json:"resume"`
}

// ServeHTTP answers a run by the script.
func (a *demoAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in demoInput
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Messages) == 0 {
		http.Error(w, "a RunAgentInput with messages is wanted", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := &demoScript{w: w, control: http.NewResponseController(w), in: in}
	s.send("RUN_STARTED", "threadId", in.Thread, "runId", in.Run)
	said := ""
	for _, m := range in.Messages {
		if m.Role == "user" {
			said = contentText(m.Content)
		}
	}
	switch {
	case len(in.Resume) > 0:
		s.raw(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/booked","value":true}]}`)
		s.text("Done: the boat leaves at ten.")
		s.finish("")
	case said == demoPlan:
		s.plan()
	case said == demoDetail:
		s.text("Start early. ")
		for i := 1; ; i++ { // until the recorder is gone
			s.part(fmt.Sprintf("Stop %d is a viewpoint. ", i))
			select {
			case <-r.Context().Done():
				return
			case <-time.After(2 * time.Millisecond): // an agent thinks between words
			}
		}
	case said == demoBook:
		s.text("I need your approval for that.")
		s.finish(`,"outcome":{"type":"interrupt","interrupts":[{"id":"` + demoInterrupt + `","reason":"approval","message":"Book the boat trip for 40 euros?"}]}`)
	default:
		s.text("Then museums: tiles in the morning, tram 28 when it clears.")
		s.finish("")
	}
}

// demoScript writes one answer.
type demoScript struct {
	w       http.ResponseWriter
	control *http.ResponseController
	in      demoInput
	texts   int
}

func (s *demoScript) raw(event string) {
	// A recorder that was killed takes no more: the script ends by itself.
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", event)
	_ = s.control.Flush()
}

// send sends an event of string members: name, value, name, value …
func (s *demoScript) send(typ string, members ...string) {
	out := bytes.NewBufferString(`{"type":"` + typ + `"`)
	for i := 0; i+1 < len(members); i += 2 {
		fmt.Fprintf(out, ",%s:%s", agui.Quote(members[i]), agui.Quote(members[i+1]))
	}
	s.raw(out.String() + "}")
}

func (s *demoScript) id() string { return fmt.Sprintf("%s-answer-%d", s.in.Run, s.texts) }

// part streams a message's text word by word.
func (s *demoScript) part(text string) {
	for _, word := range strings.SplitAfter(text, " ") {
		if word != "" {
			s.send("TEXT_MESSAGE_CONTENT", "messageId", s.id(), "delta", word)
		}
	}
}

// text begins a message.
func (s *demoScript) text(text string) {
	s.texts++
	s.send("TEXT_MESSAGE_START", "messageId", s.id(), "role", "assistant")
	s.part(text)
}

func (s *demoScript) end() { s.send("TEXT_MESSAGE_END", "messageId", s.id()) }

func (s *demoScript) finish(more string) {
	s.end()
	s.raw(fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":%s,"runId":%s%s}`, agui.Quote(s.in.Thread), agui.Quote(s.in.Run), more))
}

// plan is a run with a tool call and state.
func (s *demoScript) plan() {
	s.raw(`{"type":"STATE_SNAPSHOT","snapshot":{"city":"Lisbon","stops":[]}}`)
	s.text("Let me look at the weather.")
	s.end()
	call := s.in.Run + "-call"
	s.send("TOOL_CALL_START", "toolCallId", call, "toolCallName", "weather", "parentMessageId", s.id())
	s.send("TOOL_CALL_ARGS", "toolCallId", call, "delta", `{"city":`)
	s.send("TOOL_CALL_ARGS", "toolCallId", call, "delta", `"Lisbon"}`)
	s.send("TOOL_CALL_END", "toolCallId", call)
	s.send("TOOL_CALL_RESULT", "messageId", s.in.Run+"-result", "toolCallId", call, "role", "tool", "content", "sunny, 24 degrees")
	s.raw(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/stops/-","value":"Alfama"},{"op":"add","path":"/stops/-","value":"Belém"}]}`)
	s.text("Alfama in the morning, Belém after lunch.")
	s.finish("")
}
