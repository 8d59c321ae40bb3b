package agui

import (
	"bytes"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// Bounds of what groups hold. They count what merging does not change, so that
// a stream that has been merged is cut at the same places again.
const (
	groupText     = 1 << 20  // bytes of the text of a group
	groupEnvelope = 64 << 10 // bytes of the rest of an event
	groupsSize    = 4 << 20  // bytes of the text of all groups and of what stands between them
	groupsOpen    = 256
)

// textDelta is an event that carries text, with its text as it stands there.
type textDelta struct {
	kind     Type
	id       []byte // unescaped; nil: a chunk without one
	tag      []byte // unescaped; nil: none
	from, to int    // where the text stands in the event, without its quotes
	body     []byte // the text
	metadata []byte // as it is written; nil: none
	extra    [chunkMembers][]byte
	// fits: it may be merged with others.
	fits bool
}

// What chunks may say beside their text, in the order of textDelta.extra.
const (
	extraRole = iota
	extraName
	extraCallName
	extraParent
	chunkMembers
)

// group is several deltas that are one, or one event of another kind.
type group struct {
	kind     Type // "": event is one that stands between groups
	id, tag  Opt[string]
	event    []byte // up to the end of the text
	rest     []byte // behind it
	text     int    // bytes of text
	metadata []byte
	extra    [chunkMembers][]byte
}

// groups holds deltas of which none concerns what another one does, and events
// that concern none of them: text may move forward past all of them. There is at
// most one group of chunks, and then no other.
type groups struct {
	maxText, maxEnvelope int

	list   []*group // in the order of their first events
	open   int      // how many are of deltas
	byID   map[target]*group
	last   *group
	size   int  // bytes, see groupsSize
	odd    bool // there is one whose id may be another name of a message
	chunks bool
	idBuf  []byte
	tagBuf []byte
}

// target is what a delta changes: to the official client a text and a reasoning
// message of one id are one message.
type target struct {
	call bool
	id   string
}

func newGroups(limits CompactLimits) groups {
	return groups{
		maxText:     min(groupText, limits.EventBytes/2),
		maxEnvelope: min(groupEnvelope, limits.EventBytes/2),
		byID:        make(map[target]*group),
	}
}

// grow adds a delta to the group it goes on with. It returns false if there is
// none.
func (g *groups) grow(d *textDelta) bool {
	to := g.last
	if to == nil || !to.goesOn(d) {
		if g.chunks || d.id == nil || g.open < 2 {
			return false
		}
		to = g.byID[target{d.kind == TypeToolCallArgs, string(d.id)}]
		if to == nil || !to.goesOn(d) {
			return false
		}
	}
	if to.text+len(d.body) > g.maxText || g.size+len(d.body) > groupsSize {
		return false
	}
	to.event = append(to.event, d.body...)
	to.text += len(d.body)
	g.size += len(d.body)
	g.last = to
	return true
}

// goesOn reports whether a delta does nothing but add text to the group's
// event.
func (g *group) goesOn(d *textDelta) bool {
	if g.kind != d.kind || !sameText(g.id, d.id) || !sameText(g.tag, d.tag) ||
		d.metadata != nil && !bytes.Equal(d.metadata, g.metadata) {
		return false
	}
	if !isChunk(d.kind) {
		return true
	}
	for i, said := range d.extra {
		// What a chunk that names its stream leaves out is as the first one said.
		if !(said == nil && d.id != nil) && !(bytes.Equal(said, g.extra[i]) && (said == nil) == (g.extra[i] == nil)) {
			return false
		}
	}
	return true
}

func sameText(a Opt[string], b []byte) bool {
	return a.Set == (b != nil) && a.V == string(b)
}

// canJoin reports whether a delta that opens a group may stand beside those
// there are.
func (g *groups) canJoin(d *textDelta) bool {
	if len(g.list) == 0 {
		return true
	}
	if g.chunks || g.odd || isOdd(d) || g.open == groupsOpen || g.size+len(d.body) > groupsSize {
		return false
	}
	return g.byID[target{d.kind == TypeToolCallArgs, string(d.id)}] == nil
}

// isOdd reports whether a delta names what may have another name too: in a view
// the message of a kind whose id was taken is called <id>~<kind>, and found
// under both (fold-rules R7).
func isOdd(d *textDelta) bool {
	return d.kind != TypeToolCallArgs && bytes.IndexByte(d.id, '~') >= 0
}

// keep takes an event that is to stand behind the groups there are. It returns
// false if there are none, or if it is too large.
func (g *groups) keep(line []byte) bool {
	// An event costs memory however short it is.
	size := len(line) + 64
	if g.open == 0 || g.size+size > groupsSize {
		return false
	}
	g.list = append(g.list, &group{event: bytes.Clone(line)})
	g.size += size
	return true
}

// begin begins a group. The line stays as it is.
func (g *groups) begin(line []byte, d *textDelta) {
	n := &group{
		kind:     d.kind,
		event:    append(make([]byte, 0, 2*len(line)+256), line[:d.to]...),
		rest:     bytes.Clone(line[d.to:]),
		text:     len(d.body),
		metadata: bytes.Clone(d.metadata),
	}
	if d.id != nil {
		n.id = Some(string(d.id))
	}
	if d.tag != nil {
		n.tag = Some(string(d.tag))
	}
	for i, said := range d.extra {
		n.extra[i] = bytes.Clone(said)
	}
	g.list = append(g.list, n)
	g.last = n
	g.open++
	g.size += len(d.body)
	if isChunk(d.kind) {
		g.chunks = true
		return
	}
	g.odd = g.odd || isOdd(d)
	g.byID[target{d.kind == TypeToolCallArgs, n.id.V}] = n
}

// flush appends the events of all groups, in the order of their first deltas.
func (g *groups) flush(out [][]byte) [][]byte {
	if len(g.list) == 0 {
		return out
	}
	for i, n := range g.list {
		out = append(out, append(n.event, n.rest...))
		g.list[i] = nil
	}
	clear(g.byID)
	g.list, g.last, g.open, g.size, g.odd, g.chunks = g.list[:0], nil, 0, 0, false, false
	return out
}

// The members of an event that carries text beside those of a [Delta].
const (
	seenTimestamp = isCall << (1 + iota)
	seenRole      // what chunks say begins here, in the order of textDelta.extra
	seenName
	seenCallName
	seenParent
)

// scan reads an event that carries text and is as most are, without building a
// value. It returns false for any other, and for one with anything unusual about
// it. What it returns is valid until the next call, as long as line is.
func (g *groups) scan(line []byte) (d textDelta, ok bool) {
	s := scanner{raw: line}
	if !s.past('{') {
		return d, false
	}
	call := false // its id is a toolCallId
	for seen := 0; ; {
		member := s.textMember()
		if member == 0 || seen&(member&^isCall) != 0 || !s.past(':') || !g.member(&s, member&^isCall, &d) {
			return d, false
		}
		call = call || member&isCall != 0
		seen |= member &^ isCall
		if s.past(',') {
			continue
		}
		if !s.past('}') || s.at < len(line) {
			return d, false
		}
		return d, d.usual(seen, call)
	}
}

// member reads the value of a member.
func (g *groups) member(s *scanner, member int, d *textDelta) (ok bool) {
	switch member {
	case seenType:
		d.kind = s.textType()
		return d.kind != ""
	case seenTimestamp:
		return s.digits()
	}
	from := s.at
	value, ok := s.quoted()
	if !ok {
		return false
	}
	switch member {
	case seenID:
		d.id, ok = unescaped(value, &g.idBuf)
	case seenTag:
		d.tag, ok = unescaped(value, &g.tagBuf)
	case seenDelta:
		d.from, d.to = from+1, from+len(value.raw)-1
		d.body = s.raw[d.from:d.to]
		ok = value.plain || isText(d.body)
	default:
		for i := range d.extra {
			if member == seenRole<<i {
				d.extra[i] = value.raw
			}
		}
		ok = value.plain
	}
	return ok
}

// textMember reads the name of a member, 0 if it is none of those.
func (s *scanner) textMember() int {
	if member := s.memberName(); member != 0 {
		return member
	}
	switch {
	case s.literal(`"timestamp"`):
		return seenTimestamp
	case s.literal(`"role"`):
		return seenRole
	case s.literal(`"name"`):
		return seenName
	case s.literal(`"toolCallName"`):
		return seenCallName
	case s.literal(`"parentMessageId"`):
		return seenParent
	}
	return 0
}

// textType reads a type whose events carry text, "" if it is none.
func (s *scanner) textType() Type {
	if kind := s.deltaType(); kind != "" {
		return kind
	}
	switch {
	case s.literal(`"` + string(TypeTextMessageChunk) + `"`):
		return TypeTextMessageChunk
	case s.literal(`"` + string(TypeToolCallChunk) + `"`):
		return TypeToolCallChunk
	case s.literal(`"` + string(TypeReasoningMessageChunk) + `"`):
		return TypeReasoningMessageChunk
	}
	return ""
}

// usual reports whether a delta that was scanned has what its type wants, and
// nothing that it does not know.
func (d *textDelta) usual(seen int, call bool) bool {
	ofCall := d.kind == TypeToolCallArgs || d.kind == TypeToolCallChunk
	if seen&(seenType|seenDelta) != seenType|seenDelta || seen&seenID != 0 && call != ofCall {
		return false
	}
	switch d.kind {
	case TypeTextMessageChunk:
		return seen&(seenCallName|seenParent) == 0
	case TypeToolCallChunk:
		return seen&(seenRole|seenName) == 0
	case TypeReasoningMessageChunk:
		return seen < seenRole
	}
	return seen&seenID != 0 && seen < seenRole
}

// digits reads an integer that any reader takes for one, with the white space
// behind it.
func (s *scanner) digits() bool {
	from := s.at
	for s.at < len(s.raw) && '0' <= s.raw[s.at] && s.raw[s.at] <= '9' {
		s.at++
	}
	n := s.at - from
	if n == 0 || n > 15 || n > 1 && s.raw[from] == '0' {
		return false
	}
	s.skip()
	return true
}

// unescaped is the text of a string, in buf if it had escapes. It is never nil.
func unescaped(p piece, buf *[]byte) ([]byte, bool) {
	if p.plain {
		return p.raw[1 : len(p.raw)-1], true
	}
	out, ok := jsonvalue.AppendText((*buf)[:0], p.raw)
	if out == nil {
		out = []byte{}
	}
	*buf = out
	return out, ok
}

// isText reports whether the escapes of a text are whole.
func isText(text []byte) bool {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			return true
		}
		text = text[at+1:]
		if len(text) == 0 {
			return false
		}
		switch text[0] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			text = text[1:]
		case 'u':
			if len(text) < 5 {
				return false
			}
			if _, ok := hex4(text[1:5]); !ok {
				return false
			}
			text = text[5:]
		default:
			return false
		}
	}
}

// describeDelta is a delta with members that scan does not read, or the first of
// a group. e is the event and h its header.
func describeDelta(line []byte, e *Event, h *Header) textDelta {
	d := textDelta{kind: e.Type}
	s := scanner{raw: line}
	s.space()
	// The event has been decoded: it is an object.
	_ = s.object(1, func(key, value []byte) error {
		from, to := s.at-len(value), s.at
		switch string(key) {
		case "delta":
			d.from, d.to = from+1, to-1
		case "metadata":
			d.metadata = value
		case "role":
			d.extra[extraRole] = value
		case "name":
			d.extra[extraName] = value
		case "toolCallName":
			d.extra[extraCallName] = value
		case "parentMessageId":
			d.extra[extraParent] = value
		}
		return nil
	})
	if !e.Delta.Set || d.from == 0 {
		return d
	}
	d.body = line[d.from:d.to]
	ids := e.MessageID
	if e.Type == TypeToolCallArgs || e.Type == TypeToolCallChunk {
		ids = e.ToolCallID
	}
	if ids.Set {
		d.id = []byte(ids.V)
	}
	if e.SubagentRunID.Set {
		d.tag = []byte(e.SubagentRunID.V)
	}
	d.fits = namesNothingElse(e, h)
	return d
}

// namesNothingElse reports whether the ids of an event that decide on its run
// are those that its type has.
func namesNothingElse(e *Event, h *Header) bool {
	return h.RunID == nil && h.ParentRunID == nil && h.ThreadID == nil && h.StepName == nil &&
		(h.MessageID == nil || e.MessageID.Set) &&
		(h.ToolCallID == nil || e.ToolCallID.Set) &&
		(h.ParentMessageID == nil || e.ParentMessageID.Set)
}

// within reports whether a delta is small enough to be held.
func (g *groups) within(line []byte, d *textDelta) bool {
	return len(d.body) <= g.maxText && len(line)-len(d.body) <= g.maxEnvelope
}
