package api_test

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

func eventLines(events ...string) [][]byte {
	var out [][]byte
	for _, e := range events {
		out = append(out, []byte(e))
	}
	return out
}

// Erased over the network: the receipt, 410 for all that comes later, the receipt
// again.
func TestEraseOverHTTP(t *testing.T) {
	b := newBench(t, says())
	if _, err := b.client.Append(b.ctx, "t", eventLines(answer("r", "m", "gone")...), client.AppendOptions{Import: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.View(b.ctx, "t", client.ViewOptions{}); err != nil {
		t.Fatal(err)
	}
	plan, err := b.client.Erase(b.ctx, "t", api.RemovalRequest{DryRun: true})
	if err != nil || plan.Number != 0 || plan.Gone != nil || len(plan.Places) == 0 {
		t.Errorf("dry run: %+v, %v", plan, err)
	}
	r, err := b.client.Erase(b.ctx, "t", api.RemovalRequest{Reason: "asked to", Actor: "me"})
	if err != nil || !r.Removed || r.Gone == nil || r.Reason != "asked to" || r.Actor != "me" || r.First != 1 || r.Last != 5 {
		t.Fatalf("receipt %+v, %v", r, err)
	}
	_, view := b.client.View(b.ctx, "t", client.ViewOptions{})
	_, append := b.client.Append(b.ctx, "t", eventLines(started("x")), client.AppendOptions{})
	_, runs := b.client.Runs(b.ctx, "t")
	for what, err := range map[string]error{"view": view, "append": append, "runs": runs} {
		var why *eventlog.ErasedError
		if !errors.Is(err, eventlog.ErrErased) || !errors.As(err, &why) || why.Reason != "asked to" {
			t.Errorf("%s: %v", what, err)
		}
	}
	list, err := b.client.Receipts(b.ctx, "t")
	if all, err := b.client.Receipts(b.ctx, ""); err != nil || len(list) != 1 || len(all) != 1 || list[0].Number != 1 || !list[0].Time.Equal(r.Time) {
		t.Errorf("receipts %+v, %+v, %v", list, all, err)
	}
	if err != nil {
		t.Error(err)
	}
}

// A thread is cleared while somebody follows it: he is told of the gap and given
// what comes. A cursor of before is refused, and who begins anew is told what is
// missing.
func TestClearOverHTTP(t *testing.T) {
	b := newBench(t, says())
	if _, err := b.client.Append(b.ctx, "t", eventLines(answer("r", "m", "old")...), client.AppendOptions{Import: true, Key: "k"}); err != nil {
		t.Fatal(err)
	}
	get := func(query, cursor string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(b.ctx, http.MethodGet, b.url+"/v1/threads/t/events"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if cursor != "" {
			req.Header.Set("Last-Event-ID", cursor)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	follower := bufio.NewReader(get("?follow=true", "").Body)
	until := func(word string) string {
		t.Helper()
		var all strings.Builder
		for {
			line, err := follower.ReadString('\n')
			all.WriteString(line)
			if err != nil {
				t.Fatalf("%v after %s", err, all.String())
			}
			if strings.Contains(line, word) {
				return all.String()
			}
		}
	}
	until("RUN_FINISHED")
	if _, err := b.client.Clear(b.ctx, "t", api.RemovalRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := until(`data: {"from"`); !strings.Contains(got, "event: gap\ndata: {\"from\":5,\"to\":5,\"reason\":\"clear\"}") {
		t.Errorf("the follower was told %s", got)
	}
	if _, err := b.client.Append(b.ctx, "t", eventLines(answer("r", "m", "new")...), client.AppendOptions{Import: true}); err != nil {
		t.Fatal(err)
	}
	if got := until("RUN_FINISHED"); !strings.Contains(got, "id: 6\n") || !strings.Contains(got, "new") {
		t.Errorf("the follower was given %s", got)
	}
	if resp := get("", "3"); resp.StatusCode != http.StatusGone {
		t.Errorf("with a cursor of before: %d", resp.StatusCode)
	}
	if resp := get("", ""); resp.StatusCode != http.StatusOK || resp.Header.Get("Agstore-Gap") != "1-5" {
		t.Errorf("from the beginning: %d, gap %q", resp.StatusCode, resp.Header.Get("Agstore-Gap"))
	}
	var used *eventlog.KeyErasedError
	if _, err := b.client.Append(b.ctx, "t", eventLines(answer("r", "m", "old")...), client.AppendOptions{Key: "k"}); !errors.As(err, &used) || used.Last != 5 {
		t.Errorf("a key of before: %v", err)
	}
	view, err := b.client.View(b.ctx, "t", client.ViewOptions{})
	if err != nil || strings.Contains(string(view), "old") || !strings.Contains(string(view), "new") {
		t.Errorf("view %s, %v", view, err)
	}
	at := uint64(3)
	var gap *eventlog.GapError
	if _, err := b.client.View(b.ctx, "t", client.ViewOptions{At: &at}); !errors.As(err, &gap) || !errors.Is(err, eventlog.ErrGap) {
		t.Errorf("view at a seq that is gone: %v", err)
	}
}

// A redacted message shows the marker, the records say so, and the view that was
// in memory is not used any more.
func TestRedactOverHTTP(t *testing.T) {
	b := newBench(t, says())
	if _, err := b.client.Append(b.ctx, "t", eventLines(answer("r", "m", "hunter2")...), client.AppendOptions{Import: true}); err != nil {
		t.Fatal(err)
	}
	if view, err := b.client.View(b.ctx, "t", client.ViewOptions{}); err != nil || !strings.Contains(string(view), "hunter2") {
		t.Fatalf("view %s, %v", view, err)
	}
	r, err := b.client.Redact(b.ctx, "t", api.RemovalRequest{Seq: 3})
	if err != nil || r.Message != "m" || r.First != 3 || r.Last != 3 {
		t.Fatalf("receipt %+v, %v", r, err)
	}
	view, err := b.client.View(b.ctx, "t", client.ViewOptions{})
	if err != nil || strings.Contains(string(view), "hunter2") || !strings.Contains(string(view), eventlog.RedactedText) {
		t.Errorf("view %s, %v", view, err)
	}
	for rec, err := range b.client.Records(b.ctx, "t", client.EventOptions{}) {
		if err != nil || rec.Redacted != (rec.Seq == 3) {
			t.Errorf("record %+v, %v", rec, err)
		}
	}
}
