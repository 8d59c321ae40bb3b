package interop

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// A comparison holds the profile Reference against the official client, from several goroutines.
type comparison struct {
	t  *testing.T
	mu sync.Mutex
	// what was seen
	streams, events, ended int
	refused                map[quirk]int
	applied                map[agui.Type]int // events that both took
	differences            []string
}

// enough differences are shown; more would be of the same kinds.
const enough = 5

// work runs one function for each processor; each gets a client of its own.
func (c *comparison) work(one func(client *official) error) {
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		client := startOfficial(c.t)
		all.Go(func() {
			if err := one(client); err != nil {
				c.t.Errorf("fold.mjs: %v", err)
			}
		})
	}
	all.Wait()
}

// compare asks the client about streams and compares each answer with ours after every event. It returns the client's.
func (c *comparison) compare(client *official, streams []stream) ([]answer, error) {
	answers, err := client.fold(streams...)
	if err != nil {
		return nil, err
	}
	for i, s := range streams {
		if err := c.one(client, s, answers[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func (c *comparison) one(client *official, s stream, theirs answer) error {
	own := ours(s)
	var quirks []quirk
	at := differ(theirs, own)
	if at >= 0 {
		var err error
		if at, quirks, err = unexplained(client, s, own, at); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.streams++
	c.events += len(own)
	for _, q := range quirks {
		c.refused[q]++
	}
	for i, line := range own {
		if strings.HasSuffix(line, "ERROR") {
			c.ended++
		} else if e, err := agui.Decode([]byte(s[i])); err == nil {
			c.applied[e.Type]++
		}
	}
	c.mu.Unlock()
	if at < 0 {
		return nil
	}
	return c.report(client, s)
}

// unexplained returns where a stream differs first beside the patches that Reference refuses, -1 if nowhere. The last
// such patch up to a difference is made to fail in the client too, and all that follows is compared again.
func unexplained(client *official, s stream, own answer, at int) (int, []quirk, error) {
	var known []quirk
	for at >= 0 {
		refused, found := refuse(s, at+1)
		if found == "" {
			break
		}
		answers, err := client.fold(refused)
		if err != nil {
			return at, nil, err
		}
		known = append(known, found)
		s, at = refused, differ(answers[0], own)
	}
	return at, known, nil
}

// differs tells whether there is a difference that nothing explains.
func differs(client *official, s stream) (bool, error) {
	answers, err := client.fold(s)
	if err != nil {
		return false, err
	}
	own := ours(s)
	at := differ(answers[0], own)
	if at >= 0 {
		at, _, err = unexplained(client, s, own, at)
	}
	return at >= 0, err
}

// report shrinks a stream that differs and writes it to files: the events, and the client's digests, as
// fold/testdata/differential has them.
func (c *comparison) report(client *official, s stream) error {
	c.mu.Lock()
	n := len(c.differences)
	c.differences = append(c.differences, "")
	c.mu.Unlock()
	if n >= enough {
		return nil
	}
	s, err := shrink(s, func(s stream) (bool, error) { return differs(client, s) })
	if err != nil {
		return err
	}
	answers, err := client.fold(s)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "agstore-difference-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "stream.jsonl")
	for name, text := range map[string]string{file: s.joined(), filepath.Join(dir, "stream.prefix.txt"): stream(answers[0]).joined()} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	held, err := inWords(s)
	if err != nil {
		return err
	}
	at := max(differ(answers[0], ours(s)), 0)
	theirs := "(nothing)"
	if at < len(held) {
		theirs = held[at]
	}
	c.mu.Lock()
	c.differences[n] = fmt.Sprintf("%s: after event %d of\n%s\nthe client has\n%s\nReference\n%s", file, at+1, s.joined(), theirs, heldBy(s[:min(at+1, len(s))]))
	c.mu.Unlock()
	return nil
}

// inWords is what the client holds after each event of a stream.
func inWords(s stream) (answer, error) {
	client, err := newOfficial("text")
	if err != nil {
		return nil, err
	}
	answers, err := client.fold(s)
	if err := errors.Join(err, client.end()); err != nil {
		return nil, err
	}
	return answers[0], nil
}

// heldBy is what Reference holds after a stream, in words.
func heldBy(s stream) string {
	f := fold.New(fold.Options{Profile: fold.Reference})
	for i, line := range s {
		f.Apply(fold.Record{Seq: uint64(i + 1), Raw: []byte(line)})
	}
	return string(f.View().AppendReferenceJSON(nil))
}

// shrink leaves out of a stream what it can without making wrong untrue: runs of events, events, members.
func shrink(s stream, wrong func(stream) (bool, error)) (stream, error) {
	for size := max(len(s)/2, 1); size > 0; size /= 2 {
		for i := 0; i+size <= len(s); {
			shorter := slices.Delete(slices.Clone(s), i, i+size)
			still, err := wrong(shorter)
			if err != nil {
				return s, err
			}
			if still {
				s = shorter
			} else {
				i++
			}
		}
	}
	for i := range s {
		v, err := jsonvalue.Parse([]byte(s[i]), 0)
		if err != nil {
			continue
		}
		for name := range v.Members() {
			simpler := slices.Clone(s)
			less := with(v, name, value{})
			simpler[i] = less.String()
			still, err := wrong(simpler)
			if err != nil {
				return s, err
			}
			if still {
				s, v = simpler, less
			}
		}
	}
	return s, nil
}

func (c *comparison) finish() {
	for i, d := range c.differences {
		if d != "" {
			c.t.Errorf("difference %d: %s", i+1, d)
		}
	}
	if n := len(c.differences); n > 0 {
		c.t.Errorf("%d streams differ", n)
	}
	c.t.Logf("%d streams, %d events, %d streams ended by an event", c.streams, c.events, c.ended)
	for _, q := range slices.Sorted(maps.Keys(c.refused)) {
		c.t.Logf("refused on purpose: %s, %d times", q, c.refused[q])
	}
}

func newComparison(t *testing.T) *comparison {
	return &comparison{t: t, refused: map[quirk]int{}, applied: map[agui.Type]int{}}
}
