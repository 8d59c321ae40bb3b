package api_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// L3 over HTTP: who answers an interrupt that another run has answered is told
// which, and the agent does not hear of it; so is who appends at an old seq.
func TestAnsweredInterruptNamesTheRun(t *testing.T) {
	var calls atomic.Int32
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			says(`{"type":"RUN_FINISHED","threadId":"t","runId":"r1","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"tool_call"}]}}`)(w, r)
			return
		}
		says(answer("r2", "a2", "Done")...)(w, r)
	})
	b.startRun(input("t", "r1", user("u1", "Hi")))
	resume := func(run string) string {
		return strings.Replace(input("t", run), `"tools":[]`, `"tools":[],"resume":[{"interruptId":"i","status":"resolved"}]`, 1)
	}
	asked := uint64(len(b.stored("t")))
	b.startRun(resume("r2"))
	resp := b.post("/v1/agents/helper/run", resume("r3"))
	p := problemOf(t, resp)
	if resp.StatusCode != http.StatusConflict || p["code"] != "conflict" || p["run"] != "r2" || p["expected"] != float64(asked) || calls.Load() != 2 {
		t.Errorf("status %d, problem %v, the agent was called %d times", resp.StatusCode, p, calls.Load())
	}
	if runs, err := b.scope.Runs(b.ctx, "t"); err != nil || len(runs) != 2 || runs[1].Status != agui.RunSuccess {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	last := uint64(len(b.stored("t")))
	_, err := b.client.Append(b.ctx, "t", [][]byte{[]byte(started("r4"))}, client.AppendOptions{Expect: &asked})
	conflict := (*eventlog.ConflictError)(nil)
	if !errors.As(err, &conflict) || conflict.Expected != asked || conflict.Actual != last || conflict.Run != (agui.RunKey{ID: "r2", Attempt: 1}) || conflict.Owner == "" {
		t.Errorf("an append at the old seq is told %v", err)
	}
	if n := len(b.stored("t")); uint64(n) != last {
		t.Errorf("%d records, were %d", n, last)
	}
}
