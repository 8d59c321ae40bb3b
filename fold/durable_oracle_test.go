package fold_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// deviations are the streams of the oracle that the official client folds
// without an error and that Durable shows otherwise, with the rule that says so
// (fold-rules, docs/fold.md).
var deviations = map[string]string{
	"activity-over-text-replace-false":            "R7",
	"activity-over-text-replaces":                 "R7",
	"activity-reasoning-clash":                    "R7",
	"activity-takes-over-open-text":               "R7",
	"activity-text-clash":                         "R7",
	"chunk-under-activity-id":                     "R7",
	"input-echo-activity-reasoning":               "R7",
	"many-ids-one-prefix":                         "R7",
	"reasoning-into-text-message":                 "R7",
	"text-and-reasoning-one-id":                   "R7",
	"text-into-reasoning-message":                 "R7",
	"text-into-tool-message":                      "R7",
	"encrypted-same-id-two-kinds":                 "R7, R14: a call's own message may not take an id",
	"messages-snapshot-duplicates-collapse-later": "R7, R14",
	"text-duplicate-ids-first-wins":               "R7, R14",
	"tool-id-equals-message-id":                   "R7, R14",
	"tool-parent-not-assistant-clash":             "R7, R14",
	"text-into-parts-replaces":                    "R8",
	"gen-2k":                                      "R9, R18",
	"gen-20k":                                     "R9, R18",
	"gen-small-a":                                 "R9",
	"gen-small-d":                                 "R9, R29",
	"messages-snapshot-drops-open-call":           "R9",
	"messages-snapshot-drops-open-message":        "R9",
	"messages-snapshot-duplicate-ids":             "R9",
	"messages-snapshot-keeps-activity":            "R9",
	"messages-snapshot-order-is-local":            "R9",
	"messages-snapshot-owns-reasoning":            "R9",
	"result-duplicated":                           "R13",
	"messages-snapshot-replaces-open-message":     "R14",
	"tool-same-id-two-messages":                   "R14",
	"tool-start-replayed":                         "R14",
	"tool-start-replayed-next-run":                "R14",
	"gen-small-b":                                 "R18",
	"gen-small-f":                                 "R18",
	"interrupt-cancelled-clears":                  "R18",
	"interrupt-duplicate-ids":                     "R18",
	"interrupt-null-outcome":                      "R18",
	"interrupt-resumed-partially":                 "R18",
	"interrupt-unknown-members":                   "R18",
	"interrupt-unknown-outcome-clears":            "R18",
	"quirk-move-shifts-target":                    "R24",
	"input-echo-state-ignored":                    "R26",
	"story-legacy-server":                         "R27",
	"thinking-full":                               "R27",
	"thinking-mixed-with-reasoning":               "R27",
	"thinking-two-runs":                           "R27",
	"lifecycle-branch-from-earlier-run":           "R34",
}

// Where no rule says otherwise, Durable shows what the official client shows.
func TestDurableIsTheOfficialClientElsewhere(t *testing.T) {
	dir := filepath.Join("testdata", "oracle")
	index, err := os.ReadFile(filepath.Join(dir, "INDEX.md"))
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for line := range strings.Lines(string(index)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.TrimSpace(cells[3]) != "core" {
			continue
		}
		name := strings.TrimSpace(cells[1])
		raw, err := os.ReadFile(filepath.Join(dir, name+".expect.json"))
		if err != nil {
			continue // the large ones are not here
		}
		want := parse(t, raw)
		if !want.Get("error").IsNull() {
			continue // the client stops there, Durable goes on
		}
		t.Run(name, func(t *testing.T) {
			lines := readLines(t, filepath.Join(dir, name+".jsonl"))
			found := differences(t, want, fold.Stream(slices.Values(lines), fold.Options{}, 0))
			switch rule, deviates := deviations[name]; {
			case deviates && len(found) == 0:
				t.Errorf("deviates by %s no more", rule)
			case !deviates:
				for _, difference := range found {
					t.Error(difference)
				}
				same++
			}
		})
	}
	if same < 180 {
		t.Errorf("only %d streams were compared", same)
	}
}

// differences compares a view with an answer of the oracle.
func differences(t *testing.T, want value, v *fold.View) []string {
	t.Helper()
	got := parse(t, v.AppendJSON(nil))
	var interrupts []value
	for _, in := range v.PendingInterrupts {
		interrupts = append(interrupts, in.Interrupt.JSON())
	}
	state := got.Get("state")
	if !state.Present() {
		state = jsonvalue.NewObject() // the client cannot tell
	}
	var c comparer
	for _, at := range []struct {
		name      string
		want, got agui.Value
	}{
		{"messages", want.Get("messages"), got.Get("messages")},
		{"state", want.Get("state"), state},
		{"pendingInterrupts", want.Get("pendingInterrupts"), jsonvalue.NewList(interrupts...)},
	} {
		if !jsonvalue.Equal(at.want, at.got) {
			c.say("%s: want %.600s, got %.600s", at.name, at.want, at.got)
		}
	}
	return c.found
}
