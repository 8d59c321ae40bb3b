package api_test

import (
	"net/http"
	"testing"
)

// Two branches and two moments are compared over HTTP.
func TestDiffOverHTTP(t *testing.T) {
	b := newBench(t, says())
	events := append(answer("r1", "a1", "one"), answer("r2", "a2", "two")...)
	branch := answer("r3", "a3", "three")
	branch[0] = `{"type":"RUN_STARTED","threadId":"t","runId":"r3","parentRunId":"r1"}`
	events = append(events, branch...)
	if _, err := b.scope.Append(b.ctx, "t", bytesOf(events)...); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"r2", "r3", `{"messages":[{"change":"removed","id":"a2","from":1,"before":{"id":"a2","role":"assistant","content":"two"}},{"change":"added","id":"a3","to":1,"after":{"id":"a3","role":"assistant","content":"three"}}],"state":[]}`},
		{"@3", "@4", `{"messages":[],"state":[]}`},
		{"@2", "@3", `{"messages":[{"change":"changed","id":"a1","from":0,"to":0,"before":{"id":"a1","role":"assistant","content":""},"after":{"id":"a1","role":"assistant","content":"one"}}],"state":[]}`},
	} {
		got, err := b.client.Diff(b.ctx, "t", c.from, c.to)
		if err != nil || string(got) != c.want+"\n" {
			t.Errorf("from %s to %s: %s %v", c.from, c.to, got, err)
		}
	}
	for path, status := range map[string]int{
		"/v1/threads/t/diff": 400, "/v1/threads/t/diff?from=r": 400, "/v1/threads/t/diff?from=x": 404, "/v1/threads/no/diff?from=head": 404, "/v1/threads/t/diff?from=@99": 404,
	} {
		resp, err := http.Get(b.url + path)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != status {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
		problemOf(t, resp)
		resp.Body.Close()
	}
}
