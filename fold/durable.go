package fold

import (
	"errors"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// durable is the profile Durable. It finds whatever an event concerns by its
// id, never by a search: what an event costs does not depend on how long the
// transcript is, but for the first MESSAGES_SNAPSHOT, which arranges it.
type durable struct {
	decoder agui.Decoder
	limits  Limits
	seq     uint64
	raw     []byte     // the current record's event
	current agui.Event // the same decoded: its memory is used again

	transcript transcript
	state      *jsonvalue.Document
	stateJSON  []byte // the state as text; nil: it has changed

	runs   []*run
	calm   []*run // the running runs that no other has overtaken, or that have said so; others may have ended
	byKey  map[agui.RunKey]*run
	pieces pieces

	interrupts []*interrupt          // all, as they were first asked
	pending    []*interrupt          // and answered ones
	answered   int                   // so many of pending
	latest     map[string]*interrupt // by id
	// changedInterrupts are the numbers of those that have changed since the last
	// Changes.
	changedInterrupts []int
	legacy            []LegacyInterrupt

	subagents []*Subagent
	steps     []*Step
	usage     []agui.Usage
	usageAt   map[usageKey]int // the places in usage

	// These only grow, so views share them.
	custom      []Custom
	opaque      []OpaqueReasoning
	diagnostics []Diagnostic

	saved *saved // what the last Changes said; nil: nobody has asked
}

func newDurable(opts Options) *durable {
	return &durable{
		decoder:    agui.Decoder{Lenient: true, Nesting: opts.Limits.Nesting},
		limits:     opts.Limits,
		transcript: newTranscript(),
		state:      new(jsonvalue.Document),
		byKey:      make(map[agui.RunKey]*run),
		latest:     make(map[string]*interrupt),
	}
}

// diagnose adds a diagnostic about the current record. members are names and
// values, in turn; values are texts or ints, and an absent text is left out.
func (d *durable) diagnose(rule string, members ...any) { d.diagnoseAt(d.seq, rule, members...) }

func (d *durable) diagnoseAt(seq uint64, rule string, members ...any) {
	var detail []jsonvalue.Member
	for i := 0; i+1 < len(members); i += 2 {
		var v agui.Value
		switch m := members[i+1].(type) {
		case string:
			v = jsonvalue.NewString(strings.Clone(m))
		case agui.Opt[string]:
			if m.Set {
				v = jsonvalue.NewString(strings.Clone(m.V))
			}
		case int:
			v = jsonvalue.NewInt(int64(m))
		}
		detail = append(detail, jsonvalue.Member{Name: members[i].(string), Value: v})
	}
	found := Diagnostic{Seq: seq, Rule: rule}
	if len(detail) > 0 {
		found.Detail = jsonvalue.NewObject(detail...)
	}
	d.diagnostics = append(d.diagnostics, found)
}

func (d *durable) apply(r Record) {
	if d.piece(r) {
		return
	}
	d.settle()
	d.pieces.latest = target{}
	d.seq, d.raw = r.Seq, r.Raw
	defer func() { d.raw = nil }()
	e := &d.current
	if len(r.Raw) > d.limits.EventBytes {
		d.diagnose("over_limit", "bytes", len(r.Raw), "limit", d.limits.EventBytes)
		var h agui.Header
		if agui.ReadHeader(r.Raw, &h) == nil && isFrame(h.Type) {
			*e = agui.Event{Type: h.Type}
			d.event(r, e)
		}
		return
	}
	if err := d.decoder.Decode(r.Raw, e); err != nil && !d.malformed(e, err) {
		return
	}
	d.report(e)
	slim(e)
	d.event(r, e)
}

// malformed reports an event that could not be decoded, and whether it counts
// all the same: the frame of a run must not be lost (R4).
func (d *durable) malformed(e *agui.Event, err error) bool {
	shape, ok := errors.AsType[*agui.MalformedError](err)
	if !ok {
		d.diagnose("invalid_line", "reason", err.Error())
		return false
	}
	d.diagnose("malformed_event", "type", string(e.Type), "field", shape.Field, "reason", shape.Reason)
	return isFrame(e.Type)
}

// isFrame reports whether a run begins or ends with an event of this type.
func isFrame(t agui.Type) bool { return t == agui.TypeRunStarted || t.Terminal() }

// report makes diagnostics of what the decoder left out of an event. Members
// that AG-UI does not describe are none (R31).
func (d *durable) report(e *agui.Event) {
	for _, n := range e.Notes {
		switch n.Code {
		case agui.NoteEventDropped:
			d.diagnose("unknown_event", "type", string(e.Type))
		case agui.NoteMalformedPart:
			d.diagnose("malformed_part", "path", n.Path)
		case agui.NoteRemoved:
			switch {
			case isElement(n.Path, "/delta/"), isElement(n.Path, "/patch/"):
				d.diagnose("unknown_operation", "path", n.Path)
			case n.Path == "/outcome":
				d.diagnose("unknown_outcome", "outcome", e.UnknownOutcome)
			case isElement(n.Path, "/messages/"), isElement(n.Path, "/input/messages/"):
				d.diagnose("unknown_role", "path", n.Path)
			case isPart(n.Path):
				d.diagnose("unknown_part", "path", n.Path)
			}
		case agui.NoteBinary:
			d.diagnose("malformed_part", "path", n.Path)
		}
	}
}

// isElement reports whether path is that of an element of the list at prefix,
// not of something inside one.
func isElement(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && !strings.Contains(rest, "/")
}

// isPart reports whether path is that of an element of a message's content.
func isPart(path string) bool {
	at := strings.LastIndex(path, "/content/")
	return at >= 0 && isElement(path[at:], "/content/")
}

// event applies a decoded event: here to no run, or to the frame of one.
func (d *durable) event(r Record, e *agui.Event) {
	if !e.Type.Known() {
		return
	}
	in := d.byKey[r.Run]
	if e.Type == agui.TypeRunStarted && !r.Run.IsZero() {
		if in == nil && !r.Echo {
			d.startRun(r, e)
		} else {
			d.echo(in, e)
		}
		return
	}
	if in == nil || in.EndSeq != 0 {
		d.late(r, in, e)
		return
	}
	d.overlapping(in)
	if e.Type.Terminal() {
		d.sameIDs(in, e)
		d.endRun(in, r, e)
		return
	}
	d.inRun(in, e)
}

// late is for events outside any run (R3). Only CUSTOM and RAW leave
// something, in the list of them (R32).
func (d *durable) late(r Record, in *run, e *agui.Event) {
	switch {
	case e.Type == agui.TypeRunError && in == nil:
		d.diagnose("thread_error", "message", e.Message, "code", e.Code)
	case e.Type.Terminal() && in != nil:
		d.diagnose("second_terminal", "type", string(e.Type), "run", in.Key.String())
	default:
		d.diagnose("late_event", "type", string(e.Type))
	}
	if e.Type == agui.TypeCustom || e.Type == agui.TypeRaw {
		d.keepCustom(r.Run, nil, e)
	}
}

// inRun applies an event that belongs to a running run.
func (d *durable) inRun(r *run, e *agui.Event) {
	var open agui.Opt[string]
	if e.Type == agui.TypeCustom || e.Type == agui.TypeRaw {
		open = r.openMessage() // before a CUSTOM closes a stream of chunks
	}
	if e.Legacy != "" && !d.nameThinking(r, e) {
		return
	}
	d.closeForEvent(r, e)
	switch e.Type {
	case agui.TypeTextMessageStart:
		d.startText(r, kindText, e)
	case agui.TypeTextMessageContent:
		d.addText(kindText, e)
	case agui.TypeTextMessageEnd:
		d.endText(kindText, e)
	case agui.TypeReasoningMessageStart:
		d.startText(r, kindReasoning, e)
	case agui.TypeReasoningMessageContent:
		d.addText(kindReasoning, e)
	case agui.TypeReasoningMessageEnd:
		d.endText(kindReasoning, e)
	case agui.TypeTextMessageChunk, agui.TypeToolCallChunk, agui.TypeReasoningMessageChunk:
		d.chunk(r, e)
	case agui.TypeToolCallStart:
		d.startCall(r, e)
	case agui.TypeToolCallArgs:
		d.addArguments(e)
	case agui.TypeToolCallEnd:
		d.endCall(e)
	case agui.TypeToolCallResult:
		d.result(r, e)
	case agui.TypeStateSnapshot:
		d.setState(e.Snapshot)
	case agui.TypeStateDelta:
		d.patchState(e)
	case agui.TypeMessagesSnapshot:
		d.snapshot(e)
	case agui.TypeActivitySnapshot:
		d.setActivity(e)
	case agui.TypeActivityDelta:
		d.patchActivity(e)
	case agui.TypeReasoningEncryptedValue:
		d.encrypted(r, e)
	case agui.TypeStepStarted:
		d.startStep(r, e)
	case agui.TypeStepFinished:
		d.finishStep(r, e)
	case agui.TypeSubagentStarted:
		d.startSubagent(r, e)
	case agui.TypeSubagentFinished, agui.TypeSubagentError:
		d.finishSubagent(r, e)
	case agui.TypeCustom, agui.TypeRaw:
		d.keepCustom(r.Key, &open, e)
		if e.Type == agui.TypeCustom && e.Name.V == "on_interrupt" && r == d.runs[len(d.runs)-1] {
			d.legacy = append(d.legacy, LegacyInterrupt{Run: r.Key, Seq: d.seq, Value: e.Value})
		}
	}
}

func (d *durable) keepCustom(run agui.RunKey, open *agui.Opt[string], e *agui.Event) {
	c := Custom{Type: e.Type, Name: strings.Clone(e.Name.V), Value: e.Value, Event: e.Event, Source: kept(e.Source), Run: run, Seq: d.seq}
	if open != nil {
		c.OpenMessage = *open
	}
	d.custom = append(d.custom, c)
}
