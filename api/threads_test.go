package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

func clientView(run string) client.ViewOptions { return client.ViewOptions{Run: &run} }

func lines(events ...string) [][]byte {
	out := make([][]byte, len(events))
	for i, e := range events {
		out[i] = []byte(e)
	}
	return out
}

func importOf(events ...string) eventlog.Batch {
	return eventlog.Batch{Events: lines(events...), Origin: eventlog.OriginImport}
}

// What is no event is refused with the right status, says which line and why,
// and nothing of the batch is written (issue 2, must hold 6).
func TestAppendRefusesWhatIsNoEvent(t *testing.T) {
	good := `{"type":"CUSTOM","name":"n","value":1}`
	for name, c := range map[string]struct {
		line   string
		status int
		code   string
	}{
		"not JSON":      {`hello`, 422, "invalid_event"},
		"a list":        {`[]`, 422, "invalid_event"},
		"null":          {`null`, 422, "invalid_event"},
		"no type":       {`{"a":1}`, 422, "invalid_event"},
		"type a number": {`{"type":1}`, 422, "invalid_event"},
		"cut":           {`{"type":"CUSTOM","name":"n`, 422, "invalid_event"},
		"two values":    {`{"type":"CUSTOM"} {"type":"CUSTOM"}`, 422, "invalid_event"},
		"invalid UTF-8": {"{\"type\":\"CUSTOM\",\"name\":\"\xc3\x28\"}", 422, "invalid_event"},
		"raw surrogate": {"{\"type\":\"CUSTOM\",\"name\":\"\xed\xa0\xbc\"}", 422, "invalid_event"},
		"nested deeply": {`{"type":"CUSTOM","value":` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + `}`, 422, "invalid_event"},
		"33 MiB":        {`{"type":"CUSTOM","value":"` + strings.Repeat("x", 33<<20) + `"}`, 413, "too_large"},
		"100 MB":        {`{"type":"CUSTOM","value":"` + strings.Repeat("x", 100_000_000) + `"}`, 413, "too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, says())
			resp := b.post("/v1/threads/t/events", good+"\n"+c.line+"\n"+good)
			p := problemOf(t, resp)
			if resp.StatusCode != c.status || p["code"] != c.code {
				t.Fatalf("status %d, problem %v", resp.StatusCode, p)
			}
			if c.code == "invalid_event" && p["line"] != 2.0 {
				t.Errorf("line %v, want 2", p["line"])
			}
			if got := b.stored("t"); len(got) != 0 {
				t.Errorf("%d records were written", len(got))
			}
		})
	}
}

func TestAppendConditions(t *testing.T) {
	b := newBench(t, says())
	event := lines(`{"type":"CUSTOM","name":"n","value":1}`)
	zero, five := uint64(0), uint64(5)
	if _, err := b.client.Append(b.ctx, "t", event, client.AppendOptions{Expect: &five}); err == nil {
		t.Error("appended at the wrong seq")
	} else if c := (*eventlog.ConflictError)(nil); !errors.As(err, &c) || c.Expected != 5 || c.Actual != 0 {
		t.Errorf("the conflict over the network is %v", err)
	}
	first, err := b.client.Append(b.ctx, "t", event, client.AppendOptions{Expect: &zero, Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.client.Append(b.ctx, "t", event, client.AppendOptions{Expect: &zero, Key: "k"})
	if err != nil || again.First != first.First || !again.Duplicate {
		t.Errorf("again: %+v, %v; first: %+v", again, err, first)
	}
	other := lines(`{"type":"CUSTOM","name":"n","value":2}`)
	_, err = b.client.Append(b.ctx, "t", other, client.AppendOptions{Key: "k"})
	if c := (*eventlog.KeyConflictError)(nil); !errors.As(err, &c) || c.Key != "k" || c.First != 1 {
		t.Errorf("the key with other events: %v", err)
	}
	none := "nothing"
	if _, err = b.client.Append(b.ctx, "t", other, client.AppendOptions{Parent: &none}); !errors.Is(err, eventlog.ErrRunNotFound) {
		t.Errorf("an unknown parent: %v", err)
	}
	if n := len(b.stored("t")); n != 1 {
		t.Errorf("%d records", n)
	}
}

// Every thread id that the log takes works in a URL.
func TestOddThreadIDs(t *testing.T) {
	b := newBench(t, says())
	ids := []string{"..", ".", "a/b", "/", "//", "*", ">", "a b\tc", "日本/x", "th-1", "th-10", "%2F", "?x=1", "#", "new\nline", "\x00", "é", "e\u0301", strings.Repeat("x", 4096), "\xed\xa0\x80", "\xed\xa0\x81"}
	for _, id := range ids {
		if _, err := b.client.Append(b.ctx, id, lines(`{"type":"CUSTOM","name":"n","value":1}`), client.AppendOptions{}); err != nil {
			t.Errorf("append to %q: %v", id, err)
			continue
		}
		view, err := b.client.View(b.ctx, id, client.ViewOptions{})
		if err != nil {
			t.Errorf("view of %q: %v", id, err)
			continue
		}
		var v struct {
			Thread api.ID
			Seq    int
		}
		if err := json.Unmarshal(view, &v); err != nil || string(v.Thread) != id || v.Seq != 1 {
			t.Errorf("the view of %q is %s (%v)", id, view, err)
		}
	}
	var listed []string
	for th, err := range b.client.Threads(b.ctx) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, string(th.Thread))
	}
	slices.Sort(ids)
	if !slices.Equal(listed, ids) {
		t.Errorf("listed %q", listed)
	}
	if _, err := b.client.View(b.ctx, "th", client.ViewOptions{}); !errors.Is(err, eventlog.ErrThreadNotFound) {
		t.Errorf("the prefix of a thread is one: %v", err)
	}
}

func TestThreadListPages(t *testing.T) {
	b := newBench(t, says())
	for i := range 7 {
		if _, err := b.scope.Append(b.ctx, fmt.Sprint("t", i), lines(`{"type":"X"}`)...); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for after := ""; ; {
		resp, err := http.Get(b.url + "/v1/threads?limit=3&after=" + after)
		if err != nil {
			t.Fatal(err)
		}
		var page api.ThreadList
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, th := range page.Threads {
			got = append(got, string(th.Thread))
		}
		if after = string(page.Next); after == "" {
			break
		}
	}
	if fmt.Sprint(got) != "[t0 t1 t2 t3 t4 t5 t6]" {
		t.Error(got)
	}
}

// Views at a run, at a seq and at the head; branches over the API.
func TestBranchAndViews(t *testing.T) {
	b := newBench(t, says())
	for i := 1; i <= 3; i++ {
		events := answer(fmt.Sprint("r", i), fmt.Sprint("a", i), fmt.Sprint("answer ", i))
		if _, err := b.client.Append(b.ctx, "t", lines(events...), client.AppendOptions{Import: true}); err != nil {
			t.Fatal(err)
		}
	}
	verbatim := `{"type":"TEXT_MESSAGE_CHUNK","messageId":"b1","delta":"<new path>", "n":1.0}`
	done, err := b.client.Branch(b.ctx, "t", client.BranchOptions{
		From: "r1", Run: "b", Messages: lines(user("u", "another way")), Events: lines(verbatim),
	})
	if err != nil || done.Run != "b" || done.Parent != "r1" || done.First != 16 {
		t.Fatalf("%+v, %v", done, err)
	}
	view := func(o client.ViewOptions) string {
		t.Helper()
		out, err := b.client.View(b.ctx, "t", o)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	ten := uint64(10)
	for name, c := range map[string]struct {
		opts client.ViewOptions
		has  []string
		not  []string
	}{
		"head":    {client.ViewOptions{}, []string{"answer 1", "another way", "<new path>", `"success"`}, []string{"answer 2", "answer 3"}},
		"branch":  {clientView("b"), []string{"answer 1", "another way", "<new path>"}, []string{"answer 2", "answer 3"}},
		"run 3":   {clientView("r3"), []string{"answer 1", "answer 2", "answer 3"}, []string{"another way"}},
		"seq 10":  {client.ViewOptions{At: &ten}, []string{"answer 1", "answer 2"}, []string{"answer 3", "another way"}},
		"newest":  {client.ViewOptions{Messages: 1}, []string{"<new path>"}, []string{"answer 1"}},
		"no runs": {client.ViewOptions{At: new(uint64)}, []string{`"messages":[]`}, []string{"answer 1"}},
	} {
		got := view(c.opts)
		for _, s := range c.has {
			if !strings.Contains(got, s) {
				t.Errorf("%s: no %q in %s", name, s, got)
			}
		}
		for _, s := range c.not {
			if strings.Contains(got, s) {
				t.Errorf("%s: %q in %s", name, s, got)
			}
		}
	}
	if r := b.stored("t")[16]; string(r.Event) != verbatim {
		t.Errorf("the branch's event is %s", r.Event)
	}
	for name, opts := range map[string]client.BranchOptions{
		"an unknown run": {From: "nothing"}, "a used id": {From: "r1", Run: "r2"},
	} {
		if _, err := b.client.Branch(b.ctx, "t", opts); !errors.Is(err, eventlog.ErrNotFound) && !errors.Is(err, eventlog.ErrRunExists) {
			t.Errorf("a branch with %s: %v", name, err)
		}
	}
	far := uint64(99)
	if _, err := b.client.View(b.ctx, "t", client.ViewOptions{At: &far}); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("a view behind the end: %v", err)
	}
}

// The history is the messages as providers accept them; it is not cut.
func TestHistory(t *testing.T) {
	b := newBench(t, says())
	batch := lines(started("r1"), `{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"f","parentMessageId":"a1"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"c1"}`)
	batch = append(batch, lines(text("a2", "Well.")...)...)
	if _, err := b.client.Append(b.ctx, "t", append(batch, []byte(finished("r1"))), client.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	for want, opts := range map[string]client.ViewOptions{
		`[{"id":"a2","role":"assistant","content":"Well."}]` + "\n": {History: true},
		`[{"id":"a1","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
			`{"id":"c1~unanswered","role":"tool","content":"none","toolCallId":"c1"},{"id":"a2","role":"assistant","content":"Well."}]` + "\n": {History: true, Unanswered: "none"},
	} {
		if got, err := b.client.View(b.ctx, "t", opts); err != nil || string(got) != want {
			t.Errorf("%+v: %v\n%s", opts, err, got)
		}
	}
	for _, opts := range []client.ViewOptions{{History: true, Messages: 1}, {Unanswered: "x"}} {
		if _, err := b.client.View(b.ctx, "t", opts); !errors.Is(err, eventlog.ErrInvalid) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	resp, err := http.Get(b.url + "/v1/threads/t?history=maybe")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("history=maybe: %d", resp.StatusCode)
	}
}

// The three formats of events.
func TestEventFormats(t *testing.T) {
	b := newBench(t, says(answer("r1", "a1", "Hello")...))
	b.startRun(input("t", "r1", user("u1", "Hi")))
	all := b.stored("t")
	var jsonl, records []string
	for line, err := range b.client.Events(b.ctx, "t", client.EventOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		jsonl = append(jsonl, string(line))
	}
	for line, err := range b.client.Events(b.ctx, "t", client.EventOptions{Format: "records"}) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, string(line))
	}
	if len(jsonl) != len(all)-1 || len(records) != len(all) {
		t.Fatalf("%d events, %d records, %d stored", len(jsonl), len(records), len(all))
	}
	for i, line := range records {
		var r struct {
			Seq    uint64
			Run    string
			Echo   bool
			Origin eventlog.Origin
			Type   agui.Type
			Event  json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if want := all[i]; r.Seq != want.Seq || r.Run != "r1" || r.Echo != want.Echo || r.Origin != want.Origin || r.Type != want.Type || !bytes.Equal(r.Event, want.Event) {
			t.Errorf("record %s, stored %+v", line, want)
		}
	}
}

// Scopes are walls: over the network nobody chooses one, over the control
// socket its owner does.
func TestScopes(t *testing.T) {
	b := newBench(t, says())
	if _, err := b.store.Scope("acme").Append(b.ctx, "t", lines(`{"type":"X"}`)...); err != nil {
		t.Fatal(err)
	}
	outside := client.New(b.url, client.Options{Scope: "acme"})
	if _, err := outside.View(b.ctx, "t", client.ViewOptions{}); !errors.Is(err, eventlog.ErrThreadNotFound) {
		t.Errorf("from outside: %v", err)
	}
	for th := range outside.Threads(b.ctx) {
		t.Errorf("from outside: thread %v", th)
	}
}

// Whatever is asked for that is not there, the answer is a problem.
func TestWhatIsNotServed(t *testing.T) {
	b := newBench(t, says())
	if _, err := b.scope.Append(b.ctx, "t", lines(`{"type":"X"}`)...); err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]struct {
		status int
		code   string
	}{
		"GET /v1/threads/none":                         {404, "thread_not_found"},
		"GET /v1/threads/none/events":                  {404, "thread_not_found"},
		"GET /v1/threads/none/runs":                    {404, "thread_not_found"},
		"GET /v1/threads/t?run=none":                   {404, "run_not_found"},
		"GET /v1/threads/t?at=2":                       {404, "not_found"},
		"GET /v1/threads/t?at=-1":                      {400, "invalid"},
		"GET /v1/threads/t?at=1&run=r":                 {400, "invalid"},
		"GET /v1/threads/t?profile=odd":                {400, "invalid"},
		"GET /v1/threads/t/events?after=2":             {404, "not_found"},
		"GET /v1/threads/t/events?format=odd":          {400, "invalid"},
		"GET /v1/threads/t/events?follow=maybe":        {400, "invalid"},
		"GET /v1/threads/t/events?after=2&follow=true": {409, "conflict"},
		"GET /":                     {404, "path_not_found"},
		"GET /v1/threads/":          {404, "path_not_found"},
		"GET /v1/threads/t/x":       {404, "path_not_found"},
		"PUT /v1/threads/t":         {405, "method_not_allowed"},
		"GET /v1/agents/helper/run": {405, "method_not_allowed"},
	} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(b.ctx, method, b.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if p := problemOf(t, resp); resp.StatusCode != want.status || p["code"] != want.code {
			t.Errorf("%s: %d, %v", request, resp.StatusCode, p)
		}
		resp.Body.Close()
	}
}

func TestOptionsAreValidated(t *testing.T) {
	store, err := agstore.Open("", agstore.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = api.New(store, api.Options{Agents: map[string]api.Agent{"a": {URL: "ftp://x"}, "b/c": {URL: "http://x"}, "d": {URL: "::"}}})
	if !errors.Is(err, eventlog.ErrInvalid) {
		t.Fatal(err)
	}
	for _, name := range []string{`"a"`, `"b/c"`, `"d"`} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
}

// A server that is gone is told apart from one that refuses.
func TestClientWithoutServer(t *testing.T) {
	front := httptest.NewServer(http.NotFoundHandler())
	front.Close()
	c := client.New(front.URL, client.Options{})
	if _, err := c.Runs(t.Context(), "t"); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Error(err)
	}
}
