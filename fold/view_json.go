package fold

import (
	"strconv"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// AppendJSON appends the view as one JSON object: the members run, status, seq
// and so on under the names of its fields, lists even where they are empty, and
// state only if it was ever set.
func (v *View) AppendJSON(dst []byte) []byte {
	w := writer{out: append(dst, '{')}
	if v.Thread != "" {
		w.text("thread", v.Thread)
	}
	w.number("seq", v.Seq)
	if !v.Run.IsZero() {
		w.run("run", v.Run)
		w.text("status", v.Status.String())
	}
	listOf(&w, "runs", v.Runs, (*Run).write)
	w.name("messages")
	w.out = append(w.out, '[')
	for i := range v.Messages {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = v.Messages[i].AppendJSON(w.out)
	}
	w.out = append(w.out, ']')
	if v.State != nil {
		w.name("state")
		w.out = append(w.out, v.State...)
	}
	listOf(&w, "pendingInterrupts", v.PendingInterrupts, (*Interrupt).writePending)
	listOf(&w, "interruptHistory", v.InterruptHistory, (*Interrupt).writeHistory)
	w.texts("pendingToolCalls", v.PendingToolCalls)
	listOf(&w, "legacyInterrupts", v.LegacyInterrupts, (*LegacyInterrupt).write)
	listOf(&w, "subagents", v.Subagents, (*Subagent).write)
	listOf(&w, "steps", v.Steps, (*Step).write)
	listOf(&w, "custom", v.Custom, (*Custom).write)
	listOf(&w, "opaqueReasoning", v.OpaqueReasoning, (*OpaqueReasoning).write)
	w.name("usage")
	w.out = append(w.out, '[')
	for i := range v.Usage {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = v.Usage[i].JSON().AppendJSON(w.out)
	}
	w.out = append(w.out, ']')
	listOf(&w, "diagnostics", v.Diagnostics, (*Diagnostic).write)
	return append(w.out, '}')
}

// MarshalJSON is AppendJSON for encoding/json.
func (v *View) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

func (r *Run) write(w *writer) {
	w.text("run", r.Key.ID)
	w.number("attempt", uint64(r.Key.Attempt))
	w.text("status", r.Status.String())
	w.number("firstSeq", r.FirstSeq)
	if r.EndSeq != 0 {
		w.number("endSeq", r.EndSeq)
	}
	w.opt("error", r.Error)
	w.opt("code", r.Code)
	w.value("result", r.Result)
}

func (in *Interrupt) writePending(w *writer) {
	w.membersOf(in.JSON())
	w.run("run", in.Run)
	w.number("seq", in.Seq)
	w.text("status", string(in.Status))
	if in.Expired {
		w.bool("expired", true)
	}
}

func (in *Interrupt) writeHistory(w *writer) {
	w.membersOf(in.JSON())
	w.run("run", in.Run)
	w.number("seq", in.Seq)
	w.text("status", string(in.Status))
	w.bool("answered", in.Answered)
	listOf(w, "answers", in.Answers, (*Answer).write)
}

func (a *Answer) write(w *writer) {
	w.run("run", a.Run)
	w.number("seq", a.Seq)
	w.text("status", a.Status)
	w.value("payload", a.Payload)
	w.value("metadata", a.Metadata)
}

func (l *LegacyInterrupt) write(w *writer) {
	w.run("run", l.Run)
	w.number("seq", l.Seq)
	w.value("value", l.Value)
}

func (s *Subagent) write(w *writer) {
	w.run("run", s.Run)
	w.text("subagentRunId", s.SubagentRunID)
	w.text("name", s.Name)
	w.opt("description", s.Description)
	w.opt("parentSubagentRunId", s.ParentSubagentRunID)
	w.opt("parentToolCallId", s.ParentToolCallID)
	w.opt("parentMessageId", s.ParentMessageID)
	w.text("status", string(s.Status))
	if s.InterruptIDs != nil {
		w.texts("interruptIds", s.InterruptIDs)
	}
	w.value("result", s.Result)
	w.opt("error", s.Error)
	w.opt("code", s.Code)
	w.span(s.Seq, s.EndSeq)
}

func (s *Step) write(w *writer) {
	w.run("run", s.Run)
	w.text("stepName", s.StepName)
	w.opt("subagentRunId", s.SubagentRunID)
	w.text("status", string(s.Status))
	w.span(s.Seq, s.EndSeq)
}

func (c *Custom) write(w *writer) {
	w.text("type", string(c.Type))
	if c.Type == agui.TypeCustom {
		w.text("name", c.Name)
		w.value("value", c.Value)
	} else {
		w.value("event", c.Event)
		w.opt("source", c.Source)
	}
	if !c.Run.IsZero() {
		w.run("run", c.Run)
	}
	w.number("seq", c.Seq)
	w.opt("openMessage", c.OpenMessage)
}

func (o *OpaqueReasoning) write(w *writer) {
	w.text("id", o.ID)
	w.text("subtype", o.Subtype)
	w.text("value", o.Value)
	w.run("run", o.Run)
	w.number("seq", o.Seq)
	w.opt("after", o.After)
}

func (d *Diagnostic) write(w *writer) {
	w.number("seq", d.Seq)
	w.text("rule", d.Rule)
	w.membersOf(d.Detail)
}

// writer writes the members of one object after the other.
type writer struct {
	out []byte
}

func (w *writer) name(name string) {
	if last := w.out[len(w.out)-1]; last != '{' {
		w.out = append(w.out, ',')
	}
	w.out = append(jsonvalue.AppendString(w.out, name), ':')
}

func (w *writer) text(name, s string) {
	w.name(name)
	w.out = jsonvalue.AppendString(w.out, s)
}

func (w *writer) opt(name string, s agui.Opt[string]) {
	if s.Set {
		w.text(name, s.V)
	}
}

func (w *writer) number(name string, n uint64) {
	w.name(name)
	w.out = strconv.AppendUint(w.out, n, 10)
}

func (w *writer) bool(name string, b bool) {
	w.name(name)
	w.out = strconv.AppendBool(w.out, b)
}

func (w *writer) value(name string, v agui.Value) {
	if v.Present() {
		w.name(name)
		w.out = v.AppendJSON(w.out)
	}
}

func (w *writer) texts(name string, list []string) {
	w.name(name)
	w.out = append(w.out, '[')
	for i, s := range list {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = jsonvalue.AppendString(w.out, s)
	}
	w.out = append(w.out, ']')
}

// run writes a run's id, and its attempt from the second on.
func (w *writer) run(name string, k agui.RunKey) {
	w.text(name, k.ID)
	if k.Attempt > 1 {
		w.number("attempt", uint64(k.Attempt))
	}
}

func (w *writer) span(from, to uint64) {
	w.number("seq", from)
	if to != 0 {
		w.number("endSeq", to)
	}
}

// membersOf writes the members of an object into the current one.
func (w *writer) membersOf(v agui.Value) {
	for name, item := range v.Members() {
		w.value(name, item)
	}
}

func listOf[T any](w *writer, name string, list []T, one func(*T, *writer)) {
	w.name(name)
	w.out = append(w.out, '[')
	for i := range list {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, '{')
		one(&list[i], w)
		w.out = append(w.out, '}')
	}
	w.out = append(w.out, ']')
}
