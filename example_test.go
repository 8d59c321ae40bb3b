package agstore_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agstore/agstore"
)

// Record a run, and read the conversation back.
func Example() {
	ctx := context.Background()
	store, err := agstore.Open("", agstore.Options{InMemory: true}) // a directory keeps it
	if err != nil {
		panic(err)
	}
	defer store.Close()
	scope := store.Scope(agstore.DefaultScope)
	turn := []json.RawMessage{[]byte(`{"id":"u1","role":"user","content":"When do leeks go out?"}`)}
	run, err := scope.BeginRun(ctx, "garden", agstore.RunInput{RunID: "r1", Messages: turn})
	if err != nil {
		panic(err)
	}
	for _, event := range []string{ // what your agent says
		`{"type":"TEXT_MESSAGE_START","messageId":"a1","role":"assistant"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"In May."}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"a1"}`,
		`{"type":"RUN_FINISHED","threadId":"garden","runId":"r1"}`,
	} {
		if err := run.Enqueue(ctx, []byte(event)); err != nil {
			panic(err)
		}
	}
	if err := run.End(ctx, "CUT", "the agent left without an end"); err != nil {
		panic(err)
	}
	view, err := scope.View(ctx, "garden")
	if err != nil {
		panic(err)
	}
	for _, m := range view.Messages {
		fmt.Println(string(m.AppendJSON(nil)))
	}
	fmt.Println(view.Status)
	// Output:
	// {"id":"u1","role":"user","content":"When do leeks go out?"}
	// {"id":"a1","role":"assistant","content":"In May."}
	// success
}
