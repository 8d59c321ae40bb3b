package replay

import (
	"sort"
	"strconv"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// Difference is what has to be done to one view to get another one.
type Difference struct {
	// Messages that went come first, in the order they had, then those that came,
	// changed or moved, in the order they have. One may have changed and moved.
	Messages []MessageChange
	// State is a JSON Patch (RFC 6902) that makes the other state of the one:
	// what is the same stays, numbers keep their text. A state that was never set
	// counts as {}, unless the other is set: then the patch sets it.
	State []agui.Op
	// StateGone: only the first view has a state. No patch says that.
	StateGone bool
}

// ChangeKind is what became of a message.
type ChangeKind string

// The kinds of changes.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed" // any member
	Moved   ChangeKind = "moved"   // its place among those that both views have
)

// MessageChange is one message that is not the same in both views.
type MessageChange struct {
	Kind     ChangeKind
	ID       string
	From, To int           // its places, from 0; -1 where it is not there
	Before   *agui.Message // nil: added
	After    *agui.Message // nil: removed
}

// Empty reports whether the views show the same messages and state.
func (d Difference) Empty() bool { return len(d.Messages) == 0 && len(d.State) == 0 && !d.StateGone }

// Diff compares the messages and the state of two views, of one thread or not.
func Diff(a, b *fold.View) (Difference, error) {
	d := Difference{Messages: diffMessages(a.Messages, b.Messages), StateGone: a.State != nil && b.State == nil}
	if b.State == nil {
		return d, nil
	}
	to, err := jsonvalue.Parse(b.State, 0)
	if err != nil {
		return d, err
	}
	if a.State == nil {
		d.State = []agui.Op{{Kind: jsonvalue.Add, Path: "", Value: to}}
		return d, nil
	}
	from, err := jsonvalue.Parse(a.State, 0)
	if err != nil {
		return d, err
	}
	d.State = jsonvalue.Diff(from, to)
	return d, nil
}

// messageName tells messages of one view apart: ids are unique in the profile
// Durable, but not in Reference.
type messageName struct {
	id    string
	times int
}

func namesOf(messages []agui.Message) []messageName {
	seen := make(map[string]int)
	out := make([]messageName, len(messages))
	for i := range messages {
		id := messages[i].ID
		out[i] = messageName{id, seen[id]}
		seen[id]++
	}
	return out
}

func diffMessages(a, b []agui.Message) []MessageChange {
	before, after := namesOf(a), namesOf(b)
	places := make(map[messageName]int, len(a))
	for i, name := range before {
		places[name] = i
	}
	var out []MessageChange
	var stay []int // places in a of what both have, in the order of b
	there := make(map[messageName]bool, len(b))
	for _, name := range after {
		there[name] = true
		if i, ok := places[name]; ok {
			stay = append(stay, i)
		}
	}
	for i := range a {
		if !there[before[i]] {
			out = append(out, MessageChange{Kind: Removed, ID: a[i].ID, From: i, To: -1, Before: &a[i]})
		}
	}
	inOrder := risingIn(stay)
	for j := range b {
		i, ok := places[after[j]]
		if !ok {
			out = append(out, MessageChange{Kind: Added, ID: b[j].ID, From: -1, To: j, After: &b[j]})
			continue
		}
		change := MessageChange{ID: b[j].ID, From: i, To: j, Before: &a[i], After: &b[j]}
		if string(a[i].AppendJSON(nil)) != string(b[j].AppendJSON(nil)) {
			change.Kind = Changed
			out = append(out, change)
		}
		if !inOrder[i] {
			change.Kind = Moved
			out = append(out, change)
		}
	}
	return out
}

// risingIn is a longest part of a list of different numbers whose numbers rise.
func risingIn(list []int) map[int]bool {
	var tops []int // tops[n]: index of the smallest number that ends a rise of n+1
	behind := make([]int, len(list))
	for i, v := range list {
		n := sort.Search(len(tops), func(n int) bool { return list[tops[n]] >= v })
		behind[i] = -1
		if n > 0 {
			behind[i] = tops[n-1]
		}
		if n == len(tops) {
			tops = append(tops, i)
		} else {
			tops[n] = i
		}
	}
	out := make(map[int]bool)
	if len(tops) == 0 {
		return out
	}
	for i := tops[len(tops)-1]; i >= 0; i = behind[i] {
		out[list[i]] = true
	}
	return out
}

// AppendJSON appends the difference as a JSON object: {messages: [{change, id,
// from, to, before, after}], state: [operations], stateGone}. Values are as they
// were written.
func (d Difference) AppendJSON(out []byte) []byte {
	out = append(out, `{"messages":[`...)
	for i, c := range d.Messages {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, `{"change":"`...), c.Kind...), `","id":`...)
		out = append(out, agui.Quote(c.ID)...)
		if c.Before != nil {
			out = strconv.AppendInt(append(out, `,"from":`...), int64(c.From), 10)
		}
		if c.After != nil {
			out = strconv.AppendInt(append(out, `,"to":`...), int64(c.To), 10)
		}
		if c.Before != nil && c.Kind != Moved {
			out = c.Before.AppendJSON(append(out, `,"before":`...))
		}
		if c.After != nil && c.Kind != Moved {
			out = c.After.AppendJSON(append(out, `,"after":`...))
		}
		out = append(out, '}')
	}
	out = append(out, `],"state":[`...)
	for i, op := range d.State {
		if i > 0 {
			out = append(out, ',')
		}
		out = op.JSON().AppendJSON(out)
	}
	out = append(out, ']')
	if d.StateGone {
		out = append(out, `,"stateGone":true`...)
	}
	return append(out, '}')
}
