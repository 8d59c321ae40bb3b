package api_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/agstore/agstore/eventlog"
)

// A question is dismissed over HTTP; the conflict of a second one names the run
// that did it, also across the network.
func TestDismissOverHTTP(t *testing.T) {
	b := newBench(t, says(`{"type":"RUN_FINISHED","threadId":"t","runId":"r1","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x"},{"id":"j","reason":"x"}]}}`))
	b.startRun(input("t", "r1", user("u1", "Hi")))
	done, err := b.client.Dismiss(b.ctx, "t", "i")
	if err != nil || len(done.Interrupts) != 1 || done.Last != uint64(len(b.stored("t"))) {
		t.Fatalf("dismissed %+v, %v", done, err)
	}
	conflict := (*eventlog.ConflictError)(nil)
	if _, err := b.client.Dismiss(b.ctx, "t", "i"); !errors.As(err, &conflict) || conflict.Run.ID != string(done.Run) {
		t.Errorf("again: %v", err)
	}
	resp := b.post("/v1/threads/t/dismiss", "")
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the rest of them: %d", resp.StatusCode)
	}
	if _, err := b.client.Dismiss(b.ctx, "t"); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("nothing is pending: %v", err)
	}
	if _, err := b.client.Dismiss(b.ctx, "nobody"); !errors.Is(err, eventlog.ErrThreadNotFound) {
		t.Errorf("no thread: %v", err)
	}
	for body, status := range map[string]int{`[]`: 400, `{"interrupts":7}`: 400, `{"interrupts":["x"]}`: 404} {
		if resp := b.post("/v1/threads/t/dismiss", body); resp.StatusCode != status {
			t.Errorf("%s: %d", body, resp.StatusCode)
		}
	}
}
