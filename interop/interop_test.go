package interop

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
)

// TestClientConnects shows what agstore relies on in the official client when it answers a connect: a frame that has only
// an id is no event, the user's turn comes out of RUN_STARTED, and a thread goes on behind a run that failed.
func TestClientConnects(t *testing.T) {
	needClient(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, data := range []string{
			`{"type":"RUN_STARTED","threadId":"t","runId":"r1","input":{"threadId":"t","runId":"r1","messages":[{"id":"u1","role":"user","content":"Hi"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}}`,
			``,
			`{"type":"TEXT_MESSAGE_START","messageId":"a1","role":"assistant"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"Hel"}`,
			`{"type":"TEXT_MESSAGE_END","messageId":"a1"}`,
			`{"type":"RUN_ERROR","message":"the recorder died","code":"AGSTORE_ABANDONED"}`,
			`{"type":"RUN_STARTED","threadId":"t","runId":"r2","input":{"threadId":"t","runId":"r2","messages":[{"id":"u2","role":"user","content":"Again"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}}`,
			`{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}`,
			`{"type":"RUN_FINISHED","threadId":"t","runId":"r2"}`,
		} {
			fmt.Fprintf(w, "id: %d\n", i+1)
			if data != "" {
				fmt.Fprintf(w, "data: %s\n", data)
			}
			fmt.Fprint(w, "\n")
		}
	}))
	defer server.Close()

	got := startClient(t, "connect.mjs", job{URL: server.URL, ThreadID: "t"}).succeed(t)
	want := []map[string]any{
		{"id": "u1", "role": "user", "content": "Hi"},
		{"id": "a1", "role": "assistant", "content": "Hel"},
		{"id": "u2", "role": "user", "content": "Again"},
	}
	if !reflect.DeepEqual(got.Messages, want) {
		t.Errorf("messages = %v, want %v", got.Messages, want)
	}
	if want := any(event{"n": 1.0}); !reflect.DeepEqual(got.State, want) {
		t.Errorf("state = %v, want %v", got.State, want)
	}
}

// TestRunThroughProxy: a client cannot tell the recording proxy from the agent behind it, nor the agent the proxy from
// the client.
func TestRunThroughProxy(t *testing.T) {
	needClient(t)
	a := startAgent(t, func(in runInput) []step { return slices.Concat(opening(in), closing(in)) })
	turns := []turn{{"r1", "How is the weather?"}, {"r2", "And \"now\"? ☔"}}

	direct := startClient(t, "run.mjs", job{URL: a.url, ThreadID: "t", Turns: turns}).succeed(t)
	<-a.inputs
	directInput := <-a.inputs
	if len(direct.Messages) != 10 || contentOf(direct, "text-r2") != "It rains in Köln 🌧." {
		t.Fatalf("the direct client shows %v, want user, reasoning, call, result and text, twice", direct.Messages)
	}

	s := startServer(t, t.TempDir(), a)
	proxied := startClient(t, "run.mjs", job{URL: s.runURL(), ThreadID: "t", Turns: turns}).succeed(t)
	<-a.inputs
	proxiedInput := <-a.inputs

	same(t, "the client through the proxy", proxied, direct)
	if !reflect.DeepEqual(proxiedInput, directInput) {
		t.Errorf("the agent was sent, through the proxy,\n%v\nand directly\n%v", proxiedInput, directInput)
	}
	connected := startClient(t, "connect.mjs", job{URL: s.connectURL(), ThreadID: "t"}).succeed(t)
	same(t, "a client that connects afterwards", connected, direct)
}

// TestSecondClientInTheMiddle: the agent stands still in the middle of its text until a second client, which knew
// nothing of the thread, has caught up with it; then both follow it to the end.
func TestSecondClientInTheMiddle(t *testing.T) {
	needClient(t)
	gate := make(chan struct{})
	a := startAgent(t, func(in runInput) []step { return slices.Concat(opening(in), hold(gate), closing(in)) })
	s := startServer(t, t.TempDir(), a)

	first := startClient(t, "run.mjs", job{URL: s.runURL(), ThreadID: "t", Turns: []turn{{"r1", "How is the weather?"}}})
	first.await(t, "TEXT_MESSAGE_CONTENT")
	second := startClient(t, "connect.mjs", job{URL: s.connectURL(), ThreadID: "t"})
	second.await(t, "TEXT_MESSAGE_CONTENT")
	close(gate)

	ran, connected := first.succeed(t), second.succeed(t)
	same(t, "the second client", connected, ran)
	if text := contentOf(ran, "text-r1"); text != "It rains in Köln 🌧." {
		t.Errorf("the text is %q", text)
	}
	if text := contentOf(connected, "user-r1"); text != "How is the weather?" {
		t.Errorf("the user's turn is %q with the second client", text)
	}
}

// TestKilledInTheMiddle: the server dies by kill -9 in the middle of a run. A new one on the same directory has the
// whole conversation up to there, and it goes on.
func TestKilledInTheMiddle(t *testing.T) {
	needClient(t)
	a := startAgent(t, func(in runInput) []step {
		if in.RunID == "r1" {
			return slices.Concat(opening(in), hold(make(chan struct{})), closing(in))
		}
		return slices.Concat(opening(in), closing(in))
	})
	data := t.TempDir()
	s := startServer(t, data, a)
	first := startClient(t, "run.mjs", job{URL: s.runURL(), ThreadID: "t", Turns: []turn{{"r1", "How is the weather?"}}})
	first.await(t, "TEXT_MESSAGE_CONTENT")
	s.kill(t)
	seen, _ := first.end(t)
	if text := contentOf(seen, "text-r1"); text != "It rains" {
		t.Fatalf("the first client shows %q before the crash", text)
	}

	s = startServer(t, data, a)
	third, types := startClient(t, "connect.mjs", job{URL: s.connectURL(), ThreadID: "t"}).end(t)
	if len(types) == 0 || types[len(types)-1] != "RUN_ERROR" {
		t.Errorf("the cut run ends with %q, want RUN_ERROR at last", types)
	}
	if !reflect.DeepEqual(third.Messages, seen.Messages) || !reflect.DeepEqual(third.State, seen.State) {
		t.Errorf("after the crash:\n%v\n%v\nseen before it:\n%v\n%v", third.Messages, third.State, seen.Messages, seen.State)
	}
	if text := contentOf(third, "user-r1"); text != "How is the weather?" {
		t.Errorf("the user's turn is %q after the crash", text)
	}

	next := job{URL: s.runURL(), ThreadID: "t", Messages: third.Messages, Turns: []turn{{"r2", "Go on."}}}
	after := startClient(t, "run.mjs", next).succeed(t)
	if text := contentOf(after, "text-r2"); text != "It rains in Köln 🌧." {
		t.Errorf("the next run says %q", text)
	}
	if text := contentOf(after, "text-r1"); text != "It rains" {
		t.Errorf("the cut run says %q after the next one", text)
	}
	all := startClient(t, "connect.mjs", job{URL: s.connectURL(), ThreadID: "t"}).succeed(t)
	same(t, "a client that connects to all of it", all, after)
}

// same compares what two clients hold.
func same(t *testing.T, who string, got, want outcome) {
	t.Helper()
	if !reflect.DeepEqual(got.Messages, want.Messages) {
		t.Errorf("%s has the messages\n%v\nwant\n%v", who, got.Messages, want.Messages)
	}
	if !reflect.DeepEqual(got.State, want.State) {
		t.Errorf("%s has the state %v, want %v", who, got.State, want.State)
	}
	if !reflect.DeepEqual(got.PendingInterrupts, want.PendingInterrupts) {
		t.Errorf("%s has the interrupts %v, want %v", who, got.PendingInterrupts, want.PendingInterrupts)
	}
}

// contentOf returns the text of a message, or nothing.
func contentOf(o outcome, id string) any {
	for _, m := range o.Messages {
		if m["id"] == id {
			return m["content"]
		}
	}
	return nil
}
