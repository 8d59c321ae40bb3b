package interop

import (
	"context"
	"iter"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	apiclient "github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// TestReplayedThread: the official client cannot tell the replay of a recorded thread from its agent; where the replay cuts the
// connection, the client fails, and has what was sent.
func TestReplayedThread(t *testing.T) {
	needClient(t)
	a := startAgent(t, func(in runInput) []step { return slices.Concat(opening(in), closing(in)) })
	s := startServer(t, t.TempDir(), a)
	turns := []turn{{"r1", "How is the weather?"}, {"r2", "And now?"}}
	recorded := startClient(t, "run.mjs", job{URL: s.runURL(), ThreadID: "t", Turns: turns}).succeed(t)

	c := apiclient.New(s.url, apiclient.Options{})
	records := func(ctx context.Context) iter.Seq2[eventlog.Record, error] {
		return c.Records(ctx, "t", apiclient.EventOptions{})
	}
	serve := func(opts api.ReplayOptions) string {
		h, err := api.ServeReplay(context.Background(), records, opts)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL
	}
	same(t, "the client of the replay", startClient(t, "run.mjs", job{URL: serve(api.ReplayOptions{Speed: 1000}), ThreadID: "other", Turns: turns}).succeed(t), recorded)

	var cut uint64 // behind the first piece of the text
	for r, err := range records(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == agui.TypeTextMessageContent && cut == 0 {
			cut = r.Seq
		}
	}
	o, _ := startClient(t, "run.mjs", job{URL: serve(api.ReplayOptions{CutAt: cut}), ThreadID: "t", Turns: turns[:1]}).end(t)
	if o.Error == nil || contentOf(o, "text-r1") != "It rains" {
		t.Errorf("behind the cut the client has %v, error %v", o.Messages, o.Error)
	}
}
