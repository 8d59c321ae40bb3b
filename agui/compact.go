package agui

import (
	"bytes"
	"errors"
	"iter"
	"strings"
)

// CompactLimits are the limits of the folds that will read what a [Compactor]
// makes: where a fold would refuse, nothing is merged. 0 is the default.
type CompactLimits struct {
	EventBytes  int // default 32 MiB
	PatchOps    int // operations in a patch; default 10,000
	PatchCopied int // bytes copied by a patch; default 16 MiB
	StateBytes  int // default 64 MiB
	Nesting     int // levels of lists and objects; default [MaxNesting]
}

// Compact returns a shorter stream with the same fold, see [Compactor]. Blank
// lines are left out. What it yields are the slices it was given and new ones;
// they stay valid as long as those it was given do.
func Compact(events iter.Seq[[]byte]) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		c := NewCompactor(CompactLimits{})
		for event := range events {
			for _, out := range c.Add(event) {
				if !yield(out) {
					return
				}
			}
		}
		for _, out := range c.Flush() {
			if !yield(out) {
				return
			}
		}
	}
}

// Compactor makes a stream of events shorter (fold-rules R35). Whatever the
// stream, legal or not, its fold stays the same in every profile: messages,
// state, interrupts, runs and all else but diagnostics and what depends on the
// number of events. A legal stream stays legal, and what has been compacted is
// not changed by compacting it again.
//
// It merges the deltas of a message or call between which nothing else has
// happened to it, and a STATE_SNAPSHOT with the STATE_DELTAs that follow in its
// run. Text may come out before an event that stood in front of it, if neither
// concerns the other, and a state behind. A merged event is the first of
// its events with more text, or another snapshot; the timestamp, rawEvent and
// undescribed members of the others are given up. Everything else is passed
// on byte for byte but for white space around it.
//
// It holds one event for each message that grows, within bounds, and one state,
// beside what a [Verifier] and a [Tracker] hold. It is not safe for concurrent
// use.
type Compactor struct {
	limits CompactLimits
	out    [][]byte
	given  bool // up: every event is passed on

	// What the official client makes of the stream: the first event that it would
	// refuse is where it stops, so what comes before may not move behind it.
	decoder  Decoder
	thinking Thinking
	expander Expander
	verifier Verifier
	minted   int
	stopped  bool
	event    Event

	// Which run an event belongs to, as a log would decide.
	tracker *Tracker
	seq     uint64
	// lanes are the owners that may have a stream of chunks open, in whatever run,
	// which other events would close.
	lanes map[Opt[string]]bool

	groups groups
	state  stateGroup
}

// NewCompactor returns a Compactor that has seen nothing.
func NewCompactor(limits CompactLimits) *Compactor {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&limits.EventBytes, 32<<20)
	set(&limits.StateBytes, 64<<20)
	set(&limits.Nesting, MaxNesting)
	return &Compactor{
		limits:  limits,
		decoder: Decoder{Nesting: limits.Nesting},
		tracker: NewTracker(nil, RunKey{}),
		lanes:   make(map[Opt[string]]bool),
		groups:  newGroups(limits),
	}
}

// Add takes the next event and returns those that are done. The list is valid
// until the next call. The event itself may be in it; nothing else keeps a hold
// on it.
func (c *Compactor) Add(event []byte) [][]byte {
	clear(c.out)
	c.out = c.out[:0]
	line := bytes.TrimSpace(event)
	if len(line) == 0 {
		return nil
	}
	if c.given {
		c.emit(line)
		return c.out
	}
	if d, ok := c.groups.scan(line); ok && c.groups.grow(&d) {
		return c.out
	}
	c.add(line)
	return c.out
}

// Flush returns what is still held, at the end of the stream. The list is valid
// until the next call.
func (c *Compactor) Flush() [][]byte {
	clear(c.out)
	c.out = c.out[:0]
	c.flush()
	return c.out
}

func (c *Compactor) emit(event []byte) { c.out = append(c.out, event) }

func (c *Compactor) flush() {
	c.out = c.groups.flush(c.out)
	c.flushState() // with no groups it is passed on at once
}

func (c *Compactor) flushState() {
	if event := c.state.take(); event != nil {
		c.pass(event)
	}
}

// add takes an event that is not just more text of a message that is held.
func (c *Compactor) add(line []byte) {
	e := &c.event
	err := c.decoder.Decode(line, e)
	var h Header
	headless := ReadHeader(line, &h)
	if c.disagree(err, headless, &h) {
		// Which runs there are is no longer known for certain.
		c.flush()
		c.given = true
		c.emit(line)
		return
	}
	var d textDelta
	if err == nil && isDelta(e.Type) && e.Legacy == "" {
		d = describeDelta(line, e, &h)
		if d.fits = d.fits && c.groups.within(line, &d); d.fits && c.groups.grow(&d) {
			return
		}
	}
	var in Assignment
	if headless == nil {
		c.seq++
		in = c.tracker.Assign(&h, c.seq, Claim{})
	}
	legal := c.legal(e, err)
	switch closes := c.closes(e); {
	case !legal, len(line) > c.limits.EventBytes, e.Type == TypeRunStarted, e.Type.Terminal(), e.Type == TypeMessagesSnapshot, e.Legacy != "":
		c.flush()
		c.emit(line)
	case isChunk(e.Type):
		c.flush()
		c.hold(line, &d)
	case isDelta(e.Type):
		if closes {
			c.flush()
		}
		c.hold(line, &d)
	case closes:
		c.flush()
		c.emit(line)
	default:
		c.other(line, e, &h)
	}
	c.follow(e, &h, in, legal && len(line) <= c.limits.EventBytes)
}

// disagree reports that a log and a fold would not see the same event: by limits
// that the header of an event does not know.
func (c *Compactor) disagree(err, headless error, h *Header) bool {
	if headless != nil {
		return !errors.Is(err, ErrInvalidEvent)
	}
	return errors.Is(err, ErrInvalidEvent) && (h.Type == TypeRunStarted || h.Type.Terminal())
}

// other takes an event that closes nothing and begins or ends no run.
func (c *Compactor) other(line []byte, e *Event, h *Header) {
	switch {
	case e.Type == TypeStateSnapshot, e.Type == TypeStateDelta:
		c.addState(line, e, h)
	case e.Type == TypeRaw, e.Type == TypeCustom, !e.Type.Known():
		// They concern no text, and more of it does not change which message is open.
		c.pass(line)
	default:
		c.out = c.groups.flush(c.out)
		c.emit(line)
	}
}

// pass takes an event that is no barrier to text.
func (c *Compactor) pass(line []byte) {
	if !c.groups.keep(line) {
		c.out = c.groups.flush(c.out)
		c.emit(line)
	}
}

// hold begins a group with a delta, if it may be merged with others.
func (c *Compactor) hold(line []byte, d *textDelta) {
	if !d.fits || !c.groups.canJoin(d) {
		c.out = c.groups.flush(c.out)
	}
	if !d.fits {
		c.emit(line)
		return
	}
	c.groups.begin(line, d)
}

// legal reports whether the official client takes the event, or has stopped
// before. It is told of every event but those that say nothing new.
func (c *Compactor) legal(e *Event, err error) bool {
	if err != nil {
		c.stopped = true
		return false
	}
	if c.stopped {
		return true
	}
	c.thinking.Name(e, c.mint)
	if !e.Type.Known() {
		return true
	}
	events, err := c.expander.Expand(e)
	for _, e := range events {
		if err == nil {
			err = c.verifier.Verify(0, e)
		}
	}
	c.stopped = err != nil
	return err == nil
}

func (c *Compactor) mint() string {
	c.minted++
	return MintedID(c.minted)
}

// closes reports whether the event may close a stream of chunks (SEMANTICS X-6,
// X-9), so that it must stay where it is.
func (c *Compactor) closes(e *Event) bool {
	return len(c.lanes) > 0 && closesLane(e.Type) && c.lanes[e.SubagentRunID]
}

// follow takes note of which streams of chunks may be open behind an event. sure
// is false if not every fold has taken it.
func (c *Compactor) follow(e *Event, h *Header, in Assignment, sure bool) {
	switch {
	case isChunk(h.Type):
		c.lanes[laneOf(h)] = true
	case in.Ended && c.tracker.OpenCount() == 0, in.Started && c.tracker.OpenCount() == 1:
		clear(c.lanes)
	case sure && len(c.lanes) > 0 && e.Legacy == "" && closesLane(e.Type) && c.tracker.OpenCount() == 1:
		if r := c.tracker.row(in.Run); r != nil && r.Running() {
			delete(c.lanes, e.SubagentRunID)
		}
	}
}

func laneOf(h *Header) Opt[string] {
	if h.SubagentRunID == nil {
		return Opt[string]{}
	}
	return Some(strings.Clone(string(h.SubagentRunID)))
}

func isChunk(t Type) bool {
	return t == TypeTextMessageChunk || t == TypeToolCallChunk || t == TypeReasoningMessageChunk
}

// isDelta reports whether events of a type carry text.
func isDelta(t Type) bool {
	return t == TypeTextMessageContent || t == TypeToolCallArgs || t == TypeReasoningMessageContent || isChunk(t)
}

// closesLane reports whether an event of this type closes the stream of chunks
// that its owner has open.
func closesLane(t Type) bool {
	switch t {
	case TypeTextMessageChunk, TypeToolCallChunk, TypeReasoningMessageChunk,
		TypeRunStarted, TypeRunFinished, TypeRunError, TypeMessagesSnapshot,
		TypeRaw, TypeActivitySnapshot, TypeActivityDelta, TypeReasoningEncryptedValue, TypeSubagentStarted:
		return false
	}
	return t.Known()
}
