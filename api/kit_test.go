package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agstoretest"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// bench is a server over a store in memory, with one agent called "helper".
type bench struct {
	t      *testing.T
	ctx    context.Context
	store  *agstore.Store
	scope  *agstore.Scope
	server *api.Server
	url    string
	client *client.Client
	inputs chan json.RawMessage // what the agent was sent
}

// agentFunc is what the agent does with one request.
type agentFunc func(w http.ResponseWriter, r *http.Request)

func newBench(t *testing.T, agent agentFunc, adjust ...func(*api.Options)) *bench {
	t.Helper()
	// Every wait of a test ends, also when what it waits for never comes.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	b := &bench{t: t, ctx: ctx, inputs: make(chan json.RawMessage, 100)}
	helper := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.inputs <- body
		agent(w, r)
	}))
	store := agstoretest.Open(t, "", agstore.Options{})
	opts := api.Options{Agents: map[string]api.Agent{"helper": {URL: helper.URL}}}
	for _, f := range adjust {
		f(&opts)
	}
	b.store, b.scope = store, store.Scope(agstore.DefaultScope)
	var err error
	if b.server, err = api.New(store, opts); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(b.server)
	b.url, b.client = front.URL, client.New(front.URL, client.Options{})
	t.Cleanup(func() {
		b.client.Close()
		front.CloseClientConnections()
		front.Close()
		now, stop := context.WithCancel(context.Background())
		stop()
		b.server.Close(now)
		helper.CloseClientConnections()
		helper.Close()
	})
	return b
}

// says is an agent that sends these events as SSE and ends.
func says(events ...string) agentFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}
}

func started(run string) string {
	return fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":%q}`, run)
}

func finished(run string) string {
	return fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":%q}`, run)
}

func text(id, delta string) []string {
	return []string{
		fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":%q,"role":"assistant"}`, id),
		fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":%q}`, id, delta),
		fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":%q}`, id),
	}
}

// answer is what an agent that knows its run says: start, a text, end.
func answer(run, id, delta string) []string {
	return append(append([]string{started(run)}, text(id, delta)...), finished(run))
}

func input(thread, run string, messages ...string) string {
	return fmt.Sprintf(`{"threadId":%q,"runId":%q,"messages":[%s],"tools":[],"context":[],"state":{},"forwardedProps":{}}`,
		thread, run, strings.Join(messages, ","))
}

func user(id, content string) string {
	return fmt.Sprintf(`{"id":%q,"role":"user","content":%q}`, id, content)
}

// post sends a request and gives the answer, whatever its status.
func (b *bench) post(path, body string, headers ...string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.ctx, http.MethodPost, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// frame is one SSE frame of an answer.
type frame struct{ id, data string }

func (f frame) kind() string {
	var e struct{ Type string }
	_ = json.Unmarshal([]byte(f.data), &e)
	return e.Type
}

// frames reads an SSE answer to its end.
func (b *bench) frames(resp *http.Response) []frame {
	b.t.Helper()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		b.t.Fatalf("status %d: %s", resp.StatusCode, body)
	}
	var out []frame
	for e, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, frame{e.LastEventID, e.Data})
	}
	return out
}

// startRun runs the agent and reads the answer to its end.
func (b *bench) startRun(body string, headers ...string) []frame {
	b.t.Helper()
	return b.frames(b.post("/v1/agents/helper/run", body, headers...))
}

// stored reads all records of a thread.
func (b *bench) stored(thread string) []eventlog.Record {
	b.t.Helper()
	var out []eventlog.Record
	for r, err := range b.scope.Read(b.ctx, thread, eventlog.ReadOptions{}) {
		if err != nil && !errors.Is(err, eventlog.ErrThreadNotFound) {
			b.t.Fatal(err)
		}
		if err == nil {
			out = append(out, r)
		}
	}
	for i, r := range out {
		if r.Seq != uint64(i+1) {
			b.t.Fatalf("record %d has seq %d", i+1, r.Seq)
		}
	}
	return out
}

func kinds(frames []frame) string {
	var out []string
	for _, f := range frames {
		if f.data == "" {
			out = append(out, "-")
			continue
		}
		out = append(out, f.kind())
	}
	return strings.Join(out, " ")
}

// problemOf reads a problem answer.
func problemOf(t *testing.T, resp *http.Response) map[string]any {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("content type %q, body %s", got, body)
	}
	var p map[string]any
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if int(p["status"].(float64)) != resp.StatusCode {
		t.Fatalf("status %v in the problem, %d on the wire", p["status"], resp.StatusCode)
	}
	return p
}
