package agstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/fold"
)

// Record a run, and read the conversation back. The README shows the middle.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "agstore-example")
	check(err)
	defer os.RemoveAll(dir)

	// README
	store, err := agstore.Open(dir, agstore.Options{})
	check(err)
	defer store.Close()
	scope := store.Scope(agstore.DefaultScope) // a tenant, or a user
	turn := []json.RawMessage{[]byte(`{"id":"u1","role":"user","content":"When do leeks go out?"}`)}
	run, err := scope.BeginRun(ctx, "garden", agstore.RunInput{Messages: turn})
	check(err) // the turn is durable now
	for event := range agent(ctx, run.Before, run.Turn) {
		check(run.Enqueue(ctx, event)) // the agent's AG-UI events as they are, pipelined
	}
	check(run.End(ctx, "CUT", "the agent left without an end")) // all of it is durable now
	view, err := scope.View(ctx, "garden")                      // transcript, state, open questions …
	check(err)
	// end

	for _, m := range view.Messages {
		fmt.Println(string(m.AppendJSON(nil)))
	}
	fmt.Println(view.Status)
	// Output:
	// {"id":"u1","role":"user","content":"When do leeks go out?"}
	// {"id":"a1","role":"assistant","content":"In May."}
	// success
}

// agent is what you have: it is given the conversation so far and the new turn.
func agent(context.Context, *fold.View, []json.RawMessage) iter.Seq[[]byte] {
	return slices.Values([][]byte{
		[]byte(`{"type":"TEXT_MESSAGE_START","messageId":"a1","role":"assistant"}`),
		[]byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"In May."}`),
		[]byte(`{"type":"TEXT_MESSAGE_END","messageId":"a1"}`),
		[]byte(`{"type":"RUN_FINISHED","threadId":"garden","runId":"…"}`),
	})
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The README shows what is compiled here.
func TestReadmeShowsTheExample(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(source), "\t// README\n")
	example, _, ok := strings.Cut(example, "\t// end\n")
	if !ok {
		t.Fatal("the example has no marks")
	}
	var lines []string
	for line := range strings.Lines(example) {
		lines = append(lines, strings.TrimPrefix(line, "\t"))
	}
	if want := "```go\n" + strings.Join(lines, "") + "```\n"; !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not hold\n%s", want)
	}
}
