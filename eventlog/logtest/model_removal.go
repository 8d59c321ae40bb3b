package logtest

import (
	"bytes"
	"fmt"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// removable is the thread that a removal is of, as the call finds it.
func (m *model) removable(k eventlog.ThreadKey, expect *uint64) (*modelThread, error) {
	t, err := m.touch(k)
	switch {
	case t == nil:
		return nil, eventlog.ErrThreadNotFound
	case err != nil:
		return t, err
	}
	return t, t.conflict(expect)
}

// idle refuses if any run is somebody's.
func (m *model) idle(t *modelThread, runs []*modelRun) error {
	for _, r := range runs {
		if r.Running() && m.owned(r) {
			return &eventlog.RunActiveError{Run: r.Key}
		}
	}
	return nil
}

// remove commits a removal: what it does to the thread, and its receipt.
func (m *model) remove(t *modelThread, receipt eventlog.Receipt, do func()) eventlog.Receipt {
	m.commit(t.key, eventlog.StreamControl, func(t *modelThread) {
		receipt.Thread, receipt.Number, receipt.Created = t.key, uint64(len(t.receipts)+1), utc(t.created)
		receipt.Generation, receipt.Time, receipt.Position = t.generation, utc(m.last), m.position()
		do()
	})
	return receipt
}

// all is a receipt for all that a thread has.
func (t *modelThread) all(kind eventlog.Removal) eventlog.Receipt {
	r := eventlog.Receipt{Removal: kind}
	if n := t.lastSeq(); n >= t.first {
		first, last := t.records[t.first-1], t.records[n-1]
		r.First, r.Last, r.FirstPosition, r.LastPosition = first.Seq, last.Seq, first.Position, last.Position
		r.Places = append(r.Places, eventlog.Place{Name: eventlog.PlaceRecords, Count: n - t.first + 1})
	}
	r.Places = append(r.Places, eventlog.Place{Name: eventlog.PlaceRuns, Count: uint64(len(t.runs))})
	if kind == eventlog.RemovalErase {
		r.Last = t.lastSeq() // for the tombstone, whatever was cleared before
		r.Places = append(r.Places, eventlog.Place{Name: eventlog.PlaceCompanion, Count: uint64(len(t.companion))})
	}
	return r
}

func (m *model) clear(k eventlog.ThreadKey, expect *uint64, takeOver bool) (eventlog.Receipt, error) {
	t, err := m.removable(k, expect)
	if err != nil {
		return eventlog.Receipt{}, err
	}
	if err := m.idle(t, t.runs); err != nil && !takeOver {
		return eventlog.Receipt{}, err
	}
	return m.remove(t, t.all(eventlog.RemovalClear), func() {
		t.generation++
		t.updated = m.last
		t.first, t.runs, t.head = t.lastSeq()+1, nil, agui.RunKey{}
	}), nil
}

func (m *model) erase(k eventlog.ThreadKey, expect *uint64, reason string) (eventlog.Receipt, error) {
	if t := m.find(k); t != nil && t.erased != nil {
		return t.receipts[len(t.receipts)-1], nil
	}
	t, err := m.removable(k, expect)
	if err != nil {
		return eventlog.Receipt{}, err
	}
	return m.remove(t, t.all(eventlog.RemovalErase), func() {
		t.erased = &eventlog.ErasedError{Time: utc(m.last), Reason: reason}
		t.runs = nil
	}), nil
}

// redacted is what the records that say a message become, by their places.
func (t *modelThread) redacted(message string) (places []int, events [][]byte) {
	placed := false
	for i, e := range t.events {
		if t.records[i].Seq < t.first {
			continue
		}
		if e.typ == agui.TypeRunStarted || e.typ == agui.TypeTextMessageStart && e.message == message {
			placed = false
		}
		if e.message != message || t.records[i].Event == nil {
			continue // an end that the store has written says nothing
		}
		var event []byte
		switch e.typ {
		case agui.TypeTextMessageStart, agui.TypeTextMessageEnd:
			event = fmt.Appendf(nil, `{"type":%q,"messageId":%q}`, e.typ, message)
		case agui.TypeTextMessageContent:
			text := eventlog.RedactedText
			if placed {
				text = ""
			}
			placed = true
			event = fmt.Appendf(nil, `{"type":%q,"messageId":%q,"delta":%q}`, e.typ, message, text)
		default:
			continue
		}
		if !bytes.Equal(event, t.records[i].Event) {
			places, events = append(places, i), append(events, event)
		}
	}
	return places, events
}

func (m *model) redact(k eventlog.ThreadKey, message string, expect *uint64, takeOver bool) (eventlog.Receipt, error) {
	t := m.find(k)
	if t == nil {
		return eventlog.Receipt{}, eventlog.ErrThreadNotFound
	}
	if t.erased != nil {
		return eventlog.Receipt{}, t.erased
	}
	places, events := t.redacted(message)
	if len(places) == 0 {
		for _, r := range t.receipts {
			if r.Removal == eventlog.RemovalRedact && r.Message == message {
				return r, nil
			}
		}
		return eventlog.Receipt{}, eventlog.ErrNotFound
	}
	if _, err := m.removable(k, expect); err != nil {
		return eventlog.Receipt{}, err
	}
	var of []*modelRun
	for _, i := range places {
		if r := t.find(t.records[i].Run); r != nil {
			of = append(of, r)
		}
	}
	if err := m.idle(t, of); err != nil && !takeOver {
		return eventlog.Receipt{}, err
	}
	first, last := &t.records[places[0]], &t.records[places[len(places)-1]]
	receipt := eventlog.Receipt{
		Removal: eventlog.RemovalRedact, Message: message,
		First: first.Seq, Last: last.Seq, FirstPosition: first.Position, LastPosition: last.Position,
		Places: []eventlog.Place{{Name: eventlog.PlaceRecords, Count: uint64(len(places))}},
	}
	return m.remove(t, receipt, func() {
		for n, i := range places {
			t.records[i].Redacted, t.records[i].Event = true, events[n]
		}
	}), nil
}
