package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

func types(records []eventlog.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Type))
	}
	return strings.Join(out, " ")
}

// batchOf is events as the client sends them.
func batchOf(events ...string) [][]byte {
	var out [][]byte
	for _, e := range events {
		out = append(out, []byte(e))
	}
	return out
}

func wantFenced(t *testing.T, what string, err error) (e *eventlog.FencedError) {
	t.Helper()
	if !errors.Is(err, eventlog.ErrFenced) || !errors.As(err, &e) {
		t.Fatalf("%s: %v", what, err)
	}
	return e
}

// A producer on the other side of the network writes a run: start, heartbeat,
// events, some of them sent twice, end.
func TestProducer(t *testing.T) {
	b := newBench(t, says())
	lease, err := b.client.BeginRun(b.ctx, "t", []byte(input("t", "r1", user("u1", "Hi"))), client.LeaseOptions{Owner: "worker 7", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	run := agui.RunKey{ID: "r1", Attempt: 1}
	if lease.Thread.Thread != "t" || lease.Run != run || lease.Epoch == 0 || lease.Owner != "worker 7" || lease.TTL != time.Minute || lease.Expires.IsZero() {
		t.Errorf("lease %+v", lease)
	}
	_, err = b.client.BeginRun(b.ctx, "t", []byte(input("t", "r2", user("u2", "Hi"))), client.LeaseOptions{})
	if e := (*eventlog.RunActiveError)(nil); !errors.As(err, &e) || e.Run != run || e.Owner != "worker 7" {
		t.Errorf("a second start: %v", err)
	}
	_, err = b.client.BeginRun(b.ctx, "t", []byte(input("t", "r1", user("u1", "Hi"))), client.LeaseOptions{})
	if e := (*eventlog.Error)(nil); !errors.Is(err, eventlog.ErrRunExists) || !errors.As(err, &e) || !strings.Contains(e.Hint, "take") {
		t.Errorf("the same start again: %v", err)
	}
	write := func(key string, events ...string) api.Appended {
		t.Helper()
		done, err := b.client.Append(b.ctx, "t", batchOf(events...), client.AppendOptions{Lease: &lease, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	renewed, err := b.client.RenewRun(b.ctx, lease)
	if err != nil || renewed.Expires.Before(lease.Expires) || renewed.Epoch != lease.Epoch {
		t.Errorf("renewed: %+v, %v", renewed, err)
	}
	write("1", text("m", "Hello")...)
	if done := write("1", text("m", "Hello")...); !done.Duplicate || done.First != 2 {
		t.Errorf("sent twice: %+v", done)
	}
	write("2", finished("r1"))
	if done := write("2", finished("r1")); !done.Duplicate {
		t.Errorf("the end sent twice: %+v", done)
	}
	_, err = b.client.Append(b.ctx, "t", batchOf(finished("r1")), client.AppendOptions{Lease: &lease})
	if e := wantFenced(t, "behind the end", err); e.Run != run || e.Epoch != lease.Epoch || e.Status != agui.RunSuccess {
		t.Errorf("%+v", e)
	}
	if row, err := b.client.EndRun(b.ctx, lease, "X", "late"); err != nil || row.Status != agui.RunSuccess || row.Held || row.Owner != "worker 7" {
		t.Errorf("ended already: %+v, %v", row, err)
	}
	if got := types(b.stored("t")); got != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Error(got)
	}
	if view, err := b.scope.View(b.ctx, "t"); err != nil || len(view.Messages) != 2 {
		t.Errorf("%+v, %v", view, err)
	}
}

// L5 over the network: a worker that does not know it is over changes nothing,
// and a stop that comes late leaves the next run alone.
func TestCancelledProducer(t *testing.T) {
	b := newBench(t, says())
	begin := func(run string, opts client.LeaseOptions) eventlog.Lease {
		t.Helper()
		lease, err := b.client.BeginRun(b.ctx, "t", []byte(input("t", run, user("u-"+run, "Hi"))), opts)
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	old := begin("r1", client.LeaseOptions{})
	if _, err := b.client.Append(b.ctx, "t", batchOf(text("m", "half a")[:2]...), client.AppendOptions{Lease: &old}); err != nil {
		t.Fatal(err)
	}
	row, err := b.client.StopRun(b.ctx, "t", "r1", "USER_CANCELLED", "enough")
	if err != nil || row.Status != agui.RunFailed || row.Held {
		t.Fatalf("%+v, %v", row, err)
	}
	before := b.stored("t")
	if got := types(before); got != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_ERROR" {
		t.Error(got)
	}
	next := begin("r2", client.LeaseOptions{})
	refused := func(what string, err error) {
		t.Helper()
		if e := wantFenced(t, what, err); e.Run.ID != "r1" || e.Epoch != old.Epoch || e.Current <= e.Epoch || e.Owner == "" {
			t.Errorf("%s: %+v", what, e)
		}
	}
	_, err = b.client.Append(b.ctx, "t", batchOf(text("m", "late")[1]), client.AppendOptions{Lease: &old})
	refused("append", err)
	_, err = b.client.RenewRun(b.ctx, old)
	refused("renew", err)
	_, err = b.client.EndRun(b.ctx, old, "X", "late")
	refused("end", err)
	if row, err := b.client.StopRun(b.ctx, "t", "r1", "X", "late"); err != nil || row.Status != agui.RunFailed {
		t.Errorf("a late stop: %+v, %v", row, err)
	}
	if got := b.stored("t"); len(got) != len(before)+1 {
		t.Errorf("something was written: %s", types(got))
	}
	if _, err := b.client.Append(b.ctx, "t", batchOf(finished("r2")), client.AppendOptions{Lease: &next}); err != nil {
		t.Error(err)
	}
	// Taken by another worker, and the head's run taken over by a start.
	third := begin("r3", client.LeaseOptions{})
	taken, err := b.client.TakeRun(b.ctx, "t", "r3", client.LeaseOptions{Owner: "other"})
	if err != nil || taken.Epoch <= third.Epoch || taken.Owner != "other" || taken.TTL != api.DefaultLeaseTTL {
		t.Fatalf("%+v, %v", taken, err)
	}
	_, err = b.client.RenewRun(b.ctx, third)
	if e := wantFenced(t, "taken", err); e.Owner != "other" || e.Current != taken.Epoch || e.Status != agui.RunRunning {
		t.Errorf("%+v", e)
	}
	begin("r4", client.LeaseOptions{Owner: "fourth", TakeOver: true})
	_, err = b.client.RenewRun(b.ctx, taken)
	if e := wantFenced(t, "taken over", err); e.Owner != "fourth" || e.Status != agui.RunAbandoned {
		t.Errorf("%+v", e)
	}
	if _, err := b.client.TakeRun(b.ctx, "t", "r2", client.LeaseOptions{}); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("an ended run was taken: %v", err)
	}
}

// Whoever follows a producer that dies sees the end of its run.
func TestProducerThatDies(t *testing.T) {
	b := newBench(t, says())
	if _, err := b.client.BeginRun(b.ctx, "t", []byte(input("t", "r1", user("u1", "Hi"))), client.LeaseOptions{TTL: eventlog.MinTTL}); err != nil {
		t.Fatal(err)
	}
	for line, err := range b.client.Events(b.ctx, "t", client.EventOptions{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(line), agui.CodeAbandoned) {
			return
		}
	}
	t.Error("no end came")
}

// A stop reaches a run that the server records from an agent.
func TestStopAnAgentsRun(t *testing.T) {
	speaking, stopped := make(chan struct{}), make(chan struct{})
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		says(started("r1"), text("m", "half a")[0])(w, r)
		w.(http.Flusher).Flush()
		close(speaking)
		<-stopped
		says(text("m", "late")[1])(w, r)
	})
	resp := b.post("/v1/agents/helper/run", input("t", "r1", user("u1", "Hi")))
	<-speaking
	for r, err := range b.scope.Follow(b.ctx, "t", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == agui.TypeTextMessageStart {
			break
		}
	}
	if row, err := b.client.StopRun(b.ctx, "t", "r1", "USER_CANCELLED", "enough"); err != nil || row.Status != agui.RunFailed {
		t.Fatalf("%+v, %v", row, err)
	}
	if got := kinds(b.frames(resp)); !strings.HasSuffix(got, "TEXT_MESSAGE_START TEXT_MESSAGE_END RUN_ERROR") {
		t.Errorf("its client was sent %s", got)
	}
	close(stopped)
	now, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := b.server.Close(now); err != nil { // the recording has ended
		t.Error(err)
	}
	if got := types(b.stored("t")); got != "RUN_STARTED RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_END RUN_ERROR" {
		t.Error(got)
	}
}

// A lease outlives the server that gave it.
func TestLeaseOutlivesTheServer(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var lease eventlog.Lease
	for life := range 3 {
		store, err := agstore.Open(dir, agstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		server, err := api.New(store, api.Options{})
		if err != nil {
			t.Fatal(err)
		}
		front := httptest.NewServer(server)
		c := client.New(front.URL, client.Options{})
		if life == 0 {
			lease, err = c.BeginRun(ctx, "t", []byte(input("t", "r1", user("u1", "Hi"))), client.LeaseOptions{TTL: time.Hour})
		} else {
			_, err = c.Append(ctx, "t", batchOf(fmt.Sprintf(`{"type":"CUSTOM","name":"x","value":%d}`, life)), client.AppendOptions{Lease: &lease})
		}
		if err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		if life == 2 {
			if row, err := c.EndRun(ctx, lease, "DONE", "done"); err != nil || row.Status != agui.RunFailed || row.Events != 4 {
				t.Errorf("%+v, %v", row, err)
			}
		}
		c.Close()
		front.Close()
		if err := errors.Join(server.Close(ctx), store.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLeaseRequestsAreChecked(t *testing.T) {
	b := newBench(t, says())
	body := input("t", "r1", user("u1", "Hi"))
	if _, err := b.client.BeginRun(b.ctx, "t", []byte(body), client.LeaseOptions{}); err != nil {
		t.Fatal(err)
	}
	mark := b.store.Log().Watermark()
	for _, c := range []struct {
		path, body, code string
	}{
		{"/v1/threads/t/runs", "", "invalid"},
		{"/v1/threads/other/runs", body, "invalid"},
		{"/v1/threads/t/runs?ttl=0", body, "invalid"},
		{"/v1/threads/t/runs?ttl=soon", body, "invalid"},
		{"/v1/threads/t/runs?ttl=NaN", body, "invalid"},
		{"/v1/threads/t/runs?ttl=86401", body, "invalid"},
		{"/v1/threads/t/runs?takeOver=maybe", body, "invalid"},
		{"/v1/threads/t/runs?owner=%FF", strings.Replace(body, "r1", "r2", 1), "invalid"},
		{"/v1/threads/t/runs/take", "", "invalid"},
		{"/v1/threads/t/runs/take?run=none", "", "run_not_found"},
		{"/v1/threads/t/runs/take?run=root", "", "invalid"},
		{"/v1/threads/none/runs/take?run=r1", "", "thread_not_found"},
		{"/v1/threads/t/runs/renew?run=r1", "", "invalid"},
		{"/v1/threads/t/runs/renew?run=r1&epoch=0", "", "invalid"},
		{"/v1/threads/t/runs/renew?epoch=1", "", "invalid"},
		{"/v1/threads/t/runs/renew?run=r1&epoch=7", "", "fenced"},
		{"/v1/threads/t/runs/end?run=r1&epoch=7", "", "fenced"},
		{"/v1/threads/t/runs/end?run=none", "", "run_not_found"},
		{"/v1/threads/t/events?run=r1&epoch=7", `{"type":"CUSTOM"}`, "fenced"},
		{"/v1/threads/t/events?epoch=1", `{"type":"CUSTOM"}`, "invalid"},
		{"/v1/threads/t/events?run=r1&epoch=1&origin=import", `{"type":"CUSTOM"}`, "invalid"},
		{"/v1/threads/t/events?run=r1&epoch=1", `{}`, "invalid_event"},
	} {
		if p := problemOf(t, b.post(c.path, c.body)); p["code"] != c.code {
			t.Errorf("%s: %v", c.path, p)
		}
	}
	if got := b.store.Log().Watermark(); got != mark {
		t.Error("something was written")
	}
}
