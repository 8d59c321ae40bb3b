package fold

import "github.com/agstore/agstore/agui"

// Most records by far are pieces of text for what is open, with nothing to be
// said about them. quick folds those without decoding them first. It does only
// what [durable.event] would do as well, and leaves alone, for that to do, what
// is out of the ordinary in any way: then it returns false.
func (d *durable) quick(rec Record) bool {
	var p agui.Delta
	if len(rec.Raw) > d.limits.EventBytes || !d.decoder.Delta(rec.Raw, &p) {
		return false
	}
	if d.recent == nil || d.recent.Key != rec.Run {
		if d.recent = d.byKey[rec.Run]; d.recent == nil {
			return false
		}
	}
	if r := d.recent; r.EndSeq != 0 || r.overtaken != 0 || len(r.streams) > 0 {
		return false
	}
	if !d.quickly(&p) {
		return false
	}
	d.seq = rec.Seq
	return true
}

// quickly appends the delta to what it names, if that is open.
func (d *durable) quickly(p *agui.Delta) bool {
	k := kindText
	switch p.Type {
	case agui.TypeToolCallArgs:
		return d.quickArguments(p)
	case agui.TypeReasoningMessageContent:
		k = kindReasoning
	}
	m := d.transcript.findBytes(k, p.ID)
	if m == nil || m.open == nil || m.content.kind != agui.TextContent {
		return false
	}
	m.content.text.AppendBytes(p.Text)
	m.shown = nil
	return true
}

func (d *durable) quickArguments(p *agui.Delta) bool {
	s := d.transcript.calls[string(p.ID)]
	if s == nil {
		return false
	}
	c := s.all[len(s.all)-1]
	if c.open == nil || c.again {
		return false
	}
	c.arguments.AppendBytes(p.Text)
	c.changed()
	return true
}
