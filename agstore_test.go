package agstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agstoretest"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *agstore.Scope {
	t.Helper()
	store := agstoretest.Open(t, dir, agstore.Options{})
	return store.Scope(agstore.DefaultScope)
}

func timed(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func message(id, content string) json.RawMessage {
	return fmt.Appendf(nil, `{"id":%q,"role":"user","content":%q}`, id, content)
}

func say(id, text string) [][]byte {
	return [][]byte{
		fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_START","messageId":%q,"role":"assistant"}`, id),
		fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":%q}`, id, text),
	}
}

// finish ends a run as an agent does.
func finish(t *testing.T, ctx context.Context, run *agstore.Run) {
	t.Helper()
	end := fmt.Appendf(nil, `{"type":"RUN_FINISHED","threadId":"t","runId":%q}`, run.Lease().Run.ID)
	if _, err := run.Append(ctx, end); err != nil {
		t.Fatal(err)
	}
	if err := run.End(ctx, "", ""); err != nil {
		t.Fatal(err)
	}
}

func shown(t *testing.T, ctx context.Context, s *agstore.Scope, at replay.Point) string {
	t.Helper()
	view, err := s.ViewAt(ctx, "t", at)
	if err != nil {
		t.Fatal(err)
	}
	return string(view.AppendJSON(nil))
}

// The user's turn is durable before the agent hears of it, and a process that
// ends in the middle leaves a thread that goes on (invariants 1 and 8).
func TestReopenInTheMiddleOfARun(t *testing.T) {
	ctx, dir := timed(t), t.TempDir()
	first := open(t, dir)
	run, err := first.BeginRun(ctx, "t", agstore.RunInput{RunID: "r1", Messages: []json.RawMessage{message("u1", "Hi")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Append(ctx, say("a1", "half an ans")...); err != nil {
		t.Fatal(err)
	}
	closeStore(t, first)

	second := open(t, dir)
	view, err := second.View(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	out := string(view.AppendJSON(nil))
	if view.Status != agui.RunAbandoned || !strings.Contains(out, `"Hi"`) || !strings.Contains(out, `"half an ans"`) {
		t.Errorf("after reopening: %s", out)
	}
	if _, err := run.Append(ctx, say("a2", "late")...); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("the writer of a closed store: %v", err)
	}
	run, err = second.BeginRun(ctx, "t", agstore.RunInput{RunID: "r2", Messages: []json.RawMessage{message("u1", "Hi"), message("u2", "Go on")}})
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Turn) != 1 || string(run.Turn[0]) != string(message("u2", "Go on")) {
		t.Errorf("the new turn is %s", run.Turn)
	}
	finish(t, ctx, run)
}

// closeStore closes the store of a scope before its test ends.
func closeStore(t *testing.T, s *agstore.Scope) {
	t.Helper()
	if err := s.Store().Close(); err != nil {
		t.Fatal(err)
	}
}

// Of many starts at once exactly one runs; the others learn which.
func TestOneRunAtATime(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	const callers = 16
	won := make(chan *agstore.Run, callers)
	lost := make(chan error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			run, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: fmt.Sprint("r", i), Messages: []json.RawMessage{message(fmt.Sprint("u", i), "Hi")}})
			if err != nil {
				lost <- err
				return
			}
			won <- run
		}()
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d runs began", len(won))
	}
	run := <-won
	for range callers - 1 {
		err := <-lost
		if active := (*eventlog.RunActiveError)(nil); !errors.As(err, &active) || active.Run != run.Lease().Run {
			t.Errorf("a loser is told %v", err)
		}
	}
	info, err := s.Thread(ctx, "t")
	if err != nil || info.LastSeq != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	finish(t, ctx, run)
}

// Run ids are used once; an end or a takeover leaves the writer without rights.
func TestRunIDsAndEnds(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	run, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.End(ctx, "STOP", "stopped by the test"); err != nil {
		t.Fatal(err)
	}
	fenced := (*eventlog.FencedError)(nil)
	if _, err := run.Append(ctx, say("a1", "more")...); !errors.As(err, &fenced) || fenced.Status != agui.RunFailed {
		t.Errorf("after the end: %v", err)
	}
	if err := run.End(ctx, "STOP", "again"); err != nil {
		t.Errorf("a second end: %v", err)
	}
	if _, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "r1"}); !errors.Is(err, eventlog.ErrRunExists) {
		t.Errorf("the id again: %v", err)
	}
	info, err := s.Thread(ctx, "t")
	if err != nil || info.LastSeq != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	random, err := s.BeginRun(ctx, "t", agstore.RunInput{})
	if err != nil || random.Lease().Run.ID == "" {
		t.Fatalf("%v, %v", random, err)
	}
	finish(t, ctx, random)
}

// Three runs, a branch from the first: neither path sees the other (issue 2,
// must hold 4), and the branch is where the thread goes on.
func TestBranchFromTheFirstRun(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	for i := 1; i <= 3; i++ {
		run, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: fmt.Sprint("r", i), Messages: []json.RawMessage{message(fmt.Sprint("u", i), fmt.Sprint("turn ", i))}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Append(ctx, say(fmt.Sprint("a", i), fmt.Sprint("answer ", i))...); err != nil {
			t.Fatal(err)
		}
		finish(t, ctx, run)
	}
	from, err := s.FindRun(ctx, "t", "r1")
	if err != nil {
		t.Fatal(err)
	}
	before := shown(t, ctx, s, replay.AtRun(agui.RunKey{ID: "r3", Attempt: 1}))
	run, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "b1", Parent: &from, Messages: []json.RawMessage{message("u1", "turn 1"), message("ub", "another turn")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Append(ctx, say("ab", "another answer")...); err != nil {
		t.Fatal(err)
	}
	finish(t, ctx, run)
	next, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "b2"})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, ctx, next)

	branch := shown(t, ctx, s, replay.AtHead())
	for _, has := range []string{"turn 1", "answer 1", "another turn", "another answer"} {
		if !strings.Contains(branch, has) {
			t.Errorf("no %q in the branch: %s", has, branch)
		}
	}
	for _, not := range []string{"turn 2", "answer 2", "answer 3"} {
		if strings.Contains(branch, not) {
			t.Errorf("%q in the branch: %s", not, branch)
		}
	}
	if after := shown(t, ctx, s, replay.AtRun(agui.RunKey{ID: "r3", Attempt: 1})); after != before {
		t.Errorf("the other path changed:\n%s\n%s", before, after)
	}
	runs, err := s.Runs(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	var tree []string
	for _, r := range runs {
		tree = append(tree, fmt.Sprintf("%v<%v", r.Key, r.Parent))
	}
	if got := strings.Join(tree, " "); got != "r1< r2<r1 r3<r2 b1<r1 b2<b1" {
		t.Errorf("the tree is %s", got)
	}
	if _, err := s.FindRun(ctx, "t", "nothing"); !errors.Is(err, eventlog.ErrRunNotFound) {
		t.Errorf("an unknown run: %v", err)
	}
	root, err := s.FindRun(ctx, "t", agui.RootParent)
	if err != nil || !root.IsZero() {
		t.Errorf("root: %v, %v", root, err)
	}
	fresh, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "c1", Parent: &root})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, ctx, fresh)
	if got := shown(t, ctx, s, replay.AtHead()); strings.Contains(got, "turn 1") || strings.Contains(got, "unknown_parent") {
		t.Errorf("from the root: %s", got)
	}
}

// A run starts although another branch of the thread is being written.
func TestBeginRunBesideABusyBranch(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	first, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, ctx, first)
	from := first.Lease().Run
	stop, done := make(chan struct{}), make(chan error, 1)
	busy, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "busy", Parent: &from})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := busy.Append(ctx, fmt.Appendf(nil, `{"type":"CUSTOM","name":"n","value":%d}`, i)); err != nil {
				done <- err
				return
			}
		}
	}()
	beside, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "beside", Parent: &from})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, ctx, beside)
	if _, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "onward"}); err != nil && !errors.Is(err, eventlog.ErrRunActive) {
		t.Errorf("on the head: %v", err)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	finish(t, ctx, busy)
}

// Followers end with a typed error when the store closes (field-lessons L30).
func TestCloseEndsFollowers(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	if _, err := s.Append(ctx, "t", []byte(`{"type":"X"}`)); err != nil {
		t.Fatal(err)
	}
	seen, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for _, err := range s.Follow(ctx, "t", 0) {
			if err != nil {
				ended <- err
				return
			}
			close(seen)
		}
	}()
	<-seen
	closeStore(t, s)
	if err := <-ended; !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("the follower ended with %v", err)
	}
	if _, err := s.View(ctx, "t"); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("a view of a closed store: %v", err)
	}
	if _, err := s.Append(ctx, "t", []byte(`{"type":"X"}`)); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("an append to a closed store: %v", err)
	}
}
