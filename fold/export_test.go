package fold

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/agstore/agstore/agui"
)

// CheckDurable compares what a Durable fold remembers, so as not to search, with
// what a search finds.
func CheckDurable(f *Fold) error {
	d := f.reducer.(*durable)
	d.settle()
	t := &d.transcript
	listed := 0
	calls := make(map[string][]*call)
	results := make(map[*call]int)
	var prev *message
	for m := t.first; m != nil; prev, m = m, m.next {
		listed++
		if m.prev != prev {
			return fmt.Errorf("%q is linked wrong", m.id)
		}
		if !t.lists(m) || t.find(m.kind, m.id) != m {
			return fmt.Errorf("%q is not found by its id", m.id)
		}
		var before *call
		count, open := 0, 0
		for c := m.calls.first; c != nil; before, c = c, c.next {
			switch {
			case c.owner != m:
				return fmt.Errorf("call %q of %q has another owner", c.id, m.id)
			case c.prev != before || before != nil && before.position >= c.position:
				return fmt.Errorf("call %q of %q is linked wrong", c.id, m.id)
			}
			calls[c.id] = append(calls[c.id], c)
			if count++; c.isOpen() {
				open++
			}
		}
		if m.calls.last != before || m.calls.count != count || m.calls.open != open {
			return fmt.Errorf("%q has %d calls, %d of them open; %d and %d are known", m.id, count, open, m.calls.count, m.calls.open)
		}
		if m.answers != nil {
			if m.answers.owner == nil || m.toolCallID.V != m.answers.id {
				return fmt.Errorf("%q answers what is not there", m.id)
			}
			results[m.answers]++
		}
		if m.shown != nil {
			shown := *m.shown
			m.shown = nil
			if now := m.show(); string(now.AppendJSON(nil)) != string(shown.AppendJSON(nil)) {
				return fmt.Errorf("%q is shown as %s, but is %s", m.id, shown.AppendJSON(nil), now.AppendJSON(nil))
			}
		}
	}
	if err := checkSpots(t); err != nil {
		return err
	}
	if t.last != prev || listed != t.count {
		return fmt.Errorf("%d messages in the list, %d by id", listed, t.count)
	}
	for id := range t.calls {
		set := t.set(id)
		if len(set.all) != len(calls[id]) {
			return fmt.Errorf("%d calls with id %q are known, %d are there", len(set.all), id, len(calls[id]))
		}
		for _, c := range set.all {
			if !slices.Contains(calls[id], c) {
				return fmt.Errorf("a call %q is not in the transcript", id)
			}
			if c.results != results[c] {
				return fmt.Errorf("call %q has %d results, %d are known", id, results[c], c.results)
			}
			if slices.Contains(set.waiting, c) != (c.results == 0) {
				return fmt.Errorf("call %q waits for a result or has one", id)
			}
		}
	}
	if len(calls) != len(t.calls) {
		return fmt.Errorf("%d ids of calls, %d are known", len(calls), len(t.calls))
	}
	return nil
}

// checkSpots compares what snapshots go by with the list.
func checkSpots(t *transcript) error {
	if t.removable == nil {
		return nil
	}
	var at *message
	for m := t.first; m != nil; m = m.next {
		s := m.spot
		if s == nil || s.message != m || s.in != t.removable {
			return fmt.Errorf("%q has no spot", m.id)
		}
		if !m.isOpen() && s.group == nil {
			return fmt.Errorf("%q is not open, and no snapshot would find it", m.id)
		}
		if g := s.group; g != nil {
			want := &t.removable.others
			switch m.kind {
			case kindReasoning:
				want = &t.removable.reasoning
			case kindActivity:
				want = t.removable.activities[m.activity.V]
			}
			if g != want {
				return fmt.Errorf("%q is in another group", m.id)
			}
		}
		for c := m.calls.first; c != nil; c = c.next {
			if !c.isOpen() && !c.over || c.over && !slices.Contains(m.calls.over, c) {
				return fmt.Errorf("call %q is not open, and no snapshot would find it", c.id)
			}
		}
		at = m
	}
	if at == nil {
		return nil
	}
	root := at.spot
	for root.up != nil {
		root = root.up
	}
	at = t.first
	var walk func(s *spot) error
	walk = func(s *spot) error {
		if s == nil {
			return nil
		}
		if err := walk(s.left); err != nil {
			return err
		}
		if s.left != nil && s.left.up != s || s.right != nil && s.right.up != s || s.message != at {
			return fmt.Errorf("%q is at another place in the tree", s.message.id)
		}
		at = at.next
		return walk(s.right)
	}
	return walk(root)
}

// Reseal gives what may be a snapshot the checksum that it must have, so that
// the rest of it is looked at. One that is too short stays as it is.
func Reseal(snapshot []byte) []byte {
	if len(snapshot) < snapshotHead {
		return snapshot
	}
	out := append([]byte{SnapshotVersion, 0x92, 0xce, 0, 0, 0, 0}, snapshot[snapshotHead:]...)
	binary.BigEndian.PutUint32(out[3:], crc32.Checksum(out[snapshotHead:], castagnoli))
	return out
}

// CheckReference compares what a Reference fold remembers, so as not to search,
// with what a search finds.
func CheckReference(f *Fold) error {
	t := &f.reducer.(*reference).transcript
	found := refTranscript{byID: map[string]*refEntry{}, calls: map[string]*refCallEntry{}}
	for at := t.first; at != nil; at = at.next {
		found.index(at)
		found.length++
		want := t.others
		switch at.message.role {
		case agui.RoleReasoning:
			want = t.reasoning
		case agui.RoleActivity:
			want = t.activities[at.message.activityType.V]
		}
		if at.group == nil || at.group != want {
			return fmt.Errorf("%q is in another group", at.message.id)
		}
	}
	if found.length != t.length || found.twice && !t.twice {
		return fmt.Errorf("%d places, %d are known; something is twice: %v, known %v", found.length, t.length, found.twice, t.twice)
	}
	if !maps.Equal(found.byID, t.byID) {
		return fmt.Errorf("messages by id are %v, known %v", found.byID, t.byID)
	}
	if len(found.calls) != len(t.calls) {
		return fmt.Errorf("%d calls, %d are known", len(found.calls), len(t.calls))
	}
	for id, c := range found.calls {
		if known := t.calls[id]; known == nil || *known != *c {
			return fmt.Errorf("call %q is another one", id)
		}
	}
	return nil
}
