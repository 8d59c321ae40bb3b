package interop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/jsonvalue"
)

type value = jsonvalue.Value

// A stream is the lines of one stream of events.
type stream []string

// A writer makes up streams, mostly ones that an agent could send: what it continues or ends is open, and of what must
// be unique little is said twice. Few ids for everything make different things meet under one.
type writer struct {
	*rand.Rand
	lines    stream
	reader   *fold.Fold // has read the lines
	running  bool
	open     map[agui.Type][]string // what this type has opened and what is not closed, by id
	closed   []string               // ids of subagents
	state    *jsonvalue.Document
	contents map[string]*jsonvalue.Document // of activities
}

// streamOf makes stream number n of a seed.
func streamOf(seed, n uint64, corpus []stream) stream {
	r := rand.New(rand.NewPCG(seed, n))
	var s stream
	if r.IntN(3) > 0 || len(corpus) == 0 {
		s = newWriter(r).write(3 + r.IntN(35))
	} else {
		s = slices.Clone(corpus[r.IntN(len(corpus))])
	}
	for range pick(r, 0, 0, 1, 1, 2) {
		s = mutate(r, s, corpus)
	}
	for i := range s {
		if r.IntN(25) == 0 {
			s[i] = respell(r, s[i])
		}
	}
	return s
}

func newWriter(r *rand.Rand) *writer {
	return &writer{
		Rand:     r,
		lines:    stream{},
		reader:   fold.New(fold.Options{Profile: fold.Reference}),
		state:    jsonvalue.NewDocument(jsonvalue.NewObject()),
		contents: map[string]*jsonvalue.Document{},
	}
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// in is true once in n times.
func (w *writer) in(n int) bool { return w.IntN(n) == 0 }

// high and low are the halves of a surrogate pair, in the form jsonvalue has for lone ones.
const high, low = "\xed\xa0\xbc", "\xed\xbe\x89"

func (w *writer) id() string {
	if w.in(60) {
		return pick(w.Rand, high, "toString", "__proto__", "\x00", "é", "constructor")
	}
	return pick(w.Rand, "a", "b", "c", "", "x")
}

func (w *writer) text() string {
	if w.in(4) {
		return pick(w.Rand, high, low, high+"x", "🎉", "e\u0301", "\x00", "\u2028", `"\`, "\ue000", "\x7f\n", low+high)
	}
	return pick(w.Rand, "", "x", "yes ", "{\"q\":", "1}", "some words")
}

func (w *writer) number() value {
	text := pick(w.Rand, "0", "1", "2", "-1", "1.5", "1.0", "-0", "1e0", "1e21", "1e-7", "0.1", "9007199254740993",
		"-9007199254740993", "123456789012345678901234567890", "5e-324", "1E+2", "0.30000000000000004")
	if w.in(200) {
		text = "1e400"
	}
	v, err := jsonvalue.Parse([]byte(text), 0)
	if err != nil {
		panic(err) // the list above is wrong
	}
	return v
}

func (w *writer) key() string {
	if w.in(12) {
		return pick(w.Rand, "", "a/b", "m~n", "\ue000", "🎉", high, "0", "toJSON", "length", "-", "toString", "hasOwnProperty", "__proto__", "\u2028")
	}
	return pick(w.Rand, "a", "b", "c", "k")
}

func (w *writer) anything(depth int) value {
	if n := w.IntN(9); depth == 0 || n < 4 {
		switch w.IntN(5) {
		case 0:
			return jsonvalue.NewNull()
		case 1:
			return jsonvalue.NewBool(w.in(2))
		case 2:
			return w.number()
		}
		return jsonvalue.NewString(w.text())
	} else if n < 6 {
		var items []value
		for range w.IntN(4) {
			items = append(items, w.anything(depth-1))
		}
		return jsonvalue.NewList(items...)
	}
	return w.object(depth)
}

func (w *writer) object(depth int) value {
	var members []jsonvalue.Member
	for range w.IntN(4) {
		members = append(members, jsonvalue.Member{Name: w.key(), Value: w.anything(depth - 1)})
	}
	return jsonvalue.NewObject(members...)
}

// object makes an object of names and values by turns. A string is one, and what is nil is left out.
func object(pairs ...any) value {
	var members []jsonvalue.Member
	for i := 0; i < len(pairs); i += 2 {
		m := jsonvalue.Member{Name: pairs[i].(string)}
		switch v := pairs[i+1].(type) {
		case nil:
			continue
		case string:
			m.Value = jsonvalue.NewString(v)
		case bool:
			m.Value = jsonvalue.NewBool(v)
		case value:
			m.Value = v
		case []value:
			m.Value = jsonvalue.NewList(v...)
		default:
			panic(fmt.Sprintf("a %T", v))
		}
		members = append(members, m)
	}
	return jsonvalue.NewObject(members...)
}

// with returns v with a member set, or without it if to is absent.
func with(v value, name string, to value) value {
	var members []jsonvalue.Member
	for have, item := range v.Members() {
		if have != name {
			members = append(members, jsonvalue.Member{Name: have, Value: item})
		}
	}
	return jsonvalue.NewObject(append(members, jsonvalue.Member{Name: name, Value: to})...)
}

// maybe is v once in n times.
func (w *writer) maybe(n int, v any) any {
	if w.in(n) {
		return v
	}
	return nil
}

// tag says whose an event is; mostly the parent agent's.
func (w *writer) tag() any { return w.maybe(4, pick(w.Rand, "s", "u", "", "s")) }

// emit adds an event.
func (w *writer) emit(t agui.Type, pairs ...any) {
	e := object(append([]any{"type", string(t)}, pairs...)...)
	if w.in(8) {
		e = with(e, "metadata", w.object(2))
	}
	if w.in(60) {
		name := pick(w.Rand, "timestamp", "rawEvent", "zz", "metadata", "subagentRunId", "role")
		e = with(e, name, w.anything(1))
	}
	w.say(e.String())
}

// say adds a line. One that ends the stream is taken back, most times, or few streams would get anywhere.
func (w *writer) say(line string) {
	if w.failed() {
		w.lines = append(w.lines, line)
		return
	}
	w.reader.Apply(fold.Record{Raw: []byte(line)})
	if !w.failed() || w.in(25) {
		w.lines = append(w.lines, line)
		return
	}
	w.reader = fold.New(fold.Options{Profile: fold.Reference})
	for _, line := range w.lines {
		w.reader.Apply(fold.Record{Raw: []byte(line)})
	}
}

func (w *writer) failed() bool { return w.reader.View().Reference.Error != nil }

// has and takes keep account of what is open.
func (w *writer) has(t agui.Type, id string) bool { return slices.Contains(w.open[t], id) }

func (w *writer) takes(t agui.Type) (id string, ok bool) {
	ids := w.open[t]
	if len(ids) == 0 {
		return w.id(), w.in(60)
	}
	return ids[w.IntN(len(ids))], true
}

func (w *writer) opens(t agui.Type, id string) { w.open[t] = append(w.open[t], id) }

func (w *writer) closes(t agui.Type, id string) {
	w.open[t] = slices.DeleteFunc(w.open[t], func(open string) bool { return open == id })
}

// fresh is an id that this type has not open, nearly always.
func (w *writer) fresh(t agui.Type) (id string, ok bool) {
	id = w.id()
	return id, !w.has(t, id) || w.in(60)
}

func (w *writer) write(length int) stream {
	if w.in(50) {
		w.emit(agui.TypeRunError, "message", "no run yet")
	}
	for turns := 0; len(w.lines) < length && turns < 4*length; turns++ {
		if !w.running {
			w.start()
			continue
		}
		moves[w.IntN(len(moves))](w)
	}
	return w.lines
}

func (w *writer) start() {
	w.open, w.closed, w.running = map[agui.Type][]string{}, nil, true
	var input any
	if w.in(3) {
		input = object("threadId", "t", "runId", "r", "messages", w.messages(4),
			"state", w.maybe(5, w.anything(2)), "forwardedProps", w.maybe(5, w.anything(1)),
			"tools", w.maybe(5, []value{object("name", "f", "description", "d", "parameters", w.maybe(2, w.anything(1)))}),
			"context", w.maybe(5, []value{object("description", "d", "value", "v", "zz", w.maybe(9, "z"))}),
			"resume", w.maybe(5, []value{object("interruptId", "i", "status", pick(w.Rand, "resolved", "cancelled"), "payload", w.maybe(2, w.anything(1)))}))
	}
	w.emit(agui.TypeRunStarted, "threadId", "t", "runId", pick(w.Rand, "r1", "r2"), "input", input,
		"parentRunId", w.maybe(9, "r1"), "protocolVersion", w.maybe(9, pick(w.Rand, "1.0", "1.7", "0.9", "v1", "2", "", "01.0")))
}

// moves are what an agent may do next; what it does more often is there more than once.
var moves = []func(*writer){
	(*writer).textMessage, (*writer).textMessage, (*writer).textMessage, (*writer).call, (*writer).call, (*writer).call, (*writer).result,
	(*writer).chunk, (*writer).chunk, (*writer).chunk, (*writer).snapshotState, (*writer).patchState, (*writer).patchState,
	(*writer).snapshot, (*writer).snapshotActivity, (*writer).patchActivity, (*writer).patchActivity,
	(*writer).reasoning, (*writer).reasoning, (*writer).thinking, (*writer).encrypted, (*writer).aside, (*writer).step,
	(*writer).subagent, (*writer).end,
}

func (w *writer) textMessage() {
	const start = agui.TypeTextMessageStart
	if id, ok := w.takes(start); ok && w.IntN(4) > 0 {
		if w.in(4) {
			w.emit(agui.TypeTextMessageEnd, "messageId", id)
			w.closes(start, id)
		} else {
			w.emit(agui.TypeTextMessageContent, "messageId", id, "delta", w.text(), "subagentRunId", w.maybe(50, "s"))
		}
	} else if id, ok := w.fresh(start); ok {
		w.emit(start, "messageId", id, "role", w.maybe(2, pick(w.Rand, "assistant", "user", "system", "developer")),
			"name", w.maybe(5, w.text()), "subagentRunId", w.tag())
		w.opens(start, id)
	}
}

func (w *writer) call() {
	const start = agui.TypeToolCallStart
	if id, ok := w.takes(start); ok && w.IntN(4) > 0 {
		if w.in(4) {
			w.emit(agui.TypeToolCallEnd, "toolCallId", id)
			w.closes(start, id)
		} else {
			w.emit(agui.TypeToolCallArgs, "toolCallId", id, "delta", w.text())
		}
	} else if id, ok := w.fresh(start); ok {
		parent := w.maybe(2, w.id())
		if w.in(20) {
			parent = jsonvalue.NewNull()
		}
		w.emit(start, "toolCallId", id, "toolCallName", pick(w.Rand, "f", "g"), "parentMessageId", parent, "subagentRunId", w.tag())
		w.opens(start, id)
	}
}

func (w *writer) result() {
	var content any = w.text()
	if w.in(3) {
		content = w.parts()
	}
	w.emit(agui.TypeToolCallResult, "messageId", w.id(), "toolCallId", w.id(), "content", content, "role", w.maybe(4, "tool"), "subagentRunId", w.tag())
}

func (w *writer) chunk() {
	delta := any(w.text())
	if w.in(4) {
		delta = nil
	}
	var id any = w.id()
	if w.in(6) {
		id = nil
	}
	raw := w.maybe(12, w.anything(1))
	switch w.IntN(3) {
	case 0:
		w.emit(agui.TypeTextMessageChunk, "messageId", id, "delta", delta, "rawEvent", raw, "role", w.maybe(10, pick(w.Rand, "assistant", "user")),
			"name", w.maybe(10, "n"), "subagentRunId", w.tag())
	case 1:
		w.emit(agui.TypeToolCallChunk, "toolCallId", id, "toolCallName", "f", "delta", delta, "rawEvent", raw,
			"parentMessageId", w.maybe(10, w.id()), "subagentRunId", w.tag())
	case 2:
		w.emit(agui.TypeReasoningMessageChunk, "messageId", id, "delta", delta, "rawEvent", raw, "subagentRunId", w.tag())
	}
}

func (w *writer) snapshotState() {
	v := w.object(3)
	if w.in(5) {
		v = w.anything(3)
	}
	w.state.Set(v)
	w.emit(agui.TypeStateSnapshot, "snapshot", v)
}

func (w *writer) patchState() {
	w.emit(agui.TypeStateDelta, "delta", w.patch(w.state))
}

func (w *writer) snapshotActivity() {
	id, content := w.id(), w.object(2)
	var replace any
	if w.in(2) {
		replace = w.in(2)
	}
	w.contents[id] = jsonvalue.NewDocument(content)
	w.emit(agui.TypeActivitySnapshot, "messageId", id, "activityType", pick(w.Rand, "P", "Q"), "content", content,
		"replace", replace, "subagentRunId", w.tag())
}

func (w *writer) patchActivity() {
	id := w.id()
	content := w.contents[id]
	if content == nil {
		content = jsonvalue.NewDocument(jsonvalue.NewObject())
	}
	w.emit(agui.TypeActivityDelta, "messageId", id, "activityType", pick(w.Rand, "P", "Q"), "patch", w.patch(content))
}

func (w *writer) reasoning() {
	start, content, end := agui.TypeReasoningMessageStart, agui.TypeReasoningMessageContent, agui.TypeReasoningMessageEnd
	if w.in(4) {
		start, content, end = agui.TypeReasoningStart, "", agui.TypeReasoningEnd
	}
	if id, ok := w.takes(start); ok && w.IntN(4) > 0 {
		if w.in(3) || content == "" {
			w.emit(end, "messageId", id)
			w.closes(start, id)
		} else {
			w.emit(content, "messageId", id, "delta", w.text())
		}
	} else if id, ok := w.fresh(start); ok {
		var role any
		if start == agui.TypeReasoningMessageStart {
			role = "reasoning"
		}
		w.emit(start, "messageId", id, "role", role, "subagentRunId", w.tag())
		w.opens(start, id)
	}
}

// thinking is the reasoning of 0.x.
func (w *writer) thinking() {
	const span, message = "THINKING_START", "THINKING_TEXT_MESSAGE_START"
	switch {
	case !w.has(span, ""):
		w.emit(span, "title", w.maybe(2, "t"))
		w.opens(span, "")
	case !w.has(message, ""):
		if w.in(2) {
			w.emit(message)
			w.opens(message, "")
		} else {
			w.emit("THINKING_END")
			w.closes(span, "")
		}
	case w.in(3):
		w.emit("THINKING_TEXT_MESSAGE_END")
		w.closes(message, "")
	default:
		w.emit("THINKING_TEXT_MESSAGE_CONTENT", "delta", w.text())
	}
}

func (w *writer) encrypted() {
	w.emit(agui.TypeReasoningEncryptedValue, "subtype", pick(w.Rand, "tool-call", "message"), "entityId", w.id(), "encryptedValue", w.text())
}

func (w *writer) aside() {
	switch w.IntN(3) {
	case 0:
		w.emit(agui.TypeRaw, "event", w.anything(1), "source", w.maybe(2, "s"))
	case 1:
		w.emit(agui.TypeCustom, "name", "n", "value", w.anything(1))
	case 2:
		w.emit("UNKNOWN", "messageId", w.anything(1))
	}
}

func (w *writer) step() {
	const start = agui.TypeStepStarted
	if id, ok := w.takes(start); ok && w.in(2) {
		w.emit(agui.TypeStepFinished, "stepName", id)
		w.closes(start, id)
	} else if id, ok := w.fresh(start); ok {
		w.emit(start, "stepName", id)
		w.opens(start, id)
	}
}

func (w *writer) subagent() {
	const start = agui.TypeSubagentStarted
	if id, ok := w.takes(start); ok && w.in(2) {
		if w.in(3) {
			w.emit(agui.TypeSubagentError, "subagentRunId", id, "message", "m", "code", w.maybe(2, "c"))
		} else {
			outcome := pick(w.Rand, object("type", "success"), object("type", "zz"),
				object("type", "suspended", "interruptIds", []value{jsonvalue.NewString("i")}))
			w.emit(agui.TypeSubagentFinished, "subagentRunId", id, "outcome", w.maybe(2, outcome), "result", w.maybe(4, w.anything(1)))
		}
		w.closes(start, id)
		w.closed = append(w.closed, id)
		return
	}
	id := pick(w.Rand, "s", "u", "", "v")
	if w.has(start, id) || slices.Contains(w.closed, id) && !w.in(60) {
		return
	}
	var parent any
	if known := slices.Concat(w.open[start], w.closed); len(known) > 0 && w.in(3) {
		parent = known[w.IntN(len(known))]
	}
	w.emit(start, "subagentRunId", id, "name", "n", "description", w.maybe(5, "d"), "parentSubagentRunId", parent,
		"parentToolCallId", w.maybe(5, w.id()), "parentMessageId", w.maybe(5, w.id()))
	w.opens(start, id)
}

// end ends the run, mostly in order.
func (w *writer) end() {
	if w.in(2) {
		return
	}
	w.running = false
	if w.in(4) {
		w.emit(agui.TypeRunError, "message", "m", "code", w.maybe(2, "c"), "usage", w.maybe(4, w.usage()))
		return
	}
	if !w.in(25) {
		for _, closing := range endings {
			for _, id := range w.open[closing.of] {
				w.emit(closing.by, closing.id, id)
			}
		}
	}
	var outcome any
	switch w.IntN(6) {
	case 0:
		outcome = object("type", "success", "pendingToolCallIds", w.maybe(2, []value{jsonvalue.NewString("q")}))
	case 1, 2:
		outcome = object("type", "interrupt", "interrupts", []value{object("id", w.id(), "reason", w.text(),
			"message", w.maybe(3, w.text()), "toolCallId", w.maybe(3, w.id()), "expiresAt", w.maybe(3, "soon"), "zz", w.maybe(9, "z"),
			"metadata", w.maybe(3, w.object(2)), "responseSchema", w.maybe(3, w.object(2)), "subagentRunId", w.maybe(5, "s"))})
	case 3:
		outcome = object("type", "cancelled")
	case 4:
		outcome = w.maybe(3, object("type", "paused"))
	}
	w.emit(agui.TypeRunFinished, "threadId", "t", "runId", "r1", "outcome", outcome,
		"result", w.maybe(5, w.anything(1)), "usage", w.maybe(5, w.usage()))
	if w.in(12) {
		w.emit(agui.TypeRunError, "message", "m")
	}
}

// endings are what closes what is open, and by which member it is named.
var endings = []struct {
	of, by agui.Type
	id     string
}{
	{agui.TypeTextMessageStart, agui.TypeTextMessageEnd, "messageId"},
	{agui.TypeToolCallStart, agui.TypeToolCallEnd, "toolCallId"},
	{agui.TypeReasoningMessageStart, agui.TypeReasoningMessageEnd, "messageId"},
	{agui.TypeReasoningStart, agui.TypeReasoningEnd, "messageId"},
	{"THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_END", "zz"},
	{"THINKING_START", "THINKING_END", "zz"},
	{agui.TypeStepStarted, agui.TypeStepFinished, "stepName"},
	{agui.TypeSubagentStarted, agui.TypeSubagentFinished, "subagentRunId"},
}

func (w *writer) usage() []value {
	return []value{object("model", "m", "inputTokens", w.maybe(2, pick(w.Rand, w.number(), jsonvalue.NewInt(7))), "zz", w.maybe(9, "z"))}
}

// joined is the lines of a stream, for files.
func (s stream) joined() string { return strings.Join(s, "\n") + "\n" }
