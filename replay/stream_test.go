package replay_test

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/fold"
)

// conversation makes up a stream of several runs that the official client takes
// to its end.
func conversation(t *rapid.T) []string {
	w := &talk{t: t, open: map[string][]string{}}
	w.say(`{"type":"RUN_STARTED","threadId":"t","runId":"r0","input":{"threadId":"t","runId":"r0","messages":[{"id":"u0","role":"user","content":"Hi"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}}`)
	w.running = true
	for range rapid.IntRange(1, 45).Draw(t, "moves") {
		if !w.running {
			w.start()
			continue
		}
		moves := []func(){
			w.text, w.text, w.text, w.call, w.call, w.reasoning, w.textChunk, w.textChunk, w.callChunk, w.callChunk, w.reasoningChunk,
			w.state, w.patch, w.messages, w.activity, w.encrypted, w.aside, w.step, w.subagent, w.thinking, w.end,
		}
		rapid.SampledFrom(moves).Draw(t, "move")()
	}
	return w.lines
}

// talk writes one.
type talk struct {
	t       *rapid.T
	lines   []string
	running bool
	runs    int
	next    int
	open    map[string][]string
	pending []string
}

// say adds a line, unless the client would refuse it.
func (w *talk) say(format string, args ...any) bool {
	line := fmt.Sprintf(format, args...)
	if asClient(append(slices.Clip(w.lines), line)).Reference.Error != nil {
		return false
	}
	w.lines = append(w.lines, line)
	return true
}

func (w *talk) n(limit int) int { return rapid.IntRange(0, limit-1).Draw(w.t, "n") }

func (w *talk) fresh(kind string) string {
	w.next++
	return fmt.Sprintf("%s%d", kind, w.next)
}

// delta is text as JSON; some pieces are halves of characters.
func (w *talk) delta() string {
	return rapid.SampledFrom([]string{`"a"`, `"some words"`, `"{\"q\":"`, `"1}"`, `"\ud83c"`, `"\udf89"`, `"🎉"`, `"\u0000"`, `"\"\\"`}).Draw(w.t, "delta")
}

func (w *talk) tag() string {
	if subs := w.open["subagent"]; len(subs) > 0 && w.n(3) == 0 {
		return fmt.Sprintf(`,"subagentRunId":%q`, subs[w.n(len(subs))])
	}
	return ""
}

func (w *talk) metadata() string {
	if w.n(4) > 0 {
		return ""
	}
	return fmt.Sprintf(`,"metadata":{"k%d":%d}`, w.n(2), w.n(5))
}

// take picks something open of a kind, or nothing.
func (w *talk) take(kind string) (string, bool) {
	list := w.open[kind]
	if len(list) == 0 || w.n(4) == 0 {
		return "", false
	}
	return list[w.n(len(list))], true
}

func (w *talk) closes(kind, id string) {
	w.open[kind] = slices.DeleteFunc(w.open[kind], func(o string) bool { return o == id })
}

func (w *talk) text() {
	id, ok := w.take("text")
	switch {
	case !ok:
		id = w.fresh("m")
		if w.say(`{"type":"TEXT_MESSAGE_START","messageId":%q,"role":"assistant"%s%s}`, id, w.tag(), w.metadata()) {
			w.open["text"] = append(w.open["text"], id)
		}
	case w.n(4) == 0:
		if w.say(`{"type":"TEXT_MESSAGE_END","messageId":%q}`, id) {
			w.closes("text", id)
		}
	default:
		w.say(`{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":%s%s}`, id, w.delta(), w.metadata())
	}
}

func (w *talk) call() {
	id, ok := w.take("call")
	switch {
	case !ok:
		id = w.fresh("c")
		parent := w.tag()
		if parent == "" && w.n(2) == 0 {
			parent = fmt.Sprintf(`,"parentMessageId":"m%d"`, 1+w.n(w.next))
		}
		if w.say(`{"type":"TOOL_CALL_START","toolCallId":%q,"toolCallName":"f"%s%s}`, id, parent, w.metadata()) {
			w.open["call"] = append(w.open["call"], id)
		}
	case w.n(3) == 0:
		if w.say(`{"type":"TOOL_CALL_END","toolCallId":%q}`, id) {
			w.closes("call", id)
			if w.n(3) > 0 {
				w.say(`{"type":"TOOL_CALL_RESULT","messageId":%q,"toolCallId":%q,"content":%s}`, w.fresh("t"), id, w.delta())
			}
		}
	default:
		w.say(`{"type":"TOOL_CALL_ARGS","toolCallId":%q,"delta":%s}`, id, w.delta())
	}
}

func (w *talk) reasoning() {
	if len(w.open["span"]) == 0 && w.n(2) == 0 {
		id := w.fresh("s")
		if w.say(`{"type":"REASONING_START","messageId":%q}`, id) {
			w.open["span"] = append(w.open["span"], id)
		}
		return
	}
	if id, ok := w.take("span"); ok && w.n(3) == 0 && w.say(`{"type":"REASONING_END","messageId":%q}`, id) {
		w.closes("span", id)
		return
	}
	id, ok := w.take("reasoning")
	switch {
	case !ok:
		id = w.fresh("r")
		if w.say(`{"type":"REASONING_MESSAGE_START","messageId":%q,"role":"reasoning"}`, id) {
			w.open["reasoning"] = append(w.open["reasoning"], id)
		}
	case w.n(4) == 0:
		if w.say(`{"type":"REASONING_MESSAGE_END","messageId":%q}`, id) {
			w.closes("reasoning", id)
		}
	default:
		w.say(`{"type":"REASONING_MESSAGE_CONTENT","messageId":%q,"delta":%s}`, id, w.delta())
	}
}

func (w *talk) chunk(kind, id, first string) {
	delta := ""
	if w.n(5) > 0 {
		delta = `,"delta":` + w.delta()
	}
	name := "messageId"
	if kind == "TOOL_CALL_CHUNK" {
		name = "toolCallId"
	}
	switch w.n(3) {
	case 0:
		w.say(`{"type":%q,%q:%q%s%s%s}`, kind, name, w.fresh(id), first, w.tag(), delta)
	case 1:
		w.say(`{"type":%q,%q:"%s%d"%s%s}`, kind, name, id, w.next, first, delta)
	default:
		w.say(`{"type":%q%s}`, kind, delta)
	}
}

func (w *talk) textChunk()      { w.chunk("TEXT_MESSAGE_CHUNK", "mc", "") }
func (w *talk) callChunk()      { w.chunk("TOOL_CALL_CHUNK", "cc", `,"toolCallName":"g"`) }
func (w *talk) reasoningChunk() { w.chunk("REASONING_MESSAGE_CHUNK", "rc", "") }

func (w *talk) json() string {
	return rapid.SampledFrom([]string{`{}`, `{"n":1.0}`, `{"a":[1,2],"n":9007199254740993}`, `{"a":{"b":null}}`}).Draw(w.t, "json")
}

func (w *talk) state() {
	w.say(`{"type":"STATE_SNAPSHOT","snapshot":%s}`, w.json())
}

func (w *talk) patch() {
	w.say(`{"type":"STATE_DELTA","delta":[%s]}`, rapid.SampledFrom([]string{
		`{"op":"add","path":"/x","value":1.50}`, `{"op":"replace","path":"/n","value":"\ud83c"}`, `{"op":"remove","path":"/a"}`, `{"op":"add","path":"/a/-","value":3}`,
	}).Draw(w.t, "patch"))
}

// messages repeats what the client has, with some left out, as agents do.
func (w *talk) messages() {
	if w.n(3) > 0 {
		return
	}
	var list []string
	view := asClient(w.lines)
	for i := range view.Messages {
		// An agent knows nothing of ids that the client makes up.
		if w.n(6) > 0 && !strings.HasPrefix(view.Messages[i].ID, madeUp) {
			list = append(list, string(view.Messages[i].AppendJSON(nil)))
		}
	}
	if w.n(2) == 0 {
		list = append(list, fmt.Sprintf(`{"id":%q,"role":"assistant","content":"new"}`, w.fresh("m")))
	}
	w.say(`{"type":"MESSAGES_SNAPSHOT","messages":[%s]}`, strings.Join(list, ","))
}

func (w *talk) activity() {
	if w.n(2) == 0 {
		w.say(`{"type":"ACTIVITY_SNAPSHOT","messageId":"act%d","activityType":"P","content":%s,"replace":%t}`, w.n(3), w.json(), w.n(2) == 0)
		return
	}
	w.say(`{"type":"ACTIVITY_DELTA","messageId":"act%d","activityType":"P","patch":[{"op":"add","path":"/k","value":%d}]}`, w.n(3), w.n(9))
}

func (w *talk) encrypted() {
	w.say(`{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"r%d","encryptedValue":"e"}`, w.n(w.next+1))
}

func (w *talk) aside() {
	w.say("%s", rapid.SampledFrom([]string{`{"type":"CUSTOM","name":"n","value":1}`, `{"type":"RAW","event":{}}`, `{"type":"SOMETHING"}`}).Draw(w.t, "aside"))
}

func (w *talk) step() {
	if id, ok := w.take("step"); ok {
		if w.say(`{"type":"STEP_FINISHED","stepName":%q}`, id) {
			w.closes("step", id)
		}
		return
	}
	if id := w.fresh("step"); w.say(`{"type":"STEP_STARTED","stepName":%q}`, id) {
		w.open["step"] = append(w.open["step"], id)
	}
}

func (w *talk) subagent() {
	if id, ok := w.take("subagent"); ok && w.n(2) == 0 {
		if w.say(`{"type":"SUBAGENT_FINISHED","subagentRunId":%q}`, id) {
			w.closes("subagent", id)
			w.open["ended"] = append(w.open["ended"], id)
		}
		return
	}
	parent := ""
	if known := slices.Concat(w.open["subagent"], w.open["ended"]); len(known) > 0 && w.n(2) == 0 {
		parent = fmt.Sprintf(`,"parentSubagentRunId":%q`, known[w.n(len(known))])
	}
	if id := w.fresh("sub"); w.say(`{"type":"SUBAGENT_STARTED","subagentRunId":%q,"name":"n"%s}`, id, parent) {
		w.open["subagent"] = append(w.open["subagent"], id)
	}
}

// thinking is the reasoning of 0.x.
func (w *talk) thinking() {
	if w.n(3) > 0 {
		return
	}
	if len(w.open["thinking"]) == 0 {
		if w.say(`{"type":"THINKING_START"}`) && w.say(`{"type":"THINKING_TEXT_MESSAGE_START"}`) {
			w.open["thinking"] = []string{"x"}
		}
		return
	}
	w.say(`{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":%s}`, w.delta())
	if w.n(2) == 0 && w.say(`{"type":"THINKING_TEXT_MESSAGE_END"}`) && w.say(`{"type":"THINKING_END"}`) {
		w.open["thinking"] = nil
	}
}

func (w *talk) end() {
	if w.n(2) == 0 {
		return
	}
	if w.n(5) == 0 {
		if w.say(`{"type":"RUN_ERROR","message":"m","code":"c"}`) {
			w.over()
		}
		return
	}
	for _, closing := range []struct{ kind, event, id string }{
		{"text", "TEXT_MESSAGE_END", "messageId"}, {"call", "TOOL_CALL_END", "toolCallId"}, {"reasoning", "REASONING_MESSAGE_END", "messageId"},
		{"span", "REASONING_END", "messageId"}, {"step", "STEP_FINISHED", "stepName"}, {"subagent", "SUBAGENT_FINISHED", "subagentRunId"},
	} {
		for _, id := range w.open[closing.kind] {
			w.say(`{"type":%q,%q:%q}`, closing.event, closing.id, id)
		}
	}
	if len(w.open["thinking"]) > 0 {
		w.say(`{"type":"THINKING_TEXT_MESSAGE_END"}`)
		w.say(`{"type":"THINKING_END"}`)
	}
	outcome, pending := "", []string(nil)
	if w.n(3) == 0 {
		id := w.fresh("i")
		outcome = fmt.Sprintf(`,"outcome":{"type":"interrupt","interrupts":[{"id":%q,"reason":"ask","message":"Sure?","metadata":{"n":1.0}}]}`, id)
		pending = []string{id}
	}
	if w.say(`{"type":"RUN_FINISHED","threadId":"t","runId":"r%d"%s}`, w.runs, outcome) {
		w.pending = pending
		w.over()
	}
}

func (w *talk) over() { w.running, w.open = false, map[string][]string{} }

// start begins the next run, which answers what is pending, mostly.
func (w *talk) start() {
	w.runs++
	resume := ""
	for _, id := range w.pending {
		if w.n(4) == 0 {
			continue
		}
		if resume != "" {
			resume += ","
		}
		resume += fmt.Sprintf(`{"interruptId":%q,"status":"resolved","payload":true}`, id)
	}
	w.running = w.say(`{"type":"RUN_STARTED","threadId":"t","runId":"r%[1]d","input":{"threadId":"t","runId":"r%[1]d","messages":[{"id":"u%[1]d","role":"user","content":"more"}],"tools":[],"context":[],"forwardedProps":{},"resume":[%[2]s]}}`, w.runs, resume)
}

// madeUp begins the ids that the profile Reference makes up (agui.MintedID).
const madeUp = "00000000-0000-4000-8000-"

// shown is what a client has, as text. Ids of THINKING_* messages, which each
// reader makes up, are left out, and where such messages stand is not.
func shown(v *fold.View) string {
	var out, thinking strings.Builder
	for _, m := range v.Messages {
		to := &out
		if strings.Contains(m.ID, "-thinking-") || strings.HasPrefix(m.ID, madeUp) {
			m.ID, to = "thinking", &thinking
		}
		to.Write(m.AppendJSON(nil))
		to.WriteByte('\n')
	}
	out.WriteString(thinking.String())
	state := string(v.State)
	if state == "" {
		state = "{}" // never set; a client has one from its birth
	}
	fmt.Fprintf(&out, "state %s\n", state)
	for i := range v.PendingInterrupts {
		fmt.Fprintf(&out, "pending %s\n", v.PendingInterrupts[i].JSON().AppendJSON(nil))
	}
	return out.String()
}
