package fold

import (
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// This file has what the snapshots of both profiles are made of. Of each type,
// the function that writes it stands before the one that reads it; the number of
// its fields is in readList or fields.

// A content is nil, a text, a list of parts, or the bytes of an object.

func (w *snapshotWriter) content(kind agui.ContentKind, text string, parts []agui.Part, object *jsonvalue.Document) {
	switch kind {
	case agui.TextContent:
		w.text(text)
	case agui.PartsContent:
		writeList(w, parts, (*snapshotWriter).part)
	case agui.ObjectContent:
		w.json = object.AppendJSON(w.json[:0])
		w.bytes(w.json)
	default:
		w.null()
	}
}

// content reads into what is empty.
func (r *snapshotReader) content(to *content) {
	if r.isNull() {
		return
	}
	switch code := field(r, r.dec.PeekCode); {
	case msgpcode.IsString(code):
		to.kind = agui.TextContent
		to.text.AppendBytes(r.must())
	case msgpcode.IsBin(code):
		to.kind, to.object = agui.ObjectContent, jsonvalue.NewDocument(r.value())
	default:
		to.kind, to.parts = agui.PartsContent, readList(r, partFields, (*snapshotReader).part)
	}
}

const partFields = 5

func (w *snapshotWriter) part(p *agui.Part) {
	w.list(partFields)
	w.text(p.Type)
	w.opt(p.Text)
	if s := p.Source; s == nil {
		w.null()
	} else {
		w.list(sourceFields)
		w.text(s.Type)
		w.text(s.Value)
		w.opt(s.MimeType)
		w.opt(s.Provider)
	}
	w.opt(p.ID)
	w.value(p.Metadata)
}

const sourceFields = 4

func (r *snapshotReader) part(p *agui.Part) {
	p.Type, p.Text = r.text(), r.opt()
	if !r.isNull() {
		r.fields(sourceFields)
		p.Source = &agui.Source{Type: r.text(), Value: r.text(), MimeType: r.opt(), Provider: r.opt()}
	}
	p.ID, p.Metadata = r.opt(), r.value()
}

// interruptFields are those that AG-UI gives an interrupt.
const interruptFields = 8

func (w *snapshotWriter) interrupt(in *agui.Interrupt) {
	w.text(in.ID)
	w.text(in.Reason)
	w.opt(in.Message)
	w.opt(in.ToolCallID)
	w.value(in.ResponseSchema)
	w.opt(in.ExpiresAt)
	w.opt(in.SubagentRunID)
	w.value(in.Metadata)
}

func (r *snapshotReader) interrupt(in *agui.Interrupt) {
	in.ID, in.Reason, in.Message, in.ToolCallID = r.text(), r.text(), r.opt(), r.opt()
	in.ResponseSchema, in.ExpiresAt, in.SubagentRunID, in.Metadata = r.value(), r.opt(), r.opt(), r.value()
}

// runFields are those of a Run.
const runFields = 8

func (w *snapshotWriter) run(run *Run) {
	w.text(run.Key.ID)
	w.number(run.Key.Attempt)
	w.number(int(run.Status))
	w.uint(run.FirstSeq)
	w.uint(run.EndSeq)
	w.opt(run.Error)
	w.opt(run.Code)
	w.value(run.Result)
}

func (r *snapshotReader) run(run *Run) {
	run.Key = agui.RunKey{ID: r.text(), Attempt: r.int()}
	run.Status = agui.RunStatus(r.number(int(agui.RunAbandoned)))
	run.FirstSeq, run.EndSeq = r.uint(), r.uint()
	run.Error, run.Code, run.Result = r.opt(), r.opt(), r.value()
	r.check(run.Key.Attempt > 0, "a run without an attempt")
}

// A run that something belongs to is nil, the number of one of the fold's runs,
// or a list of its id and attempt.

// keyOf writes a run that has this number; -1: none.
func (w *snapshotWriter) keyOf(k agui.RunKey, number int) {
	switch {
	case k.IsZero():
		w.null()
	case number >= 0:
		w.number(number)
	default:
		w.list(2)
		w.text(k.ID)
		w.number(k.Attempt)
	}
}

func (r *snapshotReader) runKey(runs []*run) agui.RunKey {
	if r.isNull() {
		return agui.RunKey{}
	}
	if isNumber(field(r, r.dec.PeekCode)) {
		if n, ok := r.index(len(runs)); ok {
			return runs[n].Key
		}
		return agui.RunKey{}
	}
	r.fields(2)
	return agui.RunKey{ID: r.text(), Attempt: r.int()}
}
