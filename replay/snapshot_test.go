package replay_test

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/replay"
)

// openingAt is the opening at a view, as lines.
func openingAt(t interface{ Fatalf(string, ...any) }, s *source, view *fold.View) (replay.Opening, []string) {
	o, err := replay.Snapshot(context.Background(), s, eventlog.ThreadKey{Scope: "s", Thread: "t"}, view)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	var lines []string
	for _, e := range o.Events {
		lines = append(lines, string(e))
	}
	return o, lines
}

// A client that joins with a snapshot, at whatever point, holds what the view
// has, and when it has followed to the end it holds what a client holds that saw
// every event: nothing is lost and nothing comes twice. Where the view is not what the
// client makes of the raw events (docs/fold.md), the view's word counts.
func TestSnapshotAtEveryPoint(t *testing.T) {
	joined, differ := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		lines := conversation(t)
		s, views := sourceOf(lines), prefixes(lines)
		whole := asClient(lines)
		for n := 1; n <= len(lines); n++ {
			view := views[n-1]
			_, opening := openingAt(t, s, view)
			now := asClient(opening)
			if now.Reference.Error != nil {
				t.Fatalf("at %d: the opening is refused: %v\n%s", n, now.Reference.Error, strings.Join(opening, "\n"))
			}
			if a, b := shown(now), shown(view); a != b {
				t.Fatalf("at %d the client holds\n%sthe view is\n%s%s", n, a, b, strings.Join(opening, "\n"))
			}
			joined++
			if shown(asClient(lines[:n])) != shown(view) {
				differ++
				continue
			}
			after := asClient(append(opening, lines[n:]...))
			if after.Reference.Error != nil {
				t.Fatalf("joined at %d, refused at the end: %v\n%s", n, after.Reference.Error, strings.Join(opening, "\n"))
			}
			if a, b := shown(after), shown(whole); a != b {
				t.Fatalf("joined at %d of %d the client ends with\n%swant\n%sopening\n%s\nall\n%s", n, len(lines), a, b, strings.Join(opening, "\n"), strings.Join(lines, "\n"))
			}
		}
	})
	t.Logf("%d points, %d where view and client differ", joined, differ)
	if joined > 1000 && differ*5 > joined { // a few conversations say nothing about how many
		t.Errorf("of %d points %d were not followed to the end: too many to mean anything", joined, differ)
	}
}
