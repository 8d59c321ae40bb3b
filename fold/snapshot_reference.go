package fold

import (
	"errors"
	"slices"

	"github.com/agstore/agstore/agui"
)

const referenceFields = 18

func (r *reference) save(w *snapshotWriter) {
	w.list(referenceFields)
	w.number(int(Reference))
	w.uint(r.seq)
	w.number(r.at)
	w.number(r.applied)
	w.streamError(r.failed)
	writeList(w, r.warnings, (*snapshotWriter).warning)
	w.number(r.minted)
	w.opt(r.thinking.Span)
	w.opt(r.thinking.Message)
	writeList(w, r.expander.Open(), (*snapshotWriter).chunkStream)
	if r.noVerify {
		w.null()
	} else {
		w.verifier(r.verifier.State())
	}
	w.entries(&r.transcript)
	w.bool(r.transcript.twice)
	w.document(&r.state)
	writeList(w, r.pending, (*snapshotWriter).pendingInterrupt)
	w.keyOf(r.asked, -1)
	w.uint(r.askedAt)
	writeList(w, r.runs, (*snapshotWriter).referenceRun)
}

func restoreReference(r *snapshotReader, opts Options) *reference {
	to := newReference(opts)
	r.fields(referenceFields)
	r.check(r.uint() == uint64(Reference), "of another profile")
	to.seq, to.at, to.applied = r.uint(), r.int(), r.int()
	to.failed = r.streamError()
	to.warnings = readList(r, warningFields, (*snapshotReader).warning)
	to.minted = r.int()
	to.thinking = agui.Thinking{Span: r.opt(), Message: r.opt()}
	if err := to.expander.Restore(readList(r, chunkStreamFields, (*snapshotReader).chunkStream)); err != nil {
		r.fail(err.Error())
	}
	if r.isNull() {
		r.check(opts.NoVerify, "of a fold that verifies nothing")
	} else {
		r.check(!opts.NoVerify, "of a fold that verifies")
		r.verifier(&to.verifier)
	}
	r.entries(&to.transcript)
	to.transcript.twice = r.bool() || to.transcript.twice
	to.state.Set(r.value())
	to.pending = readList(r, interruptFields, (*snapshotReader).interrupt)
	to.asked, to.askedAt = r.runKey(nil), r.uint()
	to.runs = readList(r, runFields, (*snapshotReader).run)
	return to
}

// referenceRun is a run as an element of a list.
func (w *snapshotWriter) referenceRun(run *Run) {
	w.list(runFields)
	w.run(run)
}

// pendingInterrupt is an interrupt as an element of a list.
func (w *snapshotWriter) pendingInterrupt(in *agui.Interrupt) {
	w.list(interruptFields)
	w.interrupt(in)
}

const (
	errorFields = 9
	// The kinds of errors that end a stream.
	errorInvalid   = 0 // an agui.InvalidEventError
	errorMalformed = 1 // an agui.MalformedError
	errorChunk     = 2 // an agui.ChunkError
	errorViolation = 3 // an agui.Violation
)

// streamError writes what has ended the stream: nil, or place, stage, kind, and
// the members that errors of the kinds have, empty where one has none.
func (w *snapshotWriter) streamError(e *StreamError) {
	if e == nil {
		w.null()
		return
	}
	w.list(errorFields)
	w.number(e.At)
	w.text(string(e.Stage))
	fields := func(kind int, t agui.Type, rule, id, reason string, offset int) {
		w.number(kind)
		w.text(string(t))
		w.text(rule)
		w.text(id)
		w.text(reason)
		w.number(offset)
		if kind != errorViolation {
			w.null()
		}
	}
	var invalid *agui.InvalidEventError
	var malformed *agui.MalformedError
	var chunk *agui.ChunkError
	var violation *agui.Violation
	switch {
	case errors.As(e.Err, &malformed):
		fields(errorMalformed, malformed.Type, malformed.Field, "", malformed.Reason, 0)
	case errors.As(e.Err, &chunk):
		fields(errorChunk, chunk.Type, chunk.Rule, "", chunk.Reason, 0)
	case errors.As(e.Err, &violation):
		fields(errorViolation, violation.Type, violation.Rule, violation.ID, violation.Reason, 0)
		w.violation(violation)
	case errors.As(e.Err, &invalid):
		fields(errorInvalid, "", "", "", invalid.Reason, invalid.Offset)
	default:
		fields(errorInvalid, "", "", "", e.Err.Error(), 0)
	}
}

func (r *snapshotReader) streamError() *StreamError {
	if r.isNull() {
		return nil
	}
	r.fields(errorFields)
	e := &StreamError{At: r.int(), Stage: Stage(r.text())}
	kind, t, rule, id, reason, offset := r.number(errorViolation), agui.Type(r.text()), r.text(), r.text(), r.text(), r.int()
	switch kind {
	case errorMalformed:
		e.Err = &agui.MalformedError{Type: t, Field: rule, Reason: reason}
	case errorChunk:
		e.Err = &agui.ChunkError{Type: t, Rule: rule, Reason: reason}
	case errorViolation:
		v := &agui.Violation{Type: t, Rule: rule, ID: id, Reason: reason}
		r.violation(v)
		e.Err = v
		return e
	default:
		e.Err = &agui.InvalidEventError{Offset: offset, Reason: reason}
	}
	r.check(r.isNull(), "of an error with more fields")
	return e
}

const violationFields = 4

// violation writes what a violation has beside what other errors have.
func (w *snapshotWriter) violation(v *agui.Violation) {
	w.list(violationFields)
	w.uint(v.Seq)
	w.text(string(v.Kind))
	writeList(w, v.Others, (*snapshotWriter).entity)
	w.text(v.Expected)
}

func (r *snapshotReader) violation(v *agui.Violation) {
	r.fields(violationFields)
	v.Seq, v.Kind = r.uint(), agui.EntityKind(r.text())
	v.Others = readList(r, pairFields, (*snapshotReader).entity)
	v.Expected = r.text()
}

func (w *snapshotWriter) entity(e *agui.Entity) {
	w.list(pairFields)
	w.text(string(e.Kind))
	w.text(e.ID)
}

func (r *snapshotReader) entity(e *agui.Entity) {
	e.Kind, e.ID = agui.EntityKind(r.text()), r.text()
}

const warningFields = 3

func (w *snapshotWriter) warning(warning *Warning) {
	w.list(warningFields)
	w.number(warning.At)
	w.text(string(warning.Stage))
	w.text(warning.Code)
}

func (r *snapshotReader) warning(warning *Warning) {
	*warning = Warning{At: r.int(), Stage: Stage(r.text()), Code: r.text()}
}

const chunkStreamFields = 7

func (w *snapshotWriter) chunkStream(s *agui.ChunkStream) {
	w.list(chunkStreamFields)
	w.number(slices.Index(chunkTypes[:], s.Kind))
	w.opt(s.Owner)
	w.text(s.ID)
	w.opt(s.Role)
	w.opt(s.Name)
	w.opt(s.ToolCallName)
	w.opt(s.ParentID)
}

func (r *snapshotReader) chunkStream(s *agui.ChunkStream) {
	s.Kind = chunkTypes[r.number(len(chunkTypes)-1)]
	s.Owner, s.ID, s.Role, s.Name, s.ToolCallName, s.ParentID = r.opt(), r.text(), r.opt(), r.opt(), r.opt(), r.opt()
}

const verifierFields = 13

// verifier writes the phase, the run, six lists of ids, the open steps, and four lists of
// ids with their owners.
func (w *snapshotWriter) verifier(s agui.VerifierState) {
	w.list(verifierFields)
	w.number(s.Phase)
	w.opt(s.Run)
	for _, ids := range [...][]string{s.Texts, s.Calls, s.Reasonings, s.Spans, s.Active, s.Closed} {
		w.texts(ids)
	}
	writeList(w, s.Steps, (*snapshotWriter).stepID)
	for _, owners := range [...][]agui.Ownership{s.Messages, s.ToolCalls, s.Activities, s.ReasoningIDs} {
		writeList(w, owners, (*snapshotWriter).ownership)
	}
}

func (r *snapshotReader) verifier(to *agui.Verifier) {
	var s agui.VerifierState
	r.fields(verifierFields)
	s.Phase, s.Run = r.int(), r.opt()
	for _, ids := range [...]*[]string{&s.Texts, &s.Calls, &s.Reasonings, &s.Spans, &s.Active, &s.Closed} {
		*ids = r.texts()
	}
	s.Steps = readList(r, pairFields, (*snapshotReader).stepID)
	for _, owners := range [...]*[]agui.Ownership{&s.Messages, &s.ToolCalls, &s.Activities, &s.ReasoningIDs} {
		*owners = readList(r, pairFields, (*snapshotReader).ownership)
	}
	v, err := agui.RestoreVerifier(s)
	if err != nil {
		r.fail(err.Error())
		return
	}
	*to = *v
}

// pairFields are a name and whose it is.
const pairFields = 2

func (w *snapshotWriter) pair(name string, owner agui.Opt[string]) {
	w.list(pairFields)
	w.text(name)
	w.opt(owner)
}

func (w *snapshotWriter) stepID(s *agui.StepID)       { w.pair(s.Name, s.Owner) }
func (r *snapshotReader) stepID(s *agui.StepID)       { s.Name, s.Owner = r.text(), r.opt() }
func (w *snapshotWriter) ownership(o *agui.Ownership) { w.pair(o.ID, o.Owner) }
func (r *snapshotReader) ownership(o *agui.Ownership) { o.ID, o.Owner = r.text(), r.opt() }

// entries writes the places of the list: a message, or the number of one that
// an earlier place holds as well (R-MSNAP-4).
func (w *snapshotWriter) entries(t *refTranscript) {
	numbers := make(map[*refMessage]int)
	w.list(t.length)
	for at := t.first; at != nil; at = at.next {
		// Only a message that may be there twice needs to be looked for.
		if t.twice {
			if n, known := numbers[at.message]; known {
				w.number(n)
				continue
			}
			numbers[at.message] = len(numbers)
		}
		w.refMessage(at.message)
	}
}

func (r *snapshotReader) entries(t *refTranscript) {
	var messages []*refMessage
	n := r.list(1)
	t.byID = make(map[string]*refEntry, min(n, r.in.Len()/refMessageFields))
	for range n {
		if r.err != nil {
			return
		}
		if !isNumber(field(r, r.dec.PeekCode)) {
			m := r.refMessage()
			messages = append(messages, m)
			t.append(m)
		} else if n, ok := r.index(len(messages)); ok {
			t.append(messages[n])
		}
	}
}

const refMessageFields = 12

func (w *snapshotWriter) refMessage(m *refMessage) {
	w.list(refMessageFields)
	w.text(m.id)
	w.text(string(m.role))
	text := ""
	if m.kind == agui.TextContent {
		text = m.text.String()
	}
	w.content(m.kind, text, m.parts, m.object)
	w.opt(m.name)
	writeList(w, m.calls, (*snapshotWriter).refCall)
	w.bool(m.hasCalls)
	w.opt(m.toolCallID)
	w.opt(m.failure)
	w.opt(m.activityType)
	w.opt(m.encrypted)
	w.opt(m.owner)
	w.document(m.metadata)
}

func (r *snapshotReader) refMessage() *refMessage {
	r.fields(refMessageFields)
	m := &refMessage{id: r.text(), role: r.role()}
	var c content
	r.content(&c)
	m.kind, m.text, m.parts, m.object = c.kind, &c.text, c.parts, c.object
	m.name = r.opt()
	for range r.list(refCallFields + 1) {
		m.calls = append(m.calls, r.refCall())
	}
	m.hasCalls = r.bool()
	m.toolCallID, m.failure, m.activityType, m.encrypted, m.owner = r.opt(), r.opt(), r.opt(), r.opt(), r.opt()
	m.metadata = r.document()
	r.check((m.role == agui.RoleActivity) == (m.kind == agui.ObjectContent), "a message with the content of another kind")
	return m
}

const refCallFields = 5

func (w *snapshotWriter) refCall(c **refCall) {
	w.list(refCallFields)
	w.text((*c).id)
	w.text((*c).name)
	w.text((*c).arguments.String())
	w.opt((*c).encrypted)
	w.document((*c).metadata)
}

func (r *snapshotReader) refCall() *refCall {
	r.fields(refCallFields)
	return &refCall{id: r.text(), name: r.text(), arguments: r.growing(), encrypted: r.opt(), metadata: r.document()}
}
