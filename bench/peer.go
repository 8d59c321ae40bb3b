package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// errNotInstalled says that a peer is not there to be measured.
var errNotInstalled = errors.New("not installed")

// folded is what the official client made of a stream.
type folded struct {
	Seconds  float64 `json:"seconds"`
	Messages int     `json:"messages"`
	Text     int     `json:"text"` // UTF-16 code units in the messages
	State    int     `json:"state"`
}

func (f folded) rate(events int) float64 { return float64(events) / f.Seconds }

func (f folded) per(events int) time.Duration {
	return time.Duration(f.Seconds * float64(time.Second) / float64(events))
}

// officialClient has @ag-ui/client fold a stream of one run.
func (b *bench) officialClient(ctx context.Context, s *stream) (folded, error) {
	var out folded
	text, err := b.peer(ctx, "@ag-ui/client", "fold.mjs", s.lines())
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("what fold.mjs prints: %w", err)
	}
	return out, nil
}

// peer runs a script of the peers' directory that uses a package.
func (b *bench) peer(ctx context.Context, pkg, script string, stdin []byte) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(b.peers, "node_modules", pkg, "package.json")); err != nil {
		return nil, fmt.Errorf("%s: %w", pkg, errNotInstalled)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("node: %w", errNotInstalled)
	}
	c := exec.CommandContext(ctx, node, script)
	c.Dir, c.Stdin = b.peers, bytes.NewReader(stdin)
	c.Env = append(os.Environ(), "NODE_ENV=production")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", script, err, stderr.Bytes())
	}
	return out, nil
}
