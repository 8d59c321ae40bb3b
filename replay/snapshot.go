package replay

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/projection"
)

// Opening is a stream of AG-UI events that brings a client that holds nothing to
// where a view is. If a run is live there, the records of that run behind Seq
// continue the stream: what is open is open in the client too.
type Opening struct {
	Events [][]byte
	Seq    uint64      // of the view
	Run    agui.RunKey // the view's; the zero key: there was none yet, and there are no Events
	Live   bool        // Run had not ended
}

// Snapshot makes the opening of a thread's view, of the profile Durable. Its
// Events are a legal stream, as many as there are open things and not as the
// history has events:
//
//	RUN_STARTED, MESSAGES_SNAPSHOT, STATE_SNAPSHOT   of the run that ended last
//	RUN_FINISHED or RUN_ERROR                        as it ended, with the interrupts that are pending
//	RUN_STARTED                                      of the live run
//	TEXT_MESSAGE_START and so on                     for each message, call, step … that it has open
//
// Without a run that has ended the snapshots stand in the live one, and without a
// state there is no STATE_SNAPSHOT. Read for it are the live run's records and
// the end of the run before. Errors: those of reading.
func Snapshot(ctx context.Context, log projection.Source, thread eventlog.ThreadKey, view *fold.View) (Opening, error) {
	o := Opening{Seq: view.Seq, Run: view.Run, Live: view.Status == agui.RunRunning}
	if view.Run.IsZero() {
		return Opening{Seq: view.Seq}, nil
	}
	s := opener{view: view, thread: thread.Thread}
	live := &openParts{starts: make(map[openID]agui.Event), steps: make(map[agui.StepID][]byte)}
	if o.Live {
		first := runOf(view, view.Run).FirstSeq
		records := log.Read(ctx, thread, eventlog.ReadOptions{From: first, To: view.Seq, Lineage: &view.Run})
		if err := live.read(records, view.Run); err != nil {
			return Opening{}, err
		}
	}
	s.held = live.thinkingMessage(view)
	ended, err := s.lastEnd(ctx, log, thread)
	if err != nil {
		return Opening{}, err
	}
	if ended.run != nil {
		s.past(ended)
	}
	if o.Live {
		s.start(view.Run)
		if ended.run == nil {
			s.snapshots()
		}
		s.events = append(s.events, live.events(s.held)...)
	}
	o.Events = s.events
	return o, nil
}

func runOf(view *fold.View, key agui.RunKey) *fold.Run {
	i := slices.IndexFunc(view.Runs, func(r fold.Run) bool { return r.Key == key })
	if i < 0 {
		return &fold.Run{Key: key}
	}
	return &view.Runs[i]
}

// opener writes the events of an opening.
type opener struct {
	view   *fold.View
	thread string
	held   *agui.Message // not in the snapshot: it is opened behind it
	events [][]byte
}

// runEnd is how the run that ended last did: its terminal event, nil if that is
// no longer there.
type runEnd struct {
	run   *fold.Run
	event []byte
}

// lastEnd finds the run that ended last.
func (s *opener) lastEnd(ctx context.Context, log projection.Source, thread eventlog.ThreadKey) (runEnd, error) {
	var out runEnd
	for i := range s.view.Runs {
		if r := &s.view.Runs[i]; r.EndSeq != 0 && (out.run == nil || r.EndSeq > out.run.EndSeq || r.Key == s.view.Run) {
			out.run = r
			if r.Key == s.view.Run {
				break // the head: what its parents said behind its end is older news
			}
		}
	}
	if out.run == nil {
		return out, nil
	}
	for r, err := range log.Read(ctx, thread, eventlog.ReadOptions{From: out.run.EndSeq, To: out.run.EndSeq}) {
		if errors.Is(err, eventlog.ErrGap) {
			continue
		}
		if err != nil {
			return out, err
		}
		out.event = r.Event
	}
	return out, nil
}

// past writes what has been: the snapshots, and behind them an end after which
// those interrupts are pending that are so in the view.
func (s *opener) past(ended runEnd) {
	pending := s.view.PendingInterrupts
	e, err := agui.Decode(ended.event)
	failed := err == nil && e.Type == agui.TypeRunError
	s.start(ended.run.Key)
	s.snapshots()
	switch {
	case failed && len(pending) == 0, err == nil && !failed && sameInterrupts(e.Outcome, pending):
		s.events = append(s.events, ended.event)
		return
	}
	s.finish(ended.run.Key, pending)
	if failed && ended.run.Key == s.view.Run {
		// A failure leaves what is pending as it is.
		s.start(ended.run.Key)
		s.events = append(s.events, ended.event)
	}
}

func sameInterrupts(outcome *agui.Outcome, pending []fold.Interrupt) bool {
	var raised []agui.Interrupt
	if outcome != nil {
		raised = outcome.Interrupts
	}
	return slices.EqualFunc(raised, pending, func(a agui.Interrupt, b fold.Interrupt) bool {
		return string(a.JSON().AppendJSON(nil)) == string(b.JSON().AppendJSON(nil))
	})
}

// of begins an event of a run.
func (s *opener) of(t agui.Type, run agui.RunKey) []byte {
	out := append(append([]byte(`{"type":"`), t...), `","threadId":`...)
	out = append(append(out, agui.Quote(s.thread)...), `,"runId":`...)
	return append(out, agui.Quote(run.ID)...)
}

func (s *opener) start(run agui.RunKey) {
	s.events = append(s.events, append(s.of(agui.TypeRunStarted, run), '}'))
}

func (s *opener) finish(run agui.RunKey, pending []fold.Interrupt) {
	out := s.of(agui.TypeRunFinished, run)
	if len(pending) > 0 {
		out = append(out, `,"outcome":{"type":"interrupt","interrupts":[`...)
		for i := range pending {
			if i > 0 {
				out = append(out, ',')
			}
			out = pending[i].JSON().AppendJSON(out)
		}
		out = append(out, "]}"...)
	}
	s.events = append(s.events, append(out, '}'))
}

func (s *opener) snapshots() {
	out := []byte(`{"type":"MESSAGES_SNAPSHOT","messages":[`)
	first := true
	for i := range s.view.Messages {
		m := &s.view.Messages[i]
		if m == s.held {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		out, first = m.AppendJSON(out), false
	}
	s.events = append(s.events, append(out, "]}"...))
	if s.view.State != nil {
		out := append([]byte(`{"type":"STATE_SNAPSHOT","snapshot":`), s.view.State...)
		s.events = append(s.events, append(out, '}'))
	}
}

// openParts is what a run has open, as the official client knows it.
type openParts struct {
	decoder  agui.Decoder
	thinking agui.Thinking
	expander agui.Expander
	verifier agui.Verifier
	minted   int

	run       agui.RunKey
	starts    map[openID]agui.Event // by what they opened, chunks' aside
	steps     map[agui.StepID][]byte
	subagents [][]byte // events of all, since later ones may name those that ended
}

type openID struct {
	start agui.Type
	id    string
}

// read follows the records of a run.
func (p *openParts) read(records iter.Seq2[eventlog.Record, error], run agui.RunKey) error {
	p.run = run
	p.decoder.Lenient = true
	for r, err := range records {
		if errors.Is(err, eventlog.ErrGap) {
			continue
		}
		if err != nil {
			return err
		}
		if r.Run == run && !r.Echo {
			p.add(r.Event)
		}
	}
	return nil
}

// add follows one event. What the client would refuse opens and closes nothing.
func (p *openParts) add(raw []byte) {
	var e agui.Event
	if p.decoder.Decode(raw, &e) != nil || !e.Type.Known() {
		return
	}
	p.thinking.Name(&e, func() string {
		p.minted++
		return agui.MintedID(p.minted)
	})
	events, err := p.expander.Expand(&e)
	if err != nil {
		return
	}
	for _, e := range events {
		if p.verifier.Verify(0, e) != nil {
			continue
		}
		switch e.Type {
		case agui.TypeTextMessageStart, agui.TypeReasoningStart, agui.TypeReasoningMessageStart:
			p.starts[openID{e.Type, e.MessageID.V}] = *e
		case agui.TypeToolCallStart:
			p.starts[openID{e.Type, e.ToolCallID.V}] = *e
		case agui.TypeTextMessageEnd:
			delete(p.starts, openID{agui.TypeTextMessageStart, e.MessageID.V})
		case agui.TypeReasoningEnd:
			delete(p.starts, openID{agui.TypeReasoningStart, e.MessageID.V})
		case agui.TypeReasoningMessageEnd:
			delete(p.starts, openID{agui.TypeReasoningMessageStart, e.MessageID.V})
		case agui.TypeToolCallEnd:
			delete(p.starts, openID{agui.TypeToolCallStart, e.ToolCallID.V})
		case agui.TypeStepStarted:
			p.steps[agui.StepID{Owner: e.SubagentRunID, Name: e.StepName.V}] = raw
		case agui.TypeSubagentStarted, agui.TypeSubagentFinished, agui.TypeSubagentError:
			p.subagents = append(p.subagents, raw)
		}
	}
}

// thinkingMessage is the message that is open by a THINKING_* event of 0.x. Such
// events name none: the client makes up an id, so it must see the message begin.
func (p *openParts) thinkingMessage(view *fold.View) *agui.Message {
	if !p.thinking.Message.Set {
		return nil
	}
	prefix := p.run.ID // fold-rules R27
	if p.run.Attempt > 1 {
		prefix += "." + strconv.Itoa(p.run.Attempt)
	}
	prefix += "-thinking-"
	for i := len(view.Messages) - 1; i >= 0; i-- {
		if m := &view.Messages[i]; m.Role == agui.RoleReasoning && strings.HasPrefix(m.ID, prefix) {
			return m
		}
	}
	return nil
}

// events open in a client what is open. Metadata and texts are in the snapshot
// already; a START of what is there changes nothing.
func (p *openParts) events(held *agui.Message) [][]byte {
	open, streams := p.verifier.State(), p.expander.Open()
	out := slices.Clone(p.subagents)
	for _, id := range open.Steps {
		out = append(out, p.steps[id])
	}
	byChunks := func(kind agui.Type, id string) bool {
		return slices.ContainsFunc(streams, func(s agui.ChunkStream) bool { return s.Kind == kind && s.ID == id })
	}
	for _, list := range []struct {
		start, chunk agui.Type
		ids          []string
	}{
		{agui.TypeReasoningStart, "", open.Spans},
		{agui.TypeReasoningMessageStart, agui.TypeReasoningMessageChunk, open.Reasonings},
		{agui.TypeTextMessageStart, agui.TypeTextMessageChunk, open.Texts},
		{agui.TypeToolCallStart, agui.TypeToolCallChunk, open.Calls},
	} {
		for _, id := range list.ids {
			start := p.starts[openID{list.start, id}]
			if start.Legacy == "" && !byChunks(list.chunk, id) {
				out = append(out, startEvent(&start))
			}
		}
	}
	out = append(out, p.thinkingEvents(held)...)
	// Last: anything else of their owner would end them.
	for i := range streams {
		out = append(out, chunkEvent(&streams[i]))
	}
	return out
}

func (p *openParts) thinkingEvents(held *agui.Message) [][]byte {
	var out [][]byte
	if p.thinking.Span.Set {
		out = append(out, []byte(`{"type":"THINKING_START"}`))
	}
	if p.thinking.Message.Set {
		out = append(out, []byte(`{"type":"THINKING_TEXT_MESSAGE_START"}`))
	}
	if held != nil && held.Content.Text != "" {
		text := append([]byte(`{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":`), agui.Quote(held.Content.Text)...)
		out = append(out, append(text, '}'))
	}
	return out
}

// eventText writes an event member by member.
type eventText []byte

func eventOf(t agui.Type) eventText {
	return append(append(eventText(`{"type":"`), t...), '"')
}

func (e eventText) with(name string, value agui.Opt[string]) eventText {
	if !value.Set {
		return e
	}
	return append(append(append(append(e, `,"`...), name...), `":`...), agui.Quote(value.V)...)
}

func startEvent(e *agui.Event) []byte {
	if e.Type == agui.TypeReasoningMessageStart {
		e.Role = agui.Some(string(agui.RoleReasoning))
	}
	out := eventOf(e.Type).with("messageId", e.MessageID).with("toolCallId", e.ToolCallID).with("toolCallName", e.ToolCallName).
		with("parentMessageId", e.ParentMessageID).with("role", e.Role).with("name", e.Name).with("subagentRunId", e.SubagentRunID)
	return append(out, '}')
}

func chunkEvent(s *agui.ChunkStream) []byte {
	id := "messageId"
	if s.Kind == agui.TypeToolCallChunk {
		id = "toolCallId"
	}
	out := eventOf(s.Kind).with(id, agui.Some(s.ID)).with("toolCallName", s.ToolCallName).
		with("parentMessageId", s.ParentID).with("role", s.Role).with("name", s.Name).with("subagentRunId", s.Owner)
	return append(out, '}')
}
