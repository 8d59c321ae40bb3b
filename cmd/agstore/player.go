package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// player writes records as text for people, while they come.
type player struct {
	*app
	out   *bufio.Writer
	clock *clock

	run     agui.RunKey       // that spoke last
	names   map[string]string // what streams are called: roles by message, names by call
	told    map[string]bool   // messages that are on the screen
	current string            // the stream whose line is open; empty: none
	half    string            // of a character that the next piece may complete
}

func (a *app) newPlayer(out *bufio.Writer) *player {
	return &player{
		app: a, out: out, clock: a.newClock("delta"),
		names: make(map[string]string), told: make(map[string]bool),
	}
}

// fields are the members of an event.
type fields map[string]json.RawMessage

// text is a member that is a string, in WTF-8; empty if it is none.
func (f fields) text(name string) string {
	s, _ := agui.Unquote(f[name])
	return s
}

// brief is a member as short JSON.
func (f fields) brief(name string) string {
	var out bytes.Buffer
	if json.Compact(&out, f[name]) != nil {
		return ""
	}
	return shorten(out.String(), 120)
}

func (f fields) object(name string) fields {
	var members fields
	_ = json.Unmarshal(f[name], &members) // nothing, if it is no object
	return members
}

func (f fields) list(name string) []fields {
	var list []fields
	_ = json.Unmarshal(f[name], &list) // nothing, if it is no list of objects
	return list
}

// record shows one record. Echoes say nothing new.
func (p *player) record(r eventlog.Record) {
	if r.Echo {
		return
	}
	var f fields
	if json.Unmarshal(r.Event, &f) != nil {
		return // it was checked when it was stored
	}
	if !r.Run.IsZero() && r.Run != p.run {
		if !p.run.IsZero() && r.Type != agui.TypeRunStarted {
			p.note(r, dim, "run "+r.Run.String()+" again")
		}
		p.run = r.Run
	}
	switch r.Type {
	case agui.TypeRunStarted, agui.TypeRunFinished, agui.TypeRunError:
		p.lifecycle(r, f)
	case agui.TypeTextMessageStart, agui.TypeTextMessageContent, agui.TypeTextMessageChunk, agui.TypeTextMessageEnd:
		p.message(r, f, "assistant")
	case agui.TypeReasoningMessageStart, agui.TypeReasoningMessageContent, agui.TypeReasoningMessageChunk,
		agui.TypeReasoningMessageEnd, agui.TypeThinkingTextMessageStart, agui.TypeThinkingTextMessageContent,
		agui.TypeThinkingTextMessageEnd:
		p.message(r, f, "reasoning")
	case agui.TypeToolCallStart, agui.TypeToolCallArgs, agui.TypeToolCallChunk, agui.TypeToolCallEnd:
		p.call(r, f)
	case agui.TypeToolCallResult:
		p.note(r, green, "← "+p.names["call "+f.text("toolCallId")]+" "+shorten(contentText(f["content"]), 400))
	default:
		p.aside(r, f)
	}
}

func (p *player) lifecycle(r eventlog.Record, f fields) {
	switch r.Type {
	case agui.TypeRunStarted:
		from := ""
		if parent := f.text("parentRunId"); parent != "" {
			from = " behind " + parent
		}
		p.note(r, bold, "run "+r.Run.String()+" started"+from)
		input := f.object("input")
		for _, m := range input.list("messages") {
			p.inputMessage(r, m)
		}
		for _, answer := range input.list("resume") {
			p.note(r, yellow, "answer to "+answer.text("interruptId")+": "+answer.text("status")+" "+answer.brief("payload"))
		}
	case agui.TypeRunFinished:
		outcome := f.object("outcome")
		if outcome.text("type") != "interrupt" {
			p.note(r, bold, strings.TrimSpace("run "+r.Run.String()+" finished "+outcome.text("type")))
			return
		}
		p.note(r, bold, "run "+r.Run.String()+" interrupted")
		for _, i := range outcome.list("interrupts") {
			p.note(r, yellow, "waits for an answer: "+question(interrupt{i.text("id"), i.text("reason"), i.text("message")}))
		}
	case agui.TypeRunError:
		text := "run " + r.Run.String() + " failed: " + f.text("message")
		if code := f.text("code"); code != "" {
			text += " (" + code + ")"
		}
		p.note(r, red, text)
	}
}

// inputMessage shows a message that came with a run's input, once.
func (p *player) inputMessage(r eventlog.Record, m fields) {
	id := m.text("id")
	if p.told[id] {
		return
	}
	p.told[id] = true
	heading := m.text("role")
	if call := m.text("toolCallId"); call != "" {
		heading += " result " + call
	}
	p.note(r, bold, heading)
	if text := contentText(m["content"]); text != "" {
		p.say(indented(printable(text)) + "\n")
	}
}

// message shows a piece of a streamed message.
func (p *player) message(r eventlog.Record, f fields, role string) {
	id := f.text("messageId")
	stream := role + " " + id
	if id == "" && strings.HasPrefix(p.current, role+" ") {
		stream = p.current // a chunk that goes on, or a 0.x event without an id
	}
	switch r.Type {
	case agui.TypeTextMessageStart, agui.TypeReasoningMessageStart, agui.TypeThinkingTextMessageStart:
		p.names[stream] = role
		if said := f.text("role"); said != "" {
			p.names[stream] = said
		}
		p.told[id] = true
		p.open(r, stream, p.names[stream])
	case agui.TypeTextMessageEnd, agui.TypeReasoningMessageEnd, agui.TypeThinkingTextMessageEnd:
		if p.current == stream {
			p.endLine()
		}
	default:
		if p.names[stream] == "" {
			p.names[stream] = role
		}
		p.told[id] = true
		p.piece(r, stream, f.text("delta"))
	}
}

// call shows a piece of a tool call.
func (p *player) call(r eventlog.Record, f fields) {
	stream := "call " + f.text("toolCallId")
	if f.text("toolCallId") == "" && strings.HasPrefix(p.current, "call ") {
		stream = p.current
	}
	if name := f.text("toolCallName"); name != "" {
		p.names[stream] = name
	}
	switch r.Type {
	case agui.TypeToolCallStart:
		p.open(r, stream, p.names[stream])
	case agui.TypeToolCallEnd:
		if p.current == stream {
			p.endLine()
		}
	default:
		p.piece(r, stream, f.text("delta"))
	}
}

// aside shows what is no part of the conversation's text, on one line.
func (p *player) aside(r eventlog.Record, f fields) {
	switch r.Type {
	case agui.TypeStateSnapshot:
		p.note(r, dim, "state "+f.brief("snapshot"))
	case agui.TypeStateDelta:
		var changes []string
		for _, op := range f.list("delta") {
			changes = append(changes, strings.TrimSpace(op.text("op")+" "+op.text("path")+" "+op.brief("value")))
		}
		p.note(r, dim, "state "+shorten(strings.Join(changes, ", "), 200))
	case agui.TypeMessagesSnapshot:
		p.note(r, dim, fmt.Sprintf("messages replaced by a snapshot of %d", len(f.list("messages"))))
	case agui.TypeActivitySnapshot:
		p.note(r, dim, "activity "+f.text("activityType")+" "+f.brief("content"))
	case agui.TypeActivityDelta:
		p.note(r, dim, "activity "+f.text("activityType")+" "+f.brief("patch"))
	case agui.TypeStepStarted, agui.TypeStepFinished:
		p.note(r, dim, "step "+f.text("stepName")+" "+verb(r.Type))
	case agui.TypeSubagentStarted, agui.TypeSubagentFinished, agui.TypeSubagentError:
		p.note(r, dim, strings.Join([]string{"subagent", f.text("subagentRunId"), verb(r.Type), f.text("message")}, " "))
	case agui.TypeCustom:
		p.note(r, dim, "custom "+f.text("name")+" "+f.brief("value"))
	case agui.TypeRaw:
		p.note(r, dim, "raw "+f.text("source")+" "+f.brief("event"))
	case agui.TypeReasoningStart, agui.TypeReasoningEnd, agui.TypeThinkingStart, agui.TypeThinkingEnd:
		// The messages between them are shown.
	default:
		p.note(r, dim, string(r.Type))
	}
}

func verb(t agui.Type) string {
	switch {
	case strings.HasSuffix(string(t), "_STARTED"):
		return "started"
	case strings.HasSuffix(string(t), "_ERROR"):
		return "failed"
	}
	return "finished"
}

// gap shows that what came before was removed: what follows is another history.
func (p *player) gap(g *eventlog.GapError) {
	p.endLine()
	p.say(p.paint(yellow, gapText(g)) + "\n")
	p.run, p.half = agui.RunKey{}, ""
	clear(p.names)
	clear(p.told)
}

// note shows one line.
func (p *player) note(r eventlog.Record, mark style, text string) {
	p.endLine()
	line := strings.Map(flatten, printable(text))
	p.say(p.stamp(r) + p.paint(mark, strings.TrimRight(line, " ")) + "\n")
}

// stamp is when and where a record was.
func (p *player) stamp(r eventlog.Record) string {
	return p.paint(dim, fmt.Sprintf("%6d %9s", r.Seq, p.clock.show(r.Time))) + "  "
}

// open begins the line of a stream: a message's text stands below its role, a
// call's arguments beside its name.
func (p *player) open(r eventlog.Record, stream, name string) {
	if strings.HasPrefix(stream, "call ") {
		p.endLine()
		p.say(p.stamp(r) + p.paint(green, "→ "+printable(name)) + " ")
	} else {
		p.note(r, bold, name)
		p.say("  ")
	}
	p.current = stream
}

// piece shows what comes next in a stream.
func (p *player) piece(r eventlog.Record, stream, delta string) {
	if p.current != stream {
		p.open(r, stream, p.names[stream])
	}
	text := p.half + delta
	p.half = ""
	if n := len(text); n >= 3 && text[n-3] == 0xED && 0xA0 <= text[n-2] && text[n-2] < 0xB0 {
		// The first half of a surrogate pair: the next piece has the other.
		text, p.half = text[:n-3], text[n-3:]
	}
	// Halves that met become one character by being read anew.
	text, _ = agui.Unquote(agui.Quote(text))
	p.say(strings.ReplaceAll(printable(text), "\n", "\n  "))
}

// endLine ends the line of the stream that is open.
func (p *player) endLine() {
	if p.current == "" {
		return
	}
	p.say(printable(p.half) + "\n")
	p.current, p.half = "", ""
}

// say writes; what a writer cannot take shows when it is flushed.
func (p *player) say(text string) { _, _ = p.out.WriteString(text) }
