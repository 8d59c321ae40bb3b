package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A recorded thread is an agent: with faults, while others read the store.
func TestReplayServe(t *testing.T) {
	c := storyCLI(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	served := *c
	served.ctx, served.out = ctx, in
	ended := make(chan result, 1)
	go func() {
		ended <- served.run("replay", "t", "--serve", "127.0.0.1:0", "--speed", "max", "--drop", "STATE_DELTA", "--drop", "9", "--json")
		in.Close()
	}()
	var at struct{ Listening string }
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		t.Fatalf("%v: %+v", err, <-ended)
	}
	ask := func(run string) string {
		resp, err := http.Post(at.Listening+"/", "application/json", strings.NewReader(`{"threadId":"mine","runId":"`+run+`","messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	first := ask("one")
	if !strings.Contains(first, `"runId":"one"`) || !strings.Contains(first, "9007199254740993") || strings.Contains(first, "STATE_DELTA") || strings.Contains(first, "It is sunny") || !strings.Contains(first, "id: 13\n") {
		t.Errorf("the first run is\n%s", first)
	}
	if second := ask("two"); !strings.Contains(second, "May I book?") || !strings.Contains(second, `"id":"i1"`) {
		t.Errorf("the second run is\n%s", second)
	}
	if got := c.ok("threads"); !strings.HasPrefix(got, "t\t") {
		t.Errorf("beside it: %q", got)
	}
	cancel()
	if r := <-ended; r.code != int(exitInterrupted) && r.code != 0 {
		t.Errorf("it ends with %+v", r)
	}
	http.DefaultClient.CloseIdleConnections()

	c.fails(exitUsage, "loopback", "replay", "t", "--serve", "0.0.0.0:0")
	c.fails(exitUsage, "for --serve", "replay", "t", "--drop", "3")
	c.fails(exitUsage, "--drop", "replay", "t", "--serve", "127.0.0.1:0", "--drop", "SOMETHING")
	c.fails(exitUsage, "--delay", "replay", "t", "--serve", "127.0.0.1:0", "--delay", "5")
	c.fails(exitUsage, "--follow", "replay", "t", "--serve", "127.0.0.1:0", "--follow")
	c.fails(exitNotFound, "", "replay", "nobody", "--serve", "127.0.0.1:0")
}
