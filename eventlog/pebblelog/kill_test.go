package pebblelog_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/agstore/agstore/eventlog/history"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// childVariable makes the test binary a process that writes to the log in the
// directory that it names, until it is killed.
const childVariable = "AGSTORE_TEST_CHILD"

// L26: a process that embeds the log tells every operation and every answer, and
// is killed at a random moment, again and again on the same disk. All that was
// told holds, and the log goes on.
func TestKillOfAnEmbedder(t *testing.T) {
	kills := int(number(t, "AGSTORE_CRASH", 4))
	seed := number(t, "AGSTORE_CRASH_SEED", rand.Uint64())
	t.Logf("%d kills; AGSTORE_CRASH_SEED=%d chooses the same moments", kills, seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "store")
	var h history.History
	logtest.Keep(t, func() string { return fmt.Sprint("AGSTORE_CRASH_SEED=", seed) }, func(to string) error {
		f, err := os.Create(filepath.Join(to, "history.jsonl"))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := os.CopyFS(filepath.Join(to, "store"), os.DirFS(dir)); err != nil {
			return err
		}
		return h.Encode(f)
	})
	for n := range kills {
		h = append(h, killedChild(t, dir, n, 1+rng.IntN(1+rng.IntN(600)))...)
		l, err := pebblelog.Open(dir, pebblelog.Options{})
		if err != nil {
			t.Fatalf("kill %d: %v", n, err)
		}
		_, faults := logtest.Judge(t.Context(), l, h)
		for _, fault := range faults {
			t.Errorf("kill %d: %v", n, fault)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d operations", len(h))
}

// killedChild runs a child, kills it once it has told so many lines, and gives
// what it had told.
func killedChild(t *testing.T, dir string, n, lines int) history.History {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir, "AGSTORE_TEST_CHILD_N="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for r := bufio.NewReader(out); ; lines-- {
		line, err := r.ReadString('\n')
		told.WriteString(line)
		if err != nil {
			break
		}
		if lines == 0 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || lines > 0 {
		t.Fatalf("the child ended by itself: %v", err)
	}
	h, err := history.Decode(strings.NewReader(told.String()))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// childMain is the process that is killed.
func childMain(dir string) int {
	l, err := pebblelog.Open(dir, pebblelog.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	rec := history.NewRecorder(os.Stdout)
	var all sync.WaitGroup
	for g := range uint64(8) {
		w := &logtest.Worker{
			Log: l, Recorder: rec, Client: fmt.Sprintf("k%sw%d", os.Getenv("AGSTORE_TEST_CHILD_N"), g),
			Rand: rand.New(rand.NewPCG(g, uint64(os.Getpid()))),
		}
		all.Go(func() { w.Work(context.Background(), 1<<30) })
	}
	all.Wait()
	return 0
}
