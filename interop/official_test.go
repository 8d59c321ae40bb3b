package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"testing"

	"github.com/agstore/agstore/fold"
)

// An answer is what is held after each event of a stream: see fold.mjs.
type answer []string

// official is a process of fold.mjs. It serves one caller at a time.
type official struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// startOfficial starts the official client; it ends with the test.
func startOfficial(t *testing.T) *official {
	t.Helper()
	o, err := newOfficial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.end(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// newOfficial starts fold.mjs with its arguments.
func newOfficial(args ...string) (*official, error) {
	o := &official{cmd: exec.Command("node", append([]string{"fold.mjs"}, args...)...)}
	o.cmd.Stderr = &o.stderr
	in, err := o.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	o.in, o.out = in, bufio.NewReaderSize(out, 1<<20)
	return o, o.cmd.Start()
}

// end ends the process, as the end of its input does, and says how it went.
func (o *official) end() error {
	o.in.Close()
	if err := o.cmd.Wait(); err != nil {
		return fmt.Errorf("fold.mjs: %w\n%s", err, o.stderr.String())
	}
	return nil
}

// fold returns the client's answers to streams.
func (o *official) fold(streams ...stream) ([]answer, error) {
	request, err := json.Marshal(streams)
	if err != nil {
		return nil, err
	}
	if _, err := o.in.Write(append(request, '\n')); err != nil {
		return nil, err
	}
	line, err := o.out.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var answers []answer
	err = json.Unmarshal(line, &answers)
	return answers, err
}

// ours is the answer of the profile Reference.
func ours(s stream) answer {
	f := fold.New(fold.Options{Profile: fold.Reference})
	out := make(answer, 0, len(s))
	for i, line := range s {
		f.Apply(fold.Record{Seq: uint64(i + 1), Raw: []byte(line)})
		v := f.View()
		failed := v.Reference.Error != nil
		v.Reference = nil // so that what is held after an error shows
		digests := string(v.AppendDigests(nil, i+1))
		if failed {
			return append(out, digests+" ERROR")
		}
		out = append(out, digests)
	}
	return out
}

// differ returns the index of the first event after which two answers are not the same, -1 if there is none.
func differ(a, b answer) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}
