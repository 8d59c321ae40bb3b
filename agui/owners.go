package agui

import (
	"cmp"
	"slices"
)

// openRuns is the running runs in order of their starts. Those that have ended
// stay in the list until they are half of it, but not at its end.
type openRuns struct {
	list   []*openRun
	closed int
}

type openRun struct {
	index  int
	closed bool
	ids    openIDs
}

func (o *openRuns) count() int { return len(o.list) - o.closed }

func (o *openRuns) newest() *openRun { return o.list[len(o.list)-1] }

func (o *openRuns) add(i int) { o.list = append(o.list, &openRun{index: i}) }

// find gives the running run with this index, nil if there is none.
func (o *openRuns) find(i int) *openRun {
	if n := len(o.list); n > 0 && o.list[n-1].index == i {
		return o.list[n-1]
	}
	at, ok := slices.BinarySearchFunc(o.list, i, func(r *openRun, i int) int { return cmp.Compare(r.index, i) })
	if !ok || o.list[at].closed {
		return nil
	}
	return o.list[at]
}

func (o *openRuns) remove(r *openRun) {
	r.closed, r.ids = true, openIDs{}
	o.closed++
	for n := len(o.list); n > 0 && o.list[n-1].closed; n-- {
		o.list[n-1] = nil
		o.list = o.list[:n-1]
		o.closed--
	}
	if o.closed > len(o.list)/2 {
		o.list = slices.DeleteFunc(o.list, func(r *openRun) bool { return r.closed })
		o.closed = 0
	}
}

func (o *openRuns) clone() openRuns {
	c := openRuns{list: make([]*openRun, 0, o.count())}
	for _, r := range o.list {
		if !r.closed {
			c.list = append(c.list, &openRun{index: r.index, ids: r.ids.clone()})
		}
	}
	return c
}

// entity is what a run may have started.
type entity struct {
	kind entityKind
	id   string
	step step
}

type entityKind uint8

const (
	textEntity entityKind = iota
	reasoningEntity
	spanEntity
	callEntity
	stepEntity // an open one: names of steps come again
)

// owners are, for each entity, the indexes of the running runs that have started
// it, in order.
type owners map[entity][]int

func (w owners) clone() owners {
	if w == nil {
		return nil
	}
	c := make(owners, len(w))
	for what, runs := range w {
		c[what] = slices.Clone(runs)
	}
	return c
}

func (w owners) add(what entity, run int) {
	runs := w[what]
	at, ok := len(runs), false
	if at > 0 && runs[at-1] >= run {
		at, ok = slices.BinarySearch(runs, run)
	}
	if !ok {
		w[what] = slices.Insert(runs, at, run)
	}
}

func (w owners) remove(what entity, run int) {
	runs := w[what]
	at, ok := slices.BinarySearch(runs, run)
	switch {
	case !ok:
	case len(runs) == 1:
		delete(w, what)
	case at == 0:
		w[what] = runs[1:]
	default:
		w[what] = slices.Delete(runs, at, at+1)
	}
}

func (w owners) has(what entity, run int) bool {
	_, ok := slices.BinarySearch(w[what], run)
	return ok
}

// newest gives the last started run that has started an entity, -1 if none has
// or the event has no such id.
func (w owners) newest(kind entityKind, id []byte) int {
	if id == nil {
		return -1
	}
	if runs := w[entity{kind: kind, id: string(id)}]; len(runs) > 0 {
		return runs[len(runs)-1]
	}
	return -1
}

// of gives the running run that an event belongs to by what it names: of several
// the one that started last; -1 if there is none.
func (w owners) of(h *Header) int {
	switch h.Type {
	case TypeStepStarted:
		return -1 // step names come again in every run
	case TypeTextMessageStart, TypeReasoningMessageStart:
		return -1 // see TypeToolCallStart
	case TypeToolCallStart:
		return w.ofCallStart(h)
	case TypeStepFinished:
		if runs := w[entity{kind: stepEntity, step: stepOf(h)}]; len(runs) > 0 {
			return runs[len(runs)-1]
		}
		return -1
	case TypeReasoningStart, TypeReasoningEnd:
		return w.newest(spanEntity, h.MessageID)
	case TypeReasoningMessageContent, TypeReasoningMessageEnd, TypeReasoningMessageChunk:
		return w.newest(reasoningEntity, h.MessageID)
	}
	return max(w.newest(callEntity, h.ToolCallID), w.newest(textEntity, h.MessageID), w.newest(textEntity, h.ParentMessageID))
}

// startReach is how many running runs that have the parent of a call are asked
// whether they have begun the call, the last started first.
const startReach = 100

// ofCallStart is for what begins a call, perhaps once more: that is rather a
// later run, which takes up what a dead one has left or numbers its calls as
// that did, than the run that has begun it already.
func (w owners) ofCallStart(h *Header) int {
	if h.ParentMessageID == nil {
		return -1
	}
	parents := w[entity{kind: textEntity, id: string(h.ParentMessageID)}]
	call := entity{kind: callEntity, id: string(h.ToolCallID)}
	parents = parents[max(len(parents)-startReach, 0):]
	for _, run := range slices.Backward(parents) {
		if h.ToolCallID == nil || !w.has(call, run) {
			return run
		}
	}
	return -1
}

// observe takes note of what a record has made its run start.
func (w owners) observe(h *Header, o *openRun) {
	kind, id := textEntity, h.MessageID
	switch h.Type {
	case TypeTextMessageStart, TypeTextMessageEnd, TypeTextMessageChunk, TypeActivitySnapshot, TypeToolCallResult:
	case TypeToolCallStart, TypeToolCallEnd, TypeToolCallChunk:
		kind, id = callEntity, h.ToolCallID
	case TypeReasoningStart, TypeReasoningEnd:
		kind = spanEntity
	case TypeReasoningMessageStart, TypeReasoningMessageEnd, TypeReasoningMessageChunk:
		kind = reasoningEntity
	case TypeStepStarted:
		w.add(entity{kind: stepEntity, step: stepOf(h)}, o.index)
		return
	case TypeStepFinished:
		w.remove(entity{kind: stepEntity, step: stepOf(h)}, o.index)
		return
	default:
		return
	}
	// Chunks, activities and results without an id start nothing; what is started
	// without one has the empty id.
	switch h.Type {
	case TypeTextMessageChunk, TypeActivitySnapshot, TypeToolCallResult, TypeToolCallChunk, TypeReasoningMessageChunk:
		if id == nil {
			return
		}
	}
	w.add(entity{kind: kind, id: string(id)}, o.index)
}

// each yields what a run has started.
func (o *openIDs) each(yield func(entity)) {
	for _, of := range [...]struct {
		kind entityKind
		ids  map[string]uint64
	}{{textEntity, o.texts}, {reasoningEntity, o.reasonings}, {spanEntity, o.spans}, {callEntity, o.calls}} {
		for id := range of.ids {
			yield(entity{kind: of.kind, id: id})
		}
	}
	for s, seq := range o.steps {
		if seq != 0 {
			yield(entity{kind: stepEntity, step: s})
		}
	}
}
