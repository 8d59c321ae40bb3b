package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// recording is a thread of two runs, which a server has recorded.
func recording(t *testing.T) (*bench, func(context.Context) iter.Seq2[eventlog.Record, error]) {
	var n int
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		says(answer(fmt.Sprint("r", n), fmt.Sprint("a", n), fmt.Sprint("answer ", n))...)(w, r)
	})
	b.startRun(input("t", "r1", user("u1", "Hi")))
	b.startRun(input("t", "r2", user("u2", "More")))
	return b, func(ctx context.Context) iter.Seq2[eventlog.Record, error] {
		return b.client.Records(ctx, "t", client.EventOptions{})
	}
}

// replayed serves a recording; it gives the types of the events of an answer, and
// whether it was cut off.
func replayed(t *testing.T, opts api.ReplayOptions) (url string, ask func(path, body string) ([]frame, error)) {
	b, records := recording(t)
	h, err := api.ServeReplay(b.ctx, records, opts)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL, func(path, body string) ([]frame, error) {
		resp, err := http.Post(server.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		var out []frame
		for e, err := range sse.Read(resp.Body, nil) {
			if err != nil {
				return out, err
			}
			out = append(out, frame{e.LastEventID, e.Data})
		}
		return out, nil
	}
}

// Each run of a thread is answered with the next recorded one, under the ids of the
// request; the same run again with the same; another thread begins anew.
func TestReplayAgent(t *testing.T) {
	_, ask := replayed(t, api.ReplayOptions{})
	for _, c := range []struct{ thread, run, says string }{
		{"x", "one", "answer 1"}, {"x", "two", "answer 2"}, {"x", "one", "answer 1"}, {"y", "one", "answer 1"}, {"x", "three", "AGSTORE_REPLAY_OVER"},
	} {
		got, err := ask("/", input(c.thread, c.run, user("mine", "Hello")))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range got {
			all = append(all, f.data)
		}
		text := strings.Join(all, "\n")
		if !strings.Contains(text, c.says) || strings.Contains(text, `"u1"`) {
			t.Errorf("%s of %s: %s", c.run, c.thread, text)
		}
		if want := fmt.Sprintf(`{"type":"RUN_STARTED","threadId":%q,"runId":%q}`, c.thread, c.run); all[0] != want {
			t.Errorf("it begins with %s, want %s", all[0], want)
		}
		holds(t, all)
	}
	// Who has said nothing is shown what the user said, and all of it on connect.
	got, err := ask("/", input("z", "one"))
	if err != nil || !strings.Contains(got[0].data, `"u1"`) {
		t.Errorf("to a client without messages: %v %v", got, err)
	}
	got, err = ask("/connect", input("z", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED ", 2); kinds(got)+" " != want {
		t.Errorf("all: %s", kinds(got))
	}
}

func TestReplayAgentFaults(t *testing.T) {
	// Seq 2 is the agent's own start, an echo; the text is 3 to 5.
	_, ask := replayed(t, api.ReplayOptions{CutAt: 4, DropTypes: []agui.Type{agui.TypeTextMessageStart}, DropSeqs: []uint64{9}})
	got, err := ask("/", input("x", "one"))
	if kinds(got) != "RUN_STARTED TEXT_MESSAGE_CONTENT" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %s, %v", kinds(got), err)
	}
	got, err = ask("/", input("x", "two"))
	if kinds(got) != "RUN_STARTED TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" || err != nil {
		t.Errorf("behind the cut: %s, %v", kinds(got), err)
	}
}

// Step by step: nothing comes that was not asked for.
func TestReplayAgentSteps(t *testing.T) {
	steps := make(chan struct{})
	url, _ := replayed(t, api.ReplayOptions{Step: func(ctx context.Context) error {
		select {
		case <-steps:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(input("x", "one")))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan *http.Response, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
		}
		answered <- resp
	}()
	steps <- struct{}{}
	resp := <-answered
	if resp == nil {
		return
	}
	defer resp.Body.Close()
	n := 0
	for _, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n < 5 {
			select {
			case steps <- struct{}{}: // taken only when the event before is out
			case <-ctx.Done():
				t.Fatal("the next event does not wait for a step")
			}
		}
	}
	if n != 5 {
		t.Errorf("%d events", n)
	}
}

// Delays and the pace are pauses: a client that goes away ends them.
func TestReplayAgentPauses(t *testing.T) {
	url, _ := replayed(t, api.ReplayOptions{DelayAt: map[uint64]time.Duration{4: time.Hour}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(input("x", "one")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n := 0
	for _, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			break
		}
		if n++; n == 2 {
			cancel() // the third would come in an hour
		}
	}
	if n != 2 {
		t.Errorf("%d events came before the delay", n)
	}
}

func TestReplayAgentRefuses(t *testing.T) {
	url, _ := replayed(t, api.ReplayOptions{Origin: "http://localhost:3000"})
	for _, c := range []struct {
		method, body, origin string
		status               int
	}{
		{http.MethodGet, "", "", 405}, {http.MethodPost, "no JSON", "", 400}, {http.MethodPost, "{}", "", 400},
		{http.MethodPost, input("x", "y"), "http://evil.example", 403}, {http.MethodPost, input("x", "y"), "http://localhost:3000", 200},
		{http.MethodOptions, "", "http://localhost:3000", 204},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != c.status || (c.status < 300 && resp.Header.Get("Access-Control-Allow-Origin") != c.origin) {
			t.Errorf("%s %q of %s: %d", c.method, c.body, c.origin, resp.StatusCode)
		}
		resp.Body.Close()
	}
}
