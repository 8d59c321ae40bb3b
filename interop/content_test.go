package interop

import (
	"strconv"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// snapshot is what the thread is said to be.
func (w *writer) snapshot() {
	var metadata any
	if w.in(4) {
		metadata = object("@ag-ui/client", pick(w.Rand, object(), jsonvalue.NewNull(), w.anything(1),
			object("authoritativeActivityTypes", pick(w.Rand, jsonvalue.NewNull(), jsonvalue.NewList(), w.anything(1),
				jsonvalue.NewList(jsonvalue.NewString("P")), jsonvalue.NewList(jsonvalue.NewString("P"), jsonvalue.NewInt(1))))))
	}
	w.emit(agui.TypeMessagesSnapshot, "messages", w.messages(5), "metadata", metadata)
}

func (w *writer) messages(most int) []value {
	var out []value
	for range w.IntN(most) {
		out = append(out, w.message())
	}
	return out
}

func (w *writer) message() value {
	role := pick(w.Rand, "user", "assistant", "assistant", "system", "developer", "tool", "activity", "reasoning")
	if w.in(40) {
		role = pick(w.Rand, "robot", "", "User")
	}
	m := object("id", w.id(), "role", role, "subagentRunId", w.maybe(6, pick(w.Rand, "s", "u", "")),
		"metadata", w.maybe(5, w.object(2)), "zz", w.maybe(40, "z"), "encryptedValue", w.maybe(6, w.text()))
	var content any = w.text()
	switch role {
	case "activity":
		m = with(with(m, "encryptedValue", value{}), "activityType", jsonvalue.NewString(pick(w.Rand, "P", "Q")))
		content = w.object(2)
	case "tool":
		m = with(m, "toolCallId", jsonvalue.NewString(w.id()))
		if w.in(5) {
			m = with(m, "error", jsonvalue.NewString(w.text()))
		}
		fallthrough
	case "user":
		if w.in(2) {
			content = w.parts()
		}
	case "assistant":
		if w.in(4) {
			return w.withCalls(m)
		}
		if w.in(3) {
			m = w.withCalls(m)
		}
	}
	if role != "tool" && role != "activity" && role != "reasoning" && w.in(6) {
		m = with(m, "name", jsonvalue.NewString(w.text()))
	}
	switch c := content.(type) {
	case string:
		return with(m, "content", jsonvalue.NewString(c))
	case []value:
		return with(m, "content", jsonvalue.NewList(c...))
	}
	return with(m, "content", content.(value))
}

func (w *writer) withCalls(m value) value {
	var calls []value
	for range w.IntN(3) {
		calls = append(calls, object("id", w.id(), "type", "function", "encryptedValue", w.maybe(6, "E"), "metadata", w.maybe(6, w.object(1)),
			"function", object("name", pick(w.Rand, "f", "g"), "arguments", w.text(), "zz", w.maybe(40, "z"))))
	}
	return with(m, "toolCalls", jsonvalue.NewList(calls...))
}

// parts are the parts of a multimodal content, those of 0.x among them.
func (w *writer) parts() []value {
	mime := func() any { return pick(w.Rand, "image/png", "audio/ogg", "video/mp4", "text/plain") }
	var out []value
	for range w.IntN(4) {
		kind := pick(w.Rand, "text", "text", "image", "audio", "video", "document", "binary", "binary", "smell")
		p := object("type", kind, "id", w.maybe(9, w.id()), "metadata", w.maybe(6, pick(w.Rand, object("filename", "f"), w.anything(1))), "zz", w.maybe(40, "z"))
		switch kind {
		case "text":
			p = with(p, "text", jsonvalue.NewString(w.text()))
		case "binary":
			p = object("type", kind, "mimeType", mime(), "data", w.maybe(2, pick(w.Rand, "D", "u", "")),
				"url", w.maybe(2, pick(w.Rand, "u", "D", "")), "filename", w.maybe(3, pick(w.Rand, "f", "")), "id", w.maybe(4, "i"))
		case "smell":
		default:
			source := object("type", pick(w.Rand, "data", "url", "file"), "value", pick(w.Rand, "D", "u"), "mimeType", mime(), "zz", w.maybe(40, "z"))
			if w.in(20) {
				source = with(source, "type", jsonvalue.NewString("tape"))
			}
			p = with(p, "source", source)
		}
		out = append(out, p)
	}
	return out
}

// patch makes a patch of a document, and lets it change the document.
func (w *writer) patch(d *jsonvalue.Document) []value {
	var out []value
	for range 1 + w.IntN(3) {
		kind := pick(w.Rand, "add", "add", "add", "replace", "remove", "move", "copy", "test")
		if w.in(40) {
			kind = pick(w.Rand, "increment", "", "Add")
		}
		op := jsonvalue.Op{Kind: jsonvalue.OpKind(kind), Path: w.pointer(d.Snapshot(), kind == "add" || kind == "move" || kind == "copy")}
		o := object("op", kind, "path", op.Path)
		switch op.Kind {
		case jsonvalue.Add, jsonvalue.Replace, jsonvalue.Test:
			op.Value = w.anything(2)
			if there := d.Snapshot().Resolve(op.Path); kind == "test" && there.Present() && !w.in(4) {
				op.Value = there
			}
			o = with(o, "value", op.Value)
		case jsonvalue.Move, jsonvalue.Copy:
			op.From = w.pointer(d.Snapshot(), false)
			o = with(o, "from", jsonvalue.NewString(op.From))
		}
		if w.in(30) {
			o = with(o, pick(w.Rand, "extra", "from", "value"), w.anything(1))
		}
		out = append(out, o)
		// If it fails, the rest is made for what the document would have been: a patch that fails in its middle.
		_ = d.Patch([]jsonvalue.Op{op}, jsonvalue.PatchLimits{})
	}
	return out
}

// pointer leads to something in the document, or, if fresh, to where something may be added; sometimes nowhere.
func (w *writer) pointer(doc value, fresh bool) string {
	var out strings.Builder
	for depth := 0; depth < 4; depth++ {
		if w.in(4) && (depth > 0 || w.in(6)) {
			break
		}
		if doc.Len() == 0 && depth > 0 && !fresh && !w.in(8) {
			break
		}
		token := w.token(doc, fresh)
		out.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
		switch doc.Kind() {
		case jsonvalue.Object:
			doc = doc.Get(token)
		case jsonvalue.List:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= doc.Len() {
				return out.String()
			}
			doc = doc.At(i)
		}
		if !doc.Present() && !w.in(8) {
			break
		}
	}
	return out.String()
}

func (w *writer) token(doc value, fresh bool) string {
	switch {
	case w.in(25):
		return pick(w.Rand, "01", "", "-", "00", "4294967296", "2147483648", "length", "7", "toString", "constructor", "prototype", "__proto__", "map", "-1", "1e0", " 1")
	case doc.Kind() == jsonvalue.List && fresh && w.in(2):
		return pick(w.Rand, "-", strconv.Itoa(doc.Len()), strconv.Itoa(doc.Len()+1))
	case doc.Kind() == jsonvalue.List:
		return strconv.Itoa(w.IntN(doc.Len() + 1))
	case doc.Kind() == jsonvalue.Object && doc.Len() > 0 && !(fresh && w.in(2)):
		at := w.IntN(doc.Len())
		for name := range doc.Members() {
			if at--; at < 0 {
				return name
			}
		}
	}
	return w.key()
}
