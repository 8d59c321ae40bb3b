package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tmaxmax/go-sse"

	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// A run is recorded before the client sees it, verbatim, with the seq as id.
func TestRunIsRecordedAndStreamed(t *testing.T) {
	odd := `{ "type":"TEXT_MESSAGE_CONTENT", "messageId":"a1","delta":"<b>&\ud83c","n":9007199254740993,"n":1.0 }`
	events := answer("r1", "a1", "Hello")
	events = append(events[:2], append([]string{odd}, events[2:]...)...)
	b := newBench(t, says(events...))
	got := b.startRun(input("t", "r1", user("u1", "Hi")))
	want := "RUN_STARTED - TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
	if kinds(got) != want {
		// go-sse leaves out frames without data.
		if kinds(got) != strings.Replace(want, "- ", "", 1) {
			t.Fatalf("got  %s\nwant %s", kinds(got), want)
		}
	}
	records := b.stored("t")
	if len(records) != 7 {
		t.Fatalf("%d records", len(records))
	}
	if r := records[0]; r.Origin != eventlog.OriginStore || !strings.Contains(string(r.Event), `"content":"Hi"`) {
		t.Errorf("the first record is not the store's start with the user's turn: %v %s", r.Origin, r.Event)
	}
	if r := records[1]; !r.Echo || string(r.Event) != events[0] {
		t.Errorf("the agent's start is not kept as an echo: %+v", r)
	}
	for i, e := range events[1:] {
		if string(records[i+2].Event) != e {
			t.Errorf("seq %d is %s, sent was %s", i+3, records[i+2].Event, e)
		}
	}
	for _, f := range got {
		if f.data != "" {
			var seq int
			fmt.Sscan(f.id, &seq)
			if string(records[seq-1].Event) != f.data {
				t.Errorf("frame %s is %s, stored is %s", f.id, f.data, records[seq-1].Event)
			}
		}
	}
}

// The bare id line of an echo is on the wire.
func TestEchoIsABareID(t *testing.T) {
	b := newBench(t, says(answer("r1", "a1", "Hello")...))
	resp := b.post("/v1/agents/helper/run", input("t", "r1", user("u1", "Hi")))
	var wire strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		wire.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if !strings.Contains(wire.String(), "id: 2\n\n") {
		t.Errorf("no bare id in %s", wire.String())
	}
	if strings.Count(wire.String(), "RUN_STARTED") != 1 {
		t.Errorf("the start is there more than once: %s", wire.String())
	}
}

// held is an agent that says first, then waits for the signal, then the rest.
func held(first, rest []string) (agentFunc, chan struct{}) {
	release := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range first {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		for _, e := range rest {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}, release
}

// A run goes on when its client leaves.
func TestRunOutlivesItsClient(t *testing.T) {
	all := answer("r1", "a1", "Hello")
	agent, release := held(all[:2], all[2:])
	b := newBench(t, agent)
	ctx, leave := context.WithCancel(b.ctx)
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/agents/helper/run", strings.NewReader(input("t", "r1", user("u1", "Hi"))))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(e.Data, "TEXT_MESSAGE_START") {
			break
		}
	}
	leave()
	resp.Body.Close()
	close(release)
	for r, err := range b.scope.Follow(b.ctx, "t", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type.Terminal() {
			break
		}
	}
	view, err := b.scope.View(b.ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if out := string(view.AppendJSON(nil)); !strings.Contains(out, `"Hello"`) || !strings.Contains(out, `"success"`) {
		t.Errorf("the view is %s", out)
	}
}

// The same request again joins the run; the same id for something else is a
// conflict; nothing runs twice (DESIGN decision 5).
func TestSameRunIDJoins(t *testing.T) {
	b := newBench(t, says(answer("r1", "a1", "Hello")...))
	body := input("t", "r1", user("u1", "Hi"))
	first := b.startRun(body)
	second := b.startRun(body)
	if kinds(first) != kinds(second) || len(b.inputs) != 1 {
		t.Errorf("first %s\nagain %s\nthe agent was called %d times", kinds(first), kinds(second), len(b.inputs))
	}
	resp := b.post("/v1/agents/helper/run", input("t", "r1", user("u9", "Other")))
	if p := problemOf(t, resp); resp.StatusCode != http.StatusConflict || p["code"] != "run_exists" || p["run"] != "r1" {
		t.Errorf("status %d, problem %v", resp.StatusCode, p)
	}
}

// A second run while one is live is refused and named.
func TestSecondRunIsRefusedWhileOneIsLive(t *testing.T) {
	all := answer("r1", "a1", "Hello")
	agent, release := held(all[:2], all[2:])
	b := newBench(t, agent)
	live := b.post("/v1/agents/helper/run", input("t", "r1", user("u1", "Hi")))
	resp := b.post("/v1/agents/helper/run", input("t", "r2", user("u2", "And?")))
	if p := problemOf(t, resp); resp.StatusCode != http.StatusConflict || p["code"] != "run_active" || p["run"] != "r1" {
		t.Errorf("status %d, problem %v", resp.StatusCode, p)
	}
	close(release)
	b.frames(live)
	for _, r := range b.stored("t") {
		if strings.Contains(string(r.Event), "And?") {
			t.Errorf("the refused turn is in the log: %s", r.Event)
		}
	}
}

// The agent is sent the stored transcript and state, the log only what is new,
// and no forwardedProps.
func TestAgentGetsTheHistory(t *testing.T) {
	events := answer("r1", "a1", "Hello")
	events = append(events[:4], `{"type":"STATE_SNAPSHOT","snapshot":{"n":9007199254740993}}`, events[4])
	b := newBench(t, says(events...))
	b.startRun(input("t", "r1", user("u1", "Hi")))
	<-b.inputs
	body := strings.Replace(input("t", "r2", user("u2", "More")), `"forwardedProps":{}`, `"forwardedProps":{"token":"s3cret"},"extra":1`, 1)
	b.startRun(body)
	var sent struct {
		Messages []struct{ ID, Role, Content string }
		State    json.RawMessage
		Extra    int
		Props    map[string]string `json:"forwardedProps"`
	}
	if err := json.Unmarshal(<-b.inputs, &sent); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(sent.Messages) != "[{u1 user Hi} {a1 assistant Hello} {u2 user More}]" {
		t.Errorf("messages %v", sent.Messages)
	}
	if string(sent.State) != `{"n":9007199254740993}` || sent.Extra != 1 || sent.Props["token"] != "s3cret" {
		t.Errorf("state %s, extra %d, props %v", sent.State, sent.Extra, sent.Props)
	}
	for _, r := range b.stored("t") {
		if strings.Contains(string(r.Event), "s3cret") {
			t.Errorf("a secret is in the log: %s", r.Event)
		}
		if r.Seq > 6 && strings.Contains(string(r.Event), `"Hi"`) {
			t.Errorf("a message that was known is stored again: %s", r.Event)
		}
	}
}

// With Agstore-History: client the agent is sent what the client sent.
func TestClientHistory(t *testing.T) {
	b := newBench(t, says(answer("r1", "a1", "Hello")...))
	b.startRun(input("t", "r1", user("u1", "Hi")))
	<-b.inputs
	b.startRun(input("t", "r2", user("u2", "More")), api.HistoryHeader, "client")
	if sent := string(<-b.inputs); strings.Contains(sent, "Hello") {
		t.Errorf("the agent was sent %s", sent)
	}
	resp := b.post("/v1/agents/helper/run", input("t", "r3"), api.HistoryHeader, "both")
	if p := problemOf(t, resp); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d, problem %v", resp.StatusCode, p)
	}
}

// A run with a parent is a branch: its agent and its view know nothing of the
// other path.
func TestRunFromAnEarlierRun(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
	})
	for i := 1; i <= 3; i++ {
		run, id := fmt.Sprintf("r%d", i), fmt.Sprintf("a%d", i)
		var events [][]byte
		for _, e := range answer(run, id, "answer "+id) {
			events = append(events, []byte(e))
		}
		if _, err := b.scope.Append(b.ctx, "t", events...); err != nil {
			t.Fatal(err)
		}
	}
	body := strings.Replace(input("t", "r4", user("u4", "Again")), `"runId":"r4"`, `"runId":"r4","parentRunId":"r1"`, 1)
	b.startRun(body)
	sent := string(<-b.inputs)
	if !strings.Contains(sent, "answer a1") || strings.Contains(sent, "answer a2") {
		t.Errorf("the agent was sent %s", sent)
	}
	view, err := b.client.View(b.ctx, "t", clientView("r4"))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(view); !strings.Contains(s, "answer a1") || strings.Contains(s, "answer a2") || !strings.Contains(s, "Again") {
		t.Errorf("the view is %s", s)
	}
	runs, err := b.client.Runs(b.ctx, "t")
	if err != nil || len(runs) != 4 || *runs[3].Parent != "r1" || !runs[3].Head {
		t.Errorf("runs %+v, %v", runs, err)
	}
}

// A parentRunId that names no run is no pointer: the run follows the head, and
// the view says so (fold-rules R33).
func TestRunWithAnUnknownParent(t *testing.T) {
	b := newBench(t, says(answer("r2", "a2", "two")...))
	for _, e := range answer("r1", "a1", "one") {
		if _, err := b.scope.Append(b.ctx, "t", []byte(e)); err != nil {
			t.Fatal(err)
		}
	}
	b.startRun(strings.Replace(input("t", "r2", user("u2", "And?")), `"runId":"r2"`, `"runId":"r2","parentRunId":"typo"`, 1))
	view, err := b.scope.View(b.ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if s := string(view.AppendJSON(nil)); !strings.Contains(s, "one") || !strings.Contains(s, "two") || !strings.Contains(s, "unknown_parent") {
		t.Errorf("the view is %s", s)
	}
}

func TestBadRunRequests(t *testing.T) {
	b := newBench(t, says())
	for name, c := range map[string]struct {
		agent, body string
		status      int
		code        string
	}{
		"no such agent":    {"nobody", input("t", "r1"), 404, "agent_not_found"},
		"not JSON":         {"helper", "hello", 400, "invalid"},
		"a list":           {"helper", "[]", 400, "invalid"},
		"null":             {"helper", "null", 400, "invalid"},
		"cut":              {"helper", `{"threadId":"t"`, 400, "invalid"},
		"no thread":        {"helper", `{"runId":"r"}`, 400, "invalid"},
		"empty thread":     {"helper", `{"threadId":"","runId":"r"}`, 400, "invalid"},
		"run is a number":  {"helper", `{"threadId":"t","runId":1}`, 400, "invalid"},
		"messages no list": {"helper", `{"threadId":"t","runId":"r","messages":{}}`, 400, "invalid"},
		"message a string": {"helper", `{"threadId":"t","runId":"r","messages":["x"]}`, 400, "invalid"},
		"invalid UTF-8":    {"helper", "{\"threadId\":\"t\xff\",\"runId\":\"r\"}", 400, "invalid"},
		"long thread id":   {"helper", input(strings.Repeat("t", 5000), "r"), 413, "too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := b.post("/v1/agents/"+c.agent+"/run", c.body)
			p := problemOf(t, resp)
			if resp.StatusCode != c.status || p["code"] != c.code {
				t.Errorf("status %d, problem %v", resp.StatusCode, p)
			}
		})
	}
	for th, err := range b.scope.Threads(b.ctx, "") {
		t.Errorf("a refused request left thread %v, %v", th, err)
	}
}

// A user's edit is a branch: the agent is told the edited words and not the old
// ones, and the log has both.
func TestEditIsABranch(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) { says(answer("x", "a", "Hello")...)(w, r) })
	b.startRun(input("t", "r1", user("u1", "question")))
	<-b.inputs
	resp := b.post("/v1/agents/helper/run", input("t", "r2", user("u1", "edited")))
	if got := resp.Header.Get(api.ParentRunHeader); got != "" {
		t.Errorf("an edit of the first turn continues %q", got)
	}
	b.frames(resp)
	if sent := string(<-b.inputs); !strings.Contains(sent, "edited") || strings.Contains(sent, "question") || strings.Contains(sent, "Hello") {
		t.Errorf("the agent was sent %s", sent)
	}
	for run, want := range map[string]string{"r1": "question", "r2": "edited"} {
		view, err := b.client.View(b.ctx, "t", clientView(run))
		if err != nil || !strings.Contains(string(view), want) {
			t.Errorf("run %s: %s, %v", run, view, err)
		}
	}
	resp = b.post("/v1/agents/helper/run", input("t", "r3", user("u2", "more")))
	if got := resp.Header.Get(api.ParentRunHeader); got != "r2" {
		t.Errorf("the next run continues %q", got)
	}
	b.frames(resp)
}

// The state an agent is sent is the state its run starts with in the log.
func TestStateOfARun(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		parent  string
		sent    string
		want    string // behind the run's delta
	}{
		"the stored one":              {nil, "", `{"k":1,"n":9}`, `{"k":1,"n":2}`},
		"the client's":                {[]string{api.StateHeader, "client"}, "", `{"n":1}`, `{"n":2}`},
		"on a branch from nothing":    {nil, "root", `{"n":1}`, `{"n":2}`},
		"on a branch with the stored": {nil, "r0", `{"k":1,"n":9}`, `{"k":1,"n":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, says(started("r1"), `{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}`, finished("r1")))
			if _, err := b.scope.Append(b.ctx, "t", lines(started("r0"), `{"type":"STATE_SNAPSHOT","snapshot":{"k":1,"n":9}}`, finished("r0"))...); err != nil {
				t.Fatal(err)
			}
			body := strings.Replace(input("t", "r1", user("u1", "Hi")), `"state":{}`, `"state":{"n":1}`, 1)
			if c.parent != "" {
				body = strings.Replace(body, `"runId"`, `"parentRunId":"`+c.parent+`","runId"`, 1)
			}
			b.startRun(body, c.headers...)
			var sent struct{ State json.RawMessage }
			if err := json.Unmarshal(<-b.inputs, &sent); err != nil || string(sent.State) != c.sent {
				t.Errorf("the agent was sent %s, %v", sent.State, err)
			}
			view, err := b.scope.View(b.ctx, "t")
			if err != nil || string(view.State) != c.want {
				t.Errorf("the state is %s, %v", view.State, err)
			}
		})
	}
}

// What an agent says behind its run's end is read and is nobody's.
func TestWhatComesBehindTheEnd(t *testing.T) {
	said := make(chan error, 1)
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		says(append(answer("r1", "a1", "Hello"), `{"type":"CUSTOM","name":"late","value":1}`)...)(w, r)
		w.(http.Flusher).Flush()
		_, err := fmt.Fprint(w, ": goodbye\n\n")
		w.(http.Flusher).Flush()
		said <- err
	})
	got := b.startRun(input("t", "r1", user("u1", "Hi")))
	if err := <-said; err != nil {
		t.Errorf("the agent was cut off: %v", err)
	}
	if last := got[len(got)-1]; last.kind() != "RUN_FINISHED" || len(b.stored("t")) != 6 {
		t.Errorf("the last frame is %v, %d records", last, len(b.stored("t")))
	}
}

// Asked again for an answer, the agent is sent what was before it; a resume with
// the same messages is of the head, and so is what a stale tab sends.
func TestAskedAgainIsABranch(t *testing.T) {
	n := 0
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		says(answer("x", fmt.Sprint("a", n), fmt.Sprint("answer ", n))...)(w, r)
	})
	b.startRun(input("t", "r1", user("u1", "one")))
	b.startRun(input("t", "r2", user("u1", "one"), user("u2", "two")))
	<-b.inputs
	<-b.inputs
	resp := b.post("/v1/agents/helper/run", input("t", "r3", user("u1", "one"), user("u2", "two")))
	if got := resp.Header.Get(api.ParentRunHeader); got != "r1" {
		t.Errorf("another answer to u2 continues %q", got)
	}
	b.frames(resp)
	if sent := string(<-b.inputs); strings.Contains(sent, "answer 2") || strings.Count(sent, `"u2"`) != 1 {
		t.Errorf("the agent was sent %s", sent)
	}
	for run, body := range map[string]string{
		"r4": strings.Replace(input("t", "r4", user("u1", "one")), `"tools":[]`, `"tools":[],"resume":[{"interruptId":"i","status":"resolved"}]`, 1),
		"r5": input("t", "r5", user("u1", "one"), user("u9", "from a stale tab")),
	} {
		view, err := b.client.View(b.ctx, "t", client.ViewOptions{Messages: 1})
		if err != nil {
			t.Fatal(err)
		}
		var head struct{ Run string }
		if err := json.Unmarshal(view, &head); err != nil {
			t.Fatal(err)
		}
		resp := b.post("/v1/agents/helper/run", body)
		if got := resp.Header.Get(api.ParentRunHeader); got != head.Run {
			t.Errorf("%s continues %q, want the head %q", run, got, head.Run)
		}
		b.frames(resp)
	}
}
