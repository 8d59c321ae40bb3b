package api_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tmaxmax/go-sse"
)

// A client that connects in the middle of a run gets the history and goes on
// live, and sees what the client of the run sees.
func TestConnectInTheMiddle(t *testing.T) {
	all := answer("r1", "a1", "Hello")
	agent, release := held(all[:3], all[3:])
	b := newBench(t, agent)
	live := b.post("/v1/agents/helper/run", input("t", "r1", user("u1", "Hi")))
	second := b.post("/v1/agents/helper/connect", input("t", "x"))
	var got []frame
	for e, err := range sse.Read(second.Body, nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, frame{e.LastEventID, e.Data})
		if strings.Contains(e.Data, "TEXT_MESSAGE_CONTENT") {
			close(release)
		}
	}
	first := b.frames(live)
	if fmt.Sprint(got) != fmt.Sprint(first) {
		t.Errorf("second %v\nfirst %v", got, first)
	}
}

// A thread that nobody has written has no history; one whose run is over ends
// with it.
func TestConnectWhenNothingIsLive(t *testing.T) {
	b := newBench(t, says(answer("r1", "a1", "Hello")...))
	if got := b.frames(b.post("/v1/agents/helper/connect", input("t", "x"))); len(got) != 0 {
		t.Errorf("history of an unknown thread: %v", got)
	}
	ran := b.startRun(input("t", "r1", user("u1", "Hi")))
	if got := b.frames(b.post("/v1/agents/helper/connect", input("t", "x"))); fmt.Sprint(got) != fmt.Sprint(ran) {
		t.Errorf("connected %v\nran %v", got, ran)
	}
	if got := b.frames(b.post("/v1/agents/helper/connect", input("t", "x"), "Last-Event-ID", "4")); len(got) != 2 {
		t.Errorf("behind 4: %v", got)
	}
	if got := b.frames(b.post("/v1/agents/helper/connect", input("t", "x"), "Last-Event-ID", "6")); len(got) != 0 {
		t.Errorf("behind the end: %v", got)
	}
	resp := b.post("/v1/agents/helper/connect", input("t", "x"), "Last-Event-ID", "7")
	if p := problemOf(t, resp); resp.StatusCode != http.StatusConflict || p["actual"] != 6.0 {
		t.Errorf("a cursor of another life: %v", p)
	}
}

// Who connects is shown the path to the head: no other branch, and nothing that
// came behind a run's end.
func TestConnectShowsThePathToTheHead(t *testing.T) {
	b := newBench(t, says())
	var events [][]byte
	add := func(lines ...string) {
		for _, l := range lines {
			events = append(events, []byte(l))
		}
	}
	add(answer("r1", "a1", "one")...)
	add(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"late"}`)
	add(answer("r2", "a2", "two")...)
	branch := answer("r3", "a3", "three")
	branch[0] = strings.Replace(branch[0], `"runId"`, `"parentRunId":"r1","runId"`, 1)
	add(branch...)
	if _, err := b.scope.Append(b.ctx, "t", events...); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	for _, f := range b.frames(b.post("/v1/agents/helper/connect", input("t", "x"))) {
		seen.WriteString(f.data)
	}
	for text, want := range map[string]bool{"one": true, "two": false, "three": true, "late": false} {
		if strings.Contains(seen.String(), `"`+text+`"`) != want {
			t.Errorf("%q: want %v in %s", text, want, seen.String())
		}
	}
}

// A client whose connection is cut after any event goes on from its last id and
// misses and repeats nothing (field-lessons L35).
func TestResumeAfterEveryEvent(t *testing.T) {
	b := newBench(t, says(answer("r1", "a1", "Hello")...))
	b.startRun(input("t", "r1", user("u1", "Hi")))
	all := b.stored("t")
	inc := b.store.Log().Incarnation()
	for cut := range all {
		for _, id := range []string{strconv.Itoa(cut), inc + "-" + strconv.Itoa(cut)} {
			req, _ := http.NewRequestWithContext(b.ctx, http.MethodGet, b.url+"/v1/threads/t/events", nil)
			req.Header.Set("Last-Event-ID", id)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			next := cut + 1
			for _, f := range b.frames(resp) {
				if f.data == "" {
					continue
				}
				if all[next-1].Echo {
					next++
				}
				if f.id != strconv.Itoa(next) || f.data != string(all[next-1].Event) {
					t.Fatalf("behind %s came %v, want seq %d", id, f, next)
				}
				next++
			}
			if next != len(all)+1 {
				t.Fatalf("behind %s it ended before seq %d", id, next)
			}
			resp.Body.Close()
		}
	}
}

// Followers that join at any moment get every event once and in order, however
// fast it is written (field-lessons L16).
func TestFollowersMissNothing(t *testing.T) {
	const events, followers = 2000, 8
	b := newBench(t, says())
	var wg sync.WaitGroup
	for f := range followers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			after := f * 7
			ctx, cancel := context.WithCancel(b.ctx)
			defer cancel()
			// The later ones join when the writer is under way.
			for r, err := range b.scope.Follow(ctx, "t", 0) {
				if err != nil {
					t.Error(err)
					return
				}
				if r.Seq > uint64(after) {
					break
				}
			}
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/v1/threads/t/events?follow=true&format=jsonl&after=%d", b.url, after), nil)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			for next := after + 1; next <= events; next++ {
				want := fmt.Sprintf(`{"type":"CUSTOM","name":"n","value":%d}`, next)
				if !lines.Scan() || lines.Text() != want {
					t.Errorf("follower %d got %q, want %s, %v", f, lines.Text(), want, lines.Err())
					return
				}
			}
		}()
	}
	for i := 1; i <= events; i++ {
		if _, err := b.scope.Append(b.ctx, "t", fmt.Appendf(nil, `{"type":"CUSTOM","name":"n","value":%d}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

// Runs that overlap in an import are one story, to the last word of each, also
// when one of them was never ended (DESIGN decision 3).
func TestConnectToOverlappingRuns(t *testing.T) {
	for name, end := range map[string][]string{"ended": {finished("a")}, "open": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, says())
			events := append([]string{started("a"), text("ma", "first")[0], started("b"), finished("b"), `{"type":"TEXT_MESSAGE_CONTENT","messageId":"ma","delta":"late words"}`}, end...)
			if _, err := b.scope.AppendBatch(b.ctx, "t", importOf(events...)); err != nil {
				t.Fatal(err)
			}
			for _, headers := range [][]string{nil, {"Last-Event-ID", "4"}} {
				var seen strings.Builder
				for _, f := range b.frames(b.post("/v1/agents/helper/connect", input("t", "x"), headers...)) {
					seen.WriteString(f.data)
				}
				if !strings.Contains(seen.String(), "late words") {
					t.Errorf("%v: %s", headers, seen.String())
				}
			}
		})
	}
}
