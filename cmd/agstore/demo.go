package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
)

// demoPatience is when a demo that hangs is given up.
const demoPatience = time.Minute

const demoThread = "demo"

func (a *app) demoCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See the whole story, in one command",
		Long: "Records runs of a scripted agent, kills the recorder in the middle of one, opens the\n" +
			"store again, answers a question, branches and replays. It needs nothing and leaves\n" +
			"nothing behind, unless a directory is given. It fails if a step is not as promised.",
		Example: "  agstore demo\n  agstore demo --dir ./demo && agstore runs demo --data ./demo",
		Args:    noArgs,
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, demoPatience)
			defer cancel()
			err := a.demo(ctx, dir)
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errUsage) {
				return errors.New(err.Error()) // whatever it was: the demo failed
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&dir, "dir", "", "keep the store in this directory, which must be empty")
	return cmd
}

// demo is one telling of the story.
type demo struct {
	*app
	dir    string
	agent  *demoAgent
	child  *child
	client *client.Client
	steps  int
	heard  map[uint64][]byte // what was acknowledged, by seq
}

func (a *app) demo(ctx context.Context, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "agstore-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return &usageError{text: fmt.Sprintf("--dir %s: the directory is not empty", dir)}
	}
	d := &demo{app: a, dir: dir, heard: make(map[uint64][]byte)}
	if d.agent, err = startDemoAgent(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.agent.close()) }()
	if err := d.open(ctx); err != nil {
		return err
	}
	defer func() {
		d.client.Close()
		if d.child != nil {
			err = errors.Join(err, d.child.stop())
		}
	}()
	return d.tell(ctx)
}

// tell is the story, step by step.
func (d *demo) tell(ctx context.Context) error {
	for _, s := range []struct {
		what string
		do   func(context.Context) (string, error)
	}{
		{"record a run: text, a tool call, state", d.record},
		{"kill -9 the recorder in the middle of the next run", d.kill},
		{"open the store again: nothing acknowledged is lost, the cut run is closed", d.recover},
		{"go on, until the agent asks for approval", d.interrupt},
		{"answer, and let it finish", d.answer},
		{"branch from the first run: another path, nothing overwritten", d.branch},
		{"replay the branch", d.replay},
	} {
		d.steps++
		if !d.json {
			fmt.Fprintf(d.io.out, "%s %s … ", d.paint(bold, fmt.Sprintf("[%d]", d.steps)), s.what)
		}
		evidence, err := s.do(ctx)
		if err != nil {
			if !d.json {
				fmt.Fprintln(d.io.out, d.paint(red, "failed"))
			}
			return fmt.Errorf("demo: step %d, %s: %w", d.steps, s.what, err)
		}
		if err := d.passed(s.what, evidence); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) passed(what, evidence string) error {
	if d.json {
		return json.NewEncoder(d.io.out).Encode(struct {
			Step     int    `json:"step"`
			What     string `json:"what"`
			OK       bool   `json:"ok"`
			Evidence string `json:"evidence"`
		}{d.steps, what, true, evidence})
	}
	_, err := fmt.Fprintf(d.io.out, "%s\n    %s\n", d.paint(green, "ok"), strings.ReplaceAll(evidence, "\n", "\n    "))
	return err
}

// open starts a recorder.
func (d *demo) open(ctx context.Context) (err error) {
	if d.child, err = startChild(ctx, d.self, d.dir, "--agent", "demo="+d.agent.url); err != nil {
		return err
	}
	d.client = client.New(d.child.url, client.Options{})
	return nil
}

// start runs the agent and calls each for every event that is acknowledged,
// until it says that it has enough, or the run ends.
func (d *demo) start(ctx context.Context, run, say, more string, each func(client.Event) (enough bool)) error {
	input := fmt.Sprintf(`{"threadId":%q,"runId":%q,"messages":[{"id":"%s-user","role":"user","content":%s}],"tools":[],"context":[]%s}`,
		demoThread, run, run, agui.Quote(say), more)
	for event, err := range d.client.Run(ctx, "demo", []byte(input)) {
		if err != nil {
			return err
		}
		if len(event.Data) > 0 {
			d.heard[event.Seq] = event.Data
		}
		if each != nil && each(event) {
			return nil
		}
	}
	return nil
}

func (d *demo) record(ctx context.Context) (string, error) {
	if err := d.start(ctx, "run-1", demoPlan, "", nil); err != nil {
		return "", err
	}
	v, err := d.expect(ctx, client.ViewOptions{}, "success")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d events streamed, each durable before it was shown\nstate %s", len(d.heard), v.State), nil
}

func (d *demo) kill(ctx context.Context) (string, error) {
	before := len(d.heard)
	const enough = 12
	err := d.start(ctx, "run-2", demoDetail, "", func(client.Event) bool { return len(d.heard) == before+enough })
	if err != nil {
		return "", err
	}
	pid := d.child.pid()
	d.client.Close()
	if err := d.child.kill(); err != nil {
		return "", err
	}
	d.child = nil
	if got := len(d.heard) - before; got != enough {
		return "", fmt.Errorf("the run ended by itself, after %d events", got)
	}
	return fmt.Sprintf("process %d is gone, %d events of run-2 had been acknowledged", pid, enough), nil
}

func (d *demo) recover(ctx context.Context) (string, error) {
	if err := d.open(ctx); err != nil {
		return "", err
	}
	stored := make(map[uint64][]byte)
	for r, err := range d.client.Records(ctx, demoThread, client.EventOptions{}) {
		if err != nil {
			return "", err
		}
		if want := uint64(len(stored)) + 1; r.Seq != want {
			return "", fmt.Errorf("seq %d where %d was due", r.Seq, want)
		}
		stored[r.Seq] = r.Event
	}
	for seq, event := range d.heard {
		if !bytes.Equal(stored[seq], event) {
			return "", fmt.Errorf("the event that was acknowledged as seq %d is not in the store", seq)
		}
	}
	v, err := d.expect(ctx, client.ViewOptions{}, agui.RunAbandoned.String())
	if err != nil {
		return "", err
	}
	if !v.says(demoDetail) {
		return "", errors.New("what the user said in the cut run is lost")
	}
	return fmt.Sprintf("all %d acknowledged events are there, byte for byte, among %d; run-2 is %s, with the user's turn", len(d.heard), len(stored), v.Status), nil
}

func (d *demo) interrupt(ctx context.Context) (string, error) {
	if err := d.start(ctx, "run-3", demoBook, "", nil); err != nil {
		return "", err
	}
	v, err := d.expect(ctx, client.ViewOptions{}, agui.RunInterrupted.String())
	if err != nil {
		return "", err
	}
	if len(v.PendingInterrupts) != 1 || v.PendingInterrupts[0].ID != demoInterrupt {
		return "", fmt.Errorf("%d questions wait, not that of the agent", len(v.PendingInterrupts))
	}
	return "waits: " + question(v.PendingInterrupts[0]), nil
}

func (d *demo) answer(ctx context.Context) (string, error) {
	resume := fmt.Sprintf(`,"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":true}}]`, demoInterrupt)
	if err := d.start(ctx, "run-4", "Yes.", resume, nil); err != nil {
		return "", err
	}
	v, err := d.expect(ctx, client.ViewOptions{}, agui.RunSuccess.String())
	if err != nil {
		return "", err
	}
	if len(v.PendingInterrupts) != 0 {
		return "", errors.New("the question still waits")
	}
	return fmt.Sprintf("no question waits; state %s", v.State), nil
}

func (d *demo) branch(ctx context.Context) (string, error) {
	if err := d.start(ctx, "run-5", demoRain, `,"parentRunId":"run-1"`, nil); err != nil {
		return "", err
	}
	branch := "run-5"
	v, err := d.expect(ctx, client.ViewOptions{Run: &branch}, agui.RunSuccess.String())
	if err != nil {
		return "", err
	}
	if !v.says(demoPlan) || !v.says(demoRain) || v.says(demoDetail) || v.says(demoBook) {
		return "", errors.New("the branch does not hold the first run and its own alone")
	}
	other := "run-4"
	if v, err = d.expect(ctx, client.ViewOptions{Run: &other}, agui.RunSuccess.String()); err != nil {
		return "", err
	}
	if !v.says(demoBook) || v.says(demoRain) {
		return "", errors.New("the other path has changed")
	}
	runs, err := d.client.Runs(ctx, demoThread)
	if err != nil {
		return "", err
	}
	var tree strings.Builder
	drawTree(runs, func(prefix string, r api.Run) {
		fmt.Fprintf(&tree, "%s%s  %s, %d events %s\n", prefix, runName(r), r.Status, r.Events, headMark(r))
	})
	return strings.TrimSpace(tree.String()), nil
}

func (d *demo) replay(ctx context.Context) (string, error) {
	branch := "run-5"
	var screen bytes.Buffer
	out := bufio.NewWriter(&screen)
	p := d.newPlayer(out)
	var last []byte
	for r, err := range d.client.Records(ctx, demoThread, client.EventOptions{Run: &branch}) {
		if err != nil {
			return "", err
		}
		p.record(r)
		last = d.heard[r.Seq]
		if last != nil && !bytes.Equal(last, r.Event) {
			return "", fmt.Errorf("seq %d is not what was streamed", r.Seq)
		}
	}
	p.endLine()
	if err := out.Flush(); err != nil {
		return "", err
	}
	if !bytes.Contains(last, []byte(`"RUN_FINISHED"`)) {
		return "", errors.New("the replay does not end with the end of the branch")
	}
	return strings.TrimRight(screen.String(), "\n"), nil
}

// demoView is what the demo looks at of a view.
type demoView struct {
	view
	State json.RawMessage `json:"state"`
}

// says reports whether a user's message says just that.
func (v *demoView) says(text string) bool {
	for _, m := range v.Messages {
		if m.Role == "user" && contentText(m.Content) == text {
			return true
		}
	}
	return false
}

// expect reads a view and checks what has become of its last run.
func (d *demo) expect(ctx context.Context, opts client.ViewOptions, status string) (*demoView, error) {
	text, err := d.client.View(ctx, demoThread, opts)
	if err != nil {
		return nil, err
	}
	var v demoView
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	if v.Status != status {
		return nil, fmt.Errorf("the last run is %s, not %s", v.Status, status)
	}
	return &v, nil
}
