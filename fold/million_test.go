package fold_test

import (
	"fmt"
	"iter"
	"os"
	"testing"

	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/cputime"
)

// A million ids, of messages and of calls, cost each what the first of them do;
// the short form has a twentieth of them.
func TestMillionIDs(t *testing.T) {
	n := 50_000
	if os.Getenv("AGSTORE_LONG") != "" {
		n = 1_000_000
	}
	for name, events := range map[string][]string{
		"messages": {`{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"x"}`, `{"type":"TEXT_MESSAGE_END","messageId":"m%d"}`},
		"calls":    {`{"type":"TOOL_CALL_START","toolCallId":"c%d","toolCallName":"f"}`, `{"type":"TOOL_CALL_END","toolCallId":"c%d"}`},
		"open":     {`{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`},
	} {
		for _, profile := range bothProfiles {
			t.Run(profile.String()+"/"+name, func(t *testing.T) {
				var v *fold.View
				foldAll := func(n int) func() {
					return func() { v = fold.Stream(ids(n, events), fold.Options{Profile: profile}, 0) }
				}
				few := cputime.Of(foldAll(n / 20))
				most := 20 * 8 * few
				took := cputime.Of(foldAll(n))
				if took > most {
					// A machine with other things to do is slower now and then, never faster.
					took = min(took, cputime.Of(foldAll(n)))
				}
				if len(v.Messages) != n || v.Messages[n-1].ID == "" {
					t.Fatalf("%d messages of %d", len(v.Messages), n)
				}
				if took > most {
					t.Errorf("%d ids took %v, a twentieth of them %v", n, took, few)
				}
				t.Logf("%d ids took %v", n, took)
			})
		}
	}
}

// ids is a run with events n times over, made as they are asked for.
func ids(n int, events []string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !yield([]byte(started(0))) {
			return
		}
		for i := range n {
			for _, e := range events {
				if !yield(fmt.Appendf(nil, e, i)) {
					return
				}
			}
		}
	}
}
