package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog/history"
	"github.com/agstore/agstore/eventlog/logtest"
)

// writerVariable makes the test binary a process of writers, whose name it is.
// The first argument is the file for its history.
const writerVariable = "AGSTORE_TEST_WRITER"

// Must hold 4: the server is killed again and again while two processes of four
// writers each append over the API. They repeat what was not answered, under its
// key, on the server that follows. In the end everything is there that was
// acknowledged, once, in order, and nothing else: the validators say so.
func TestKillWithManyWriters(t *testing.T) {
	kills, seed := killSettings(t, 3)
	random := rand.New(rand.NewPCG(seed, 0))
	c := newCLI(t)
	dir := t.TempDir()
	logtest.Keep(t, func() string { return fmt.Sprintf("%s_SEED=%d", crashVariable, seed) }, func(to string) error {
		return errors.Join(os.CopyFS(filepath.Join(to, "data"), os.DirFS(c.data)), os.CopyFS(filepath.Join(to, "histories"), os.DirFS(dir)))
	})
	progress := make(chan struct{}, 1024)
	writers := []*writerProcess{startWriters(t, dir, "p1", progress), startWriters(t, dir, "p2", progress)}
	for range kills {
		server := c.startServer()
		for _, w := range writers {
			w.use(server.url)
		}
		for range 1 + random.IntN(1+random.IntN(200)) {
			select {
			case <-progress:
			case <-t.Context().Done():
				t.Fatal("the writers do not get on")
			}
		}
		if err := server.kill(); err != nil {
			t.Fatal(err)
		}
	}
	server := c.startServer()
	var files []string
	for _, w := range writers {
		w.use(server.url)
		files = append(files, w.finish())
	}
	if err := server.stop(); err != nil {
		t.Fatal(err)
	}
	judgeWriters(t, c.data, files, kills)
}

func judgeWriters(t *testing.T, data string, files []string, kills int) {
	t.Helper()
	h, err := history.ReadFiles(files...)
	if err != nil {
		t.Fatal(err)
	}
	store, err := agstore.Open(data, agstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, faults := logtest.Judge(t.Context(), store.Log(), h)
	for _, fault := range faults {
		t.Error(fault)
	}
	unknown, settled := 0, make(map[string]bool)
	for i := range h {
		if h[i].Op != history.OpAppend {
			continue
		}
		if h[i].Outcome == history.OutcomeUnknown {
			unknown++
		} else {
			settled[h[i].Key] = true
		}
	}
	for i := range h {
		if h[i].Op == history.OpAppend && !settled[h[i].Key] {
			t.Errorf("%v was never settled", &h[i])
		}
	}
	if unknown == 0 {
		t.Error("no append was cut")
	}
	t.Logf("%d operations, %d appends cut by %d kills", len(h), unknown, kills)
}

// writerProcess is a process of four writers, as its parent sees it.
type writerProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	file  string
	read  sync.WaitGroup
}

// startWriters starts one, which tells progress of each acknowledged append.
func startWriters(t *testing.T, dir, name string, progress chan<- struct{}) *writerProcess {
	t.Helper()
	w := &writerProcess{t: t, file: filepath.Join(dir, name+".jsonl")}
	cmd, err := thisBinary(t.Context(), w.file)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), writerVariable+"="+name)
	cmd.Stderr = os.Stderr
	w.cmd = cmd
	if w.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case progress <- struct{}{}:
			default: // the parent is busy, and need not count them all
			}
		}
	})
	return w
}

// use tells the writers of a server.
func (w *writerProcess) use(url string) {
	w.t.Helper()
	if _, err := fmt.Fprintln(w.stdin, url); err != nil {
		w.t.Fatalf("the writers are gone: %v", err)
	}
}

// finish lets the writers settle what is open, and end.
func (w *writerProcess) finish() string {
	w.t.Helper()
	if err := w.stdin.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.read.Wait()
	if err := w.cmd.Wait(); err != nil {
		w.t.Fatalf("the writers ended badly: %v", err)
	}
	return w.file
}

// writerMain is the process of writers: it reads addresses of servers, one a line,
// each in place of the one before, and ends behind the last.
func writerMain(name string, args []string) int {
	f, err := os.Create(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p := &writerMachine{rec: history.NewRecorder(f), changed: make(chan struct{})}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() { p.write(fmt.Sprintf("%s/w%d", name, n), uint64(n)) })
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		p.turn(lines.Text(), false)
	}
	p.turn("", true)
	all.Wait()
	if err := errors.Join(p.rec.Err(), f.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// writerMachine is what the writers of one process share.
type writerMachine struct {
	rec *history.Recorder

	mu      sync.Mutex
	remote  *client.Client
	last    bool // no other server will come
	changed chan struct{}
}

func (p *writerMachine) turn(url string, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last = last; !last {
		p.remote = client.New(url, client.Options{})
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// server gives the server there is, whether it is the last, and a channel that is
// closed when another comes.
func (p *writerMachine) server() (*client.Client, bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remote, p.last, p.changed
}

// write is one writer.
func (p *writerMachine) write(name string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := 0; ; n++ {
		if _, last, _ := p.server(); last {
			return
		}
		e := history.Entry{Client: name, Op: history.OpAppend, Scope: agstore.DefaultScope, Thread: fmt.Sprint("t", rng.IntN(4)), Key: fmt.Sprint(name, "-", n)}
		for i := range 1 + rng.IntN(5) {
			e.Events = append(e.Events, fmt.Sprintf(`{"type":"CUSTOM","name":%q,"value":"%d-%d %0*d"}`, name, n, i, rng.IntN(300), 0))
		}
		for !p.append(e) {
		}
		fmt.Println(e.Key)
		if rng.IntN(20) == 0 {
			p.read(name, e.Thread, uint64(rng.IntN(100)))
		}
	}
}

// append tries once, and waits for another server where this one has gone.
func (p *writerMachine) append(e history.Entry) bool {
	remote, last, changed := p.server()
	if remote == nil {
		<-changed
		return false
	}
	events := make([][]byte, len(e.Events))
	for i := range events {
		events[i] = []byte(e.Events[i])
	}
	call := p.rec.Begin(e)
	done, err := remote.Append(context.Background(), e.Thread, events, client.AppendOptions{Key: e.Key})
	if err != nil {
		call.Failed(err)
		if !last {
			<-changed
		}
		return false
	}
	call.Done(func(e *history.Entry) {
		e.Outcome, e.First, e.Last, e.Position, e.Duplicate = history.OutcomeOK, done.First, done.Last, done.Position, done.Duplicate
	})
	return true
}

// read reads a thread from a seq on.
func (p *writerMachine) read(name, thread string, from uint64) {
	remote, _, _ := p.server()
	call := p.rec.Begin(history.Entry{Client: name, Op: history.OpRead, Scope: agstore.DefaultScope, Thread: thread, From: from + 1})
	var seen []history.Seen
	for r, err := range remote.Records(context.Background(), thread, client.EventOptions{After: from}) {
		if err != nil {
			call.Failed(err)
			return
		}
		seen = append(seen, history.Seen{Seq: r.Seq, Event: string(r.Event)})
	}
	call.Done(func(e *history.Entry) { e.Outcome, e.Seen = history.OutcomeOK, seen })
}
