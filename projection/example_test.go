package projection_test

import (
	"context"
	"fmt"
	"log"
	"strconv"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/projection"
)

// A projection counts the runs of a scope. It is kept beside the log, and each run
// is counted once, whatever happens to the process.
func ExampleKeep() {
	ctx := context.Background()
	store, err := pebblelog.Open("", pebblelog.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	runs := projection.Reducer{
		Name: "runs", Version: 1, Global: true, Removals: projection.RemovalsIgnored,
		Reduce: func(state []byte, in projection.Input) ([]byte, error) {
			if in.Type != agui.TypeRunStarted || in.Echo {
				return state, nil
			}
			n, _ := strconv.Atoi(string(state)) // no state yet is none
			return strconv.AppendInt(nil, int64(n+1), 10), nil
		},
	}
	kept, err := projection.Keep(store, []projection.Reducer{runs}, projection.ReducersOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer kept.Close()

	var last eventlog.Appended
	for _, thread := range []string{"monday", "tuesday"} {
		last, err = store.Append(ctx, eventlog.ThreadKey{Scope: "acme", Thread: thread}, eventlog.Batch{Events: [][]byte{
			[]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r1"}`),
			[]byte(`{"type":"RUN_FINISHED","threadId":"t","runId":"r1"}`),
		}})
		if err != nil {
			log.Fatal(err)
		}
	}

	p, err := kept.Get("runs")
	if err != nil {
		log.Fatal(err)
	}
	if err := p.WaitFor(ctx, last.Position); err != nil { // read your writes
		log.Fatal(err)
	}
	state, err := p.State(ctx, "acme", "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s runs\n", state.Value)
	// Output: 2 runs
}
