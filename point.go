package agstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/replay"
)

// FindPoint finds the point of a thread that a text names: "head", "@42" (when
// the thread had so many records), "root" (before the first run), or a run, as
// "id", "id#2", or the beginning of an id that only one run has. "run:" before a
// run's name keeps it from being read as one of the others. Errors:
// ErrThreadNotFound, ErrRunNotFound, ErrInvalid.
func (s *Scope) FindPoint(ctx context.Context, thread, text string) (replay.Point, error) {
	name, isRun := strings.CutPrefix(text, "run:")
	if !isRun {
		if text == "head" {
			return replay.AtHead(), nil
		}
		if digits, ok := strings.CutPrefix(text, "@"); ok {
			seq, err := strconv.ParseUint(digits, 10, 64)
			if err != nil {
				return replay.Point{}, &eventlog.Error{
					Op: "find " + text + " of", Key: s.key(thread), Err: &eventlog.InvalidError{Reason: "behind @ comes a seq: a number from 0"},
				}
			}
			return replay.AtSeq(seq), nil
		}
	}
	runs, err := s.Runs(ctx, thread)
	if err != nil {
		return replay.Point{}, err
	}
	tree := eventlog.Tree(runs)
	if key, ok := agui.ParseRunKey(tree, name); ok {
		return replay.AtRun(key), nil
	}
	if name == agui.RootParent && !isRun {
		return replay.AtSeq(0), nil
	}
	var found []string
	var key agui.RunKey
	for _, r := range runs {
		// Of several attempts of one id the latest is meant, as with the whole id.
		if name != "" && strings.HasPrefix(r.Key.ID, name) {
			if r.Key.ID != key.ID || len(found) == 0 {
				found = append(found, r.Key.ID)
			}
			key = r.Key
		}
	}
	switch len(found) {
	case 1:
		return replay.AtRun(key), nil
	case 0:
		return replay.Point{}, &eventlog.Error{
			Op: "find run " + name + " of", Key: s.key(thread), Err: eventlog.ErrRunNotFound,
			Hint: "a point is a run, @SEQ, head or root; agstore runs lists the runs of a thread",
		}
	}
	reason, more := fmt.Sprintf("%d runs begin with that", len(found)), ""
	if len(found) > 10 {
		found, more = found[:10], " …"
	}
	return replay.Point{}, &eventlog.Error{
		Op: "find run " + name + " of", Key: s.key(thread), Err: &eventlog.InvalidError{Reason: reason},
		Hint: "they are " + strings.Join(found, " ") + more,
	}
}

// Diff says what has to be done to the view at one point to get that at another:
// two moments, or two branches. Errors as ViewAt.
func (s *Scope) Diff(ctx context.Context, thread string, from, to replay.Point) (replay.Difference, error) {
	a, err := s.ViewAt(ctx, thread, from)
	if err != nil {
		return replay.Difference{}, err
	}
	b, err := s.ViewAt(ctx, thread, to)
	if err != nil {
		return replay.Difference{}, err
	}
	return replay.Diff(a, b)
}
