package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// crashVariable is how many kills each of the tests named TestKill makes.
const crashVariable = "AGSTORE_CRASH"

// Must hold 3: kill -9 at random moments of a recording. Whatever had reached a
// client is there, byte for byte; seqs are dense; the cut run is closed and
// holds the user's turn; the thread goes on.
func TestKill(t *testing.T) {
	kills, seed := killSettings(t, 5)
	random := rand.New(rand.NewPCG(seed, 0))
	k := &killer{cli: newCLI(t), heard: make(map[uint64][]byte), called: make(chan struct{}, 1)}
	agent := httptest.NewServer(http.HandlerFunc(k.talk))
	defer agent.Close()
	for n := range kills {
		server := k.startServer("--agent", "talker="+agent.URL)
		// Early moments are the delicate ones: the start, the first events.
		// -1 is when the agent hears of the run, before its client does.
		moment := random.IntN(1+random.IntN(400)) - 1
		k.recordAndKill(server, n, moment)
		k.check(n, moment)
		if t.Failed() {
			t.Fatalf("kill %d at event %d", n, moment)
		}
	}
	server := k.startServer("--agent", "talker="+agent.URL)
	k.stopAtEnd(server)
	k.goesOn(server)
}

// killSettings says how many kills a test makes, and the seed that chooses their
// moments.
func killSettings(t *testing.T, kills int) (int, uint64) {
	t.Helper()
	if text := os.Getenv(crashVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s is a number: %v", crashVariable, err)
		}
		kills = n
	}
	seed := rand.Uint64()
	if text := os.Getenv(crashVariable + "_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s_SEED is a number: %v", crashVariable, err)
		}
		seed = n
	}
	t.Logf("%d kills; %s_SEED=%d chooses the same moments", kills, crashVariable, seed)
	return kills, seed
}

// killer records runs that are cut.
type killer struct {
	*cli
	heard  map[uint64][]byte // what was acknowledged, by seq
	turns  []string          // ids of the user's messages whose runs had begun
	called chan struct{}     // the agent hears of a run
}

// talk is an agent that says events without end, as fast as they are taken, some
// of them large. To "stop" it says one, and ends the run.
func (k *killer) talk(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	select {
	case k.called <- struct{}{}:
	default:
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	if bytes.Contains(body, []byte(`"stop"`)) {
		fmt.Fprint(w, "data: {\"type\":\"CUSTOM\",\"name\":\"last\"}\n\ndata: {\"type\":\"RUN_FINISHED\"}\n\n")
		return
	}
	fmt.Fprint(w, "data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"open\",\"role\":\"assistant\"}\n\n")
	for i := 0; r.Context().Err() == nil; i++ {
		padding := ""
		if i%50 == 7 {
			padding = fmt.Sprintf(`,"padding":"%0*d"`, 20_000, i)
		}
		if _, err := fmt.Fprintf(w, "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"open\",\"delta\":\"%d \"%s}\n\n", i, padding); err != nil {
			return
		}
		if i%3 == 0 && flush() != nil {
			return
		}
	}
}

func killInput(n int, says string) []byte {
	return fmt.Appendf(nil, `{"threadId":"t","runId":"run-%d","messages":[{"id":"user-%d","role":"user","content":%q}],"tools":[],"context":[]}`, n, n, says)
}

// recordAndKill kills the server once the client has heard moment events.
func (k *killer) recordAndKill(server *child, n, moment int) {
	k.t.Helper()
	remote := client.New(server.url, client.Options{})
	defer remote.Close()
	ctx, cancel := context.WithCancel(k.t.Context())
	defer cancel()
	select {
	case <-k.called: // of the run before
	default:
	}
	// The agent hears of a run only when the user's turn is in the log.
	k.turns = append(k.turns, fmt.Sprintf("user-%d", n))
	killed := make(chan error, 1)
	if moment < 0 {
		go func() {
			<-k.called
			killed <- server.kill()
		}()
	}
	count := 0
	for event, err := range remote.Run(ctx, "talker", killInput(n, "talk")) {
		if err != nil {
			if !errors.Is(err, eventlog.ErrUnavailable) {
				k.t.Fatalf("the run ended with %v", err)
			}
			break
		}
		// What still arrives after the kill had been acknowledged before it.
		if count++; len(event.Data) > 0 {
			k.heard[event.Seq] = event.Data
		}
		if moment >= 0 && count == moment+1 {
			killed <- server.kill()
		}
	}
	select {
	case err := <-killed:
		if err != nil {
			k.t.Fatal(err)
		}
	case <-ctx.Done():
		k.t.Fatal("the server was not killed")
	}
}

// check opens the store, which recovers it, and looks for what was promised.
func (k *killer) check(n, moment int) {
	k.t.Helper()
	store, err := agstore.Open(k.data, agstore.Options{})
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			k.t.Error(err)
		}
	}()
	scope := store.Scope(agstore.DefaultScope)
	next := uint64(1)
	for r, err := range scope.Read(k.t.Context(), "t", eventlog.ReadOptions{}) {
		if err != nil {
			k.t.Fatal(err)
		}
		if r.Seq != next {
			k.t.Fatalf("seq %d where %d was due", r.Seq, next)
		}
		next++
		if heard, ok := k.heard[r.Seq]; ok && !bytes.Equal(heard, r.Event) {
			k.t.Fatalf("seq %d was acknowledged as\n%s\nand is\n%s", r.Seq, heard, r.Event)
		}
	}
	for seq := range k.heard {
		if seq >= next {
			k.t.Errorf("seq %d was acknowledged and is gone; the last is %d", seq, next-1)
		}
	}
	runs, err := scope.Runs(k.t.Context(), "t")
	if err != nil {
		k.t.Fatal(err)
	}
	if len(runs) != n+1 {
		k.t.Errorf("%d runs, %d were started", len(runs), n+1)
	}
	for _, r := range runs {
		if r.Status != agui.RunAbandoned {
			k.t.Errorf("run %s is %v", r.Key, r.Status)
		}
	}
	view, err := scope.View(k.t.Context(), "t")
	if err != nil {
		k.t.Fatal(err)
	}
	there := make(map[string]bool)
	for i := range view.Messages {
		there[view.Messages[i].ID] = true
	}
	for _, id := range k.turns {
		if !there[id] {
			k.t.Errorf("the user's turn %s is lost", id)
		}
	}
}

// goesOn records one more run, to its end.
func (k *killer) goesOn(server *child) {
	k.t.Helper()
	remote := client.New(server.url, client.Options{})
	defer remote.Close()
	for _, err := range remote.Run(k.t.Context(), "talker", killInput(len(k.turns), "stop")) {
		if err != nil {
			k.t.Fatal(err)
		}
	}
	if v := k.view("t"); v.Status != agui.RunSuccess.String() {
		k.t.Errorf("the run after the kills is %s", v.Status)
	}
}
