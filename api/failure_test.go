package api_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/eventlog"
)

// Whatever an agent does, the run is closed in the log, the client is told, and
// nothing that came before is lost.
func TestAgentFailures(t *testing.T) {
	begin := strings.Join([]string{
		"data: " + started("r1"), "", "data: " + text("a1", "half")[0], "", "data: " + text("a1", "half")[1], "", "",
	}, "\n")
	sends := func(contentType, body string) agentFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			fmt.Fprint(w, body)
		}
	}
	for name, c := range map[string]struct {
		agent agentFunc
		code  string
		kept  bool // the half message had arrived
	}{
		"answers 500": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom", 500) }, api.CodeAgentStatus, false},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, api.CodeAgentStatus, false},
		"sends HTML": {sends("text/html", "<html>login</html>"), api.CodeAgentContentType, false},
		"sends JSON": {sends("application/json", `{"error":"x"}`), api.CodeAgentContentType, false},
		"hangs before the answer": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, api.CodeAgentTimeout, false},
		"hangs in the middle": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, begin)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, api.CodeAgentTimeout, true},
		"says nothing":      {sends("text/event-stream", ""), api.CodeAgentCut, false},
		"closes early":      {sends("text/event-stream", begin), api.CodeAgentCut, true},
		"is cut in a line":  {sends("text/event-stream", begin+`data: {"type":"TEXT_MESSAGE_CON`), api.CodeAgentCut, true},
		"breaks the stream": {breaks(begin), api.CodeAgentCut, true},
		"sends no JSON":     {sends("text/event-stream", begin+"data: hello\n\n"+"data: {}\n\n"), api.CodeAgentInvalidEvent, true},
		"sends a list":      {sends("text/event-stream", begin+"data: []\n\n"+"data: {}\n\n"), api.CodeAgentInvalidEvent, true},
		"sends no type":     {sends("text/event-stream", begin+"data: {\"a\":1}\n\n"+"data: {}\n\n"), api.CodeAgentInvalidEvent, true},
		"sends bad UTF-8":   {sends("text/event-stream", begin+"data: {\"type\":\"\xff\"}\n\n"+"data: {}\n\n"), api.CodeAgentInvalidEvent, true},
		"sends too much":    {sends("text/event-stream", begin+`data: {"type":"X","s":"`+strings.Repeat("x", 200_000)+"\"}\n\n"), api.CodeAgentTooLarge, true},
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan string, 1)
			b := newBench(t, c.agent, func(o *api.Options) {
				o.AnswerTimeout, o.IdleTimeout, o.EventBytes = 300*time.Millisecond, 300*time.Millisecond, 100_000
				o.Closing = func(_, _, _, code string) { closed <- code }
			})
			got := b.startRun(input("t", "r1", user("u1", "Hi")))
			last := got[len(got)-1]
			if last.kind() != "RUN_ERROR" || !strings.Contains(last.data, c.code) {
				t.Errorf("the client's last event is %s, want code %s", last.data, c.code)
			}
			if code := <-closed; code != c.code {
				t.Errorf("closed with %s", code)
			}
			view, err := b.scope.View(b.ctx, "t")
			if err != nil {
				t.Fatal(err)
			}
			out := string(view.AppendJSON(nil))
			if view.Status != agui.RunFailed || !strings.Contains(out, `"Hi"`) {
				t.Errorf("the view is %s", out)
			}
			if strings.Contains(out, `"half"`) != c.kept {
				t.Errorf("the half message: want it kept %v, the view is %s", c.kept, out)
			}
			// The thread goes on.
			if _, err := b.scope.Append(b.ctx, "t", []byte(started("r2")), []byte(finished("r2"))); err != nil {
				t.Error(err)
			}
		})
	}
}

// breaks is an agent whose connection dies in its answer.
func breaks(begin string) agentFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, begin)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// The words of a failure name no credential of the agent's URL.
func TestUnreachableAgent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	b := newBench(t, says(), func(o *api.Options) {
		o.Agents = map[string]api.Agent{"helper": {URL: "http://user:pa55word@" + address + "/?key=s3cret"}}
	})
	got := b.startRun(input("t", "r1", user("u1", "Hi")))
	last := got[len(got)-1].data
	if !strings.Contains(last, api.CodeAgentUnreachable) {
		t.Errorf("the last event is %s", last)
	}
	for _, r := range b.stored("t") {
		for _, secret := range []string{"pa55word", "s3cret"} {
			if strings.Contains(string(r.Event), secret) {
				t.Errorf("a secret is in the log: %s", r.Event)
			}
		}
	}
}

// A server that closes ends the runs of agents that do not, and begins no more.
func TestCloseEndsRuns(t *testing.T) {
	all := answer("r1", "a1", "Hello")
	agent, _ := held(all[:2], all[2:])
	b := newBench(t, agent)
	live := b.post("/v1/agents/helper/run", input("t", "r1", user("u1", "Hi")))
	for r, err := range b.scope.Follow(b.ctx, "t", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == agui.TypeTextMessageStart {
			break
		}
	}
	now, stop := context.WithCancel(context.Background())
	stop()
	if err := b.server.Close(now); err != nil {
		t.Fatal(err)
	}
	got := b.frames(live)
	if last := got[len(got)-1]; !strings.Contains(last.data, api.CodeStopped) {
		t.Errorf("the last event is %s", last.data)
	}
	resp := b.post("/v1/agents/helper/run", input("t", "r2"))
	if p := problemOf(t, resp); p["code"] != "closed" || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d, problem %v", resp.StatusCode, p)
	}
	if open := openRuns(b.stored("t")); len(open) != 0 {
		t.Errorf("runs left open: %v", open)
	}
}

func openRuns(records []eventlog.Record) map[agui.RunKey]bool {
	open := make(map[agui.RunKey]bool)
	for _, r := range records {
		if r.Type == agui.TypeRunStarted && !r.Echo {
			open[r.Run] = true
		}
		if r.Type.Terminal() {
			delete(open, r.Run)
		}
	}
	return open
}
