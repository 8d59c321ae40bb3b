package interop

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// binary is where TestMain has room for agstore, and buildBinary puts it there, once for all tests.
var (
	binary      string
	buildBinary = sync.OnceValue(func() error {
		out, err := exec.Command("go", "build", "-o", binary, "github.com/agstore/agstore/cmd/agstore").CombinedOutput()
		if err != nil {
			return fmt.Errorf("build agstore: %w\n%s", err, out)
		}
		return nil
	})
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "agstore-interop-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "agstore")
		return m.Run()
	}())
}

// A server is a process of agstore serve.
type server struct {
	url string // http://127.0.0.1:PORT
	cmd *exec.Cmd
	log []string      // what it wrote to standard error; read it after ended
	end chan struct{} // closed when the process is gone
}

// startServer starts agstore serve on a data directory, with the agent under the name "scripted", and waits until
// it says where it listens.
func startServer(t *testing.T, data string, a *agent) *server {
	t.Helper()
	if err := buildBinary(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s := &server{end: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, binary, "serve", "--listen", "127.0.0.1:0", "--data", data, "--agent", "scripted="+a.url)
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	go func() {
		defer close(s.end)
		defer close(ready)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			s.log = append(s.log, lines.Text())
			if url, ok := strings.CutPrefix(lines.Text(), "agstore: listening on "); ok && len(ready) == 0 {
				ready <- url
			}
		}
		s.cmd.Wait() // killed, most of the time
	}()
	t.Cleanup(func() {
		cancel()
		<-s.end
		if t.Failed() {
			t.Logf("agstore serve wrote:\n%s", strings.Join(s.log, "\n"))
		}
	})
	if s.url = <-ready; s.url == "" {
		t.Fatal("agstore serve ended before it listened")
	}
	return s
}

// kill ends the process as a crash would: kill -9, and returns when it is gone.
func (s *server) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.end
}

func (s *server) runURL() string     { return s.url + "/v1/agents/scripted/run" }
func (s *server) connectURL() string { return s.url + "/v1/agents/scripted/connect" }
