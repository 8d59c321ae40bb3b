package agstore

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/replay"
)

// BranchPoint finds the run to continue for a client that sends these messages
// and names no parent, where they show that it has gone back (DESIGN decision 6):
// it has edited what a user said, or asks again for an answer that is there. Then
// it is the run before the one that brought what is to be replaced, the zero key
// if that was the first. nil: go on from the head. docs/branches.md has the cases.
func (s *Scope) BranchPoint(ctx context.Context, thread string, messages []json.RawMessage) (*agui.RunKey, error) {
	view, err := s.View(ctx, thread)
	if errors.Is(err, eventlog.ErrThreadNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if view.Status == agui.RunRunning && !view.Run.IsZero() {
		return nil, nil // what is there may become more: a start is refused, or takes over
	}
	replaced := editedIDs(view, messages)
	if id, ok := answeredAnew(view, messages); ok {
		replaced[id] = true
	}
	if len(replaced) == 0 {
		return nil, nil
	}
	runs, err := s.Runs(ctx, thread)
	if err != nil {
		return nil, err
	}
	path := agui.Lineage(eventlog.Tree(runs), view.Run)
	// A message that has come stays, so the run that brought it can be searched.
	var failed error
	brought := sort.Search(len(path), func(i int) bool {
		at, err := s.ViewAt(ctx, thread, replay.AtRun(path[i].Run))
		if err != nil {
			failed = err
			return true
		}
		return slices.ContainsFunc(at.Messages, func(m agui.Message) bool { return replaced[m.ID] })
	})
	if failed != nil {
		return nil, failed
	}
	if brought == 0 {
		return &agui.RunKey{}, nil
	}
	return &path[brought-1].Run, nil
}

// editedIDs are the ids of user messages whose content is not the stored one.
func editedIDs(view *fold.View, messages []json.RawMessage) map[string]bool {
	stored := make(map[string]*agui.Message)
	for i := range view.Messages {
		if m := &view.Messages[i]; m.Role == agui.RoleUser {
			stored[m.ID] = m
		}
	}
	edited := make(map[string]bool)
	for _, raw := range messages {
		sent, err := agui.DecodeMessage(raw)
		if err != nil || sent.Role != agui.RoleUser {
			continue
		}
		known := stored[sent.ID]
		if known != nil && string(known.Content.JSON().AppendJSON(nil)) != string(sent.Content.JSON().AppendJSON(nil)) {
			edited[sent.ID] = true
		}
	}
	return edited
}

// answeredAnew gives the first message that is to be replaced if the last message
// sent is one that the view knows and goes on behind. Reasoning and activity do not
// count, which clients need not keep, nor do system prompts. Who sends something new behind a
// shorter history may not have seen the rest: that replaces nothing.
func answeredAnew(view *fold.View, messages []json.RawMessage) (string, bool) {
	places := make(map[string]int, len(view.Messages))
	for i := range view.Messages {
		places[view.Messages[i].ID] = i
	}
	sent := make(map[string]bool, len(messages))
	for _, raw := range messages {
		if id, ok := messageID(raw); ok {
			sent[id] = true
		}
	}
	last := -1
	for _, raw := range slices.Backward(messages) {
		if aside(roleOf(raw)) {
			continue
		}
		id, ok := messageID(raw)
		place, known := places[id]
		if !ok || !known {
			return "", false
		}
		last = place
		break
	}
	if last < 0 {
		return "", false
	}
	for i := last + 1; i < len(view.Messages); i++ {
		m := &view.Messages[i]
		// A view gives a message whose id was taken another one (fold-rules R7).
		base, _, _ := strings.Cut(m.ID, "~")
		if !aside(m.Role) && !sent[m.ID] && !sent[base] {
			return m.ID, true
		}
	}
	return "", false
}

func roleOf(raw json.RawMessage) agui.Role {
	var fields struct {
		Role agui.Role `json:"role"`
	}
	_ = json.Unmarshal(raw, &fields) // without a role it is none of those
	return fields.Role
}

// aside reports whether messages of this role are no part of what was said.
func aside(r agui.Role) bool {
	switch r {
	case agui.RoleReasoning, agui.RoleActivity, agui.RoleSystem, agui.RoleDeveloper:
		return true
	}
	return false
}
