package eventlog_test

import (
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Who is fenced off a run that another holds is told so, whichever epoch it has.
func TestFencedSaysWho(t *testing.T) {
	for name, test := range map[string]struct {
		err  eventlog.FencedError
		want string
	}{
		"taken over":   {eventlog.FencedError{Epoch: 1, Current: 2, Owner: "worker-7", Status: agui.RunRunning}, "worker-7"},
		"never given":  {eventlog.FencedError{Epoch: 9, Current: 2, Owner: "worker-7", Status: agui.RunRunning}, "worker-7"},
		"held by none": {eventlog.FencedError{Epoch: 1, Status: agui.RunRunning}, "nobody"},
		"ended":        {eventlog.FencedError{Epoch: 1, Status: agui.RunFailed}, "ended"},
	} {
		if text := test.err.Error(); !strings.Contains(text, test.want) {
			t.Errorf("%s: %q does not say %q", name, text, test.want)
		}
	}
}

// Every kind of fault has a meaning that says what to do or to expect.
func TestFaultKindsMeanSomething(t *testing.T) {
	unknown := eventlog.FaultKind("of a later version").Meaning()
	seen := make(map[eventlog.FaultKind]bool)
	for _, kind := range eventlog.FaultKinds() {
		if kind == "" || seen[kind] || kind.Meaning() == "" || kind.Meaning() == unknown {
			t.Errorf("kind %q: %q", kind, kind.Meaning())
		}
		seen[kind] = true
	}
}
