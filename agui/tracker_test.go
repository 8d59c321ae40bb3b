package agui_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
)

// follow gives events to a tracker, one per line, and returns what each was
// assigned: the run's key, "-" for none, and what else is true of it.
func follow(t *testing.T, tr *agui.Tracker, first uint64, lines ...string) []string {
	t.Helper()
	var out []string
	for i, line := range lines {
		var h agui.Header
		if err := agui.ReadHeader([]byte(line), &h); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		out = append(out, word(tr.Assign(&h, first+uint64(i), agui.Claim{})))
	}
	return out
}

func word(a agui.Assignment) string {
	s := a.Run.String()
	if a.Run.IsZero() {
		s = "-"
	}
	for _, f := range []struct {
		is   bool
		mark string
	}{{a.Started, "+"}, {a.Echo, "="}, {a.Ended, "!"}, {a.UnknownParent, "?"}} {
		if f.is {
			s += f.mark
		}
	}
	return s
}

func start(run string) string  { return fmt.Sprintf(`{"type":"RUN_STARTED","runId":%q}`, run) }
func finish(run string) string { return fmt.Sprintf(`{"type":"RUN_FINISHED","runId":%q}`, run) }
func startFrom(run, parent string) string {
	return fmt.Sprintf(`{"type":"RUN_STARTED","runId":%q,"parentRunId":%q}`, run, parent)
}
func ev(typ, member, value string) string {
	return fmt.Sprintf(`{"type":%q,%q:%q}`, typ, member, value)
}

const (
	any1    = `{"type":"CUSTOM","name":"x"}`
	fail    = `{"type":"RUN_ERROR","message":"m"}`
	finish0 = `{"type":"RUN_FINISHED"}`
)

func TestTrackerAssigns(t *testing.T) {
	for _, test := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"events before any run belong to none", []string{any1, start("a")}, "- a+"},
		{"decision 1: a start of a run that is open is an echo", []string{start("a"), start("a"), finish("a")}, "a+ a= a!"},
		{"a start of a run that has ended is its next attempt", []string{start("a"), finish("a"), start("a"), any1}, "a+ a! a#2+ a#2"},
		{"the runId of an event decides", []string{start("a"), start("b"), ev("CUSTOM", "runId", "a"), any1}, "a+ b+ a b"},
		{"an unknown runId does not", []string{start("a"), ev("CUSTOM", "runId", "z")}, "a+ a"},
		{"else its message does", []string{start("a"), ev("TEXT_MESSAGE_START", "messageId", "m"), start("b"), ev("TEXT_MESSAGE_CONTENT", "messageId", "m")}, "a+ a b+ a"},
		{"else its call does", []string{start("a"), ev("TOOL_CALL_START", "toolCallId", "c"), start("b"), ev("TOOL_CALL_ARGS", "toolCallId", "c"), ev("TOOL_CALL_RESULT", "toolCallId", "c")}, "a+ a b+ a a"},
		{"else its reasoning does", []string{start("a"), ev("REASONING_MESSAGE_START", "messageId", "m"), start("b"), ev("REASONING_MESSAGE_CONTENT", "messageId", "m"), ev("TEXT_MESSAGE_CONTENT", "messageId", "m")}, "a+ a b+ a b"},
		{"a call that starts is its parent message's", []string{start("a"), ev("TEXT_MESSAGE_START", "messageId", "m"), start("b"), `{"type":"TOOL_CALL_START","toolCallId":"c","parentMessageId":"m"}`}, "a+ a b+ a"},
		{"a call or a message that starts again is the latest run's, and then its own", []string{
			start("a"), ev("TEXT_MESSAGE_START", "messageId", "m"), `{"type":"TOOL_CALL_START","toolCallId":"c","parentMessageId":"m"}`, start("b"),
			`{"type":"TOOL_CALL_START","toolCallId":"c","parentMessageId":"m"}`, ev("TOOL_CALL_ARGS", "toolCallId", "c"),
			ev("TEXT_MESSAGE_START", "messageId", "m"), ev("TEXT_MESSAGE_CONTENT", "messageId", "m"),
		}, "a+ a a b+ b b b b"},
		{"else its open step does", []string{start("a"), ev("STEP_STARTED", "stepName", "s"), start("b"), ev("STEP_FINISHED", "stepName", "s"), ev("STEP_FINISHED", "stepName", "s")}, "a+ a b+ a b"},
		{"a step that starts is the latest run's", []string{start("a"), ev("STEP_STARTED", "stepName", "s"), start("b"), ev("STEP_STARTED", "stepName", "s")}, "a+ a b+ b"},
		{"R6: a step of an empty subagent is another step", []string{start("a"), ev("STEP_STARTED", "stepName", "s"), start("b"), `{"type":"STEP_FINISHED","stepName":"s","subagentRunId":""}`}, "a+ a b+ b"},
		{"the latest open run, not the latest run", []string{start("a"), start("b"), finish("b"), any1}, "a+ b+ b! a"},
		{"R3: after the end, still the latest run", []string{start("a"), finish("a"), any1}, "a+ a! a"},
		{"R2: the first terminal event ends it", []string{start("a"), finish("a"), fail, finish("a")}, "a+ a! a a"},
		{"R4: a RUN_FINISHED without ids ends the latest open run", []string{start("a"), start("b"), finish0, finish0}, "a+ b+ b! a!"},
		{"R4: a RUN_ERROR before any run ends none", []string{fail, start("a")}, "- a+"},
		{"a start without an id", []string{`{"type":"RUN_STARTED"}`, any1, finish0}, "+  !"},
		{"R33: a parent that is no run", []string{start("a"), finish("a"), startFrom("b", "z")}, "a+ a! b+?"},
		{"R33: a parent that runs", []string{start("a"), startFrom("b", "a")}, "a+ b+?"},
		{"R33: its own parent", []string{start("a"), finish("a"), startFrom("b", "b")}, "a+ a! b+?"},
		{"R33: root", []string{start("a"), finish("a"), startFrom("b", "root")}, "a+ a! b+"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := follow(t, agui.NewTracker(nil, agui.RunKey{}), 1, test.lines...)
			if strings.Join(got, " ") != test.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, " "), test.want)
			}
		})
	}
}

// Decision 3 and R33: what each run continues, and how much of it.
func TestTrackerParents(t *testing.T) {
	for _, test := range []struct {
		name  string
		lines []string
		want  string // of each run: id<parent@parentSeq
	}{
		{"the head", []string{start("a"), finish("a"), start("b"), finish("b"), start("c")}, "a b<a@2 c<b@4"},
		{"a pointer is a branch", []string{start("a"), finish("a"), start("b"), finish("b"), startFrom("c", "a"), finish("c"), start("d")}, "a b<a@2 c<a@4 d<c@6"},
		{"root is before the first run", []string{start("a"), finish("a"), startFrom("b", "root")}, "a b"},
		{"a run called root is that run", []string{start("root"), finish("root"), start("b"), finish("b"), startFrom("c", "root")}, "root b<root@2 c<root@4"},
		{"a pointer names the latest attempt", []string{start("a"), finish("a"), start("a"), finish("a"), startFrom("b", "a")}, "a a#2<a@2 b<a#2@4"},
		{"no pointer, the head", []string{start("a"), finish("a"), startFrom("b", "zzz")}, "a b<a@2"},
		{"overlapping runs have no bound", []string{start("a"), start("b"), finish("b"), start("c")}, "a b<a@0 c<b@0"},
		{"once it has ended there is one", []string{start("a"), start("b"), finish("a"), finish("b"), start("c")}, "a b<a@0 c<b@4"},
		{"a branch beside a running one", []string{start("a"), finish("a"), start("b"), startFrom("c", "a")}, "a b<a@2 c<a@3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := agui.NewTracker(nil, agui.RunKey{})
			follow(t, tr, 1, test.lines...)
			var got []string
			for _, r := range tr.Runs() {
				s := r.Key.String()
				if !r.Parent.IsZero() {
					s += fmt.Sprintf("<%s@%d", r.Parent, r.ParentSeq)
				}
				got = append(got, s)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, " "), test.want)
			}
		})
	}
}

// R2: statuses.
func TestTrackerStatus(t *testing.T) {
	for line, want := range map[string]agui.RunStatus{
		finish("a"): agui.RunSuccess,
		`{"type":"RUN_FINISHED","outcome":{"type":"success"}}`:                       agui.RunSuccess,
		`{"type":"RUN_FINISHED","outcome":{"type":"interrupt"}}`:                     agui.RunInterrupted,
		`{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}`:                     agui.RunCancelled,
		`{"type":"RUN_FINISHED","outcome":{"type":"of the future"}}`:                 agui.RunSuccess,
		`{"type":"RUN_FINISHED","outcome":"interrupt"}`:                              agui.RunSuccess,
		`{"type":"RUN_ERROR"}`:                                                       agui.RunFailed,
		`{"type":"RUN_ERROR","message":"m","code":"AGSTORE_ABANDONED"}`:              agui.RunAbandoned,
		`{"type":"RUN_ERROR","message":"m","code":"x","outcome":{"type":"success"}}`: agui.RunFailed,
	} {
		tr := agui.NewTracker(nil, agui.RunKey{})
		follow(t, tr, 1, start("a"), line, fail, `{"type":"RUN_FINISHED","outcome":{"type":"interrupt"}}`)
		if r, _ := tr.Latest("a"); r.Status != want || r.EndSeq != 2 || r.LastSeq != 4 || r.Events != 4 || r.Running() {
			t.Errorf("%s: %+v, want %v", line, r, want)
		}
	}
	tr := agui.NewTracker(nil, agui.RunKey{})
	follow(t, tr, 1, start("a"), start("b"))
	if r, _ := tr.Latest("a"); !r.Running() || r.Status != agui.RunRunning {
		t.Errorf("a run overtaken by another is still running: %+v", r)
	}
}

func TestTrackerClaims(t *testing.T) {
	tr := agui.NewTracker(nil, agui.RunKey{})
	follow(t, tr, 1, start("a"), finish("a"), start("b"))
	a, b := agui.RunKey{ID: "a", Attempt: 1}, agui.RunKey{ID: "b", Attempt: 1}
	assign := func(line string, seq uint64, c agui.Claim) agui.Assignment {
		var h agui.Header
		if err := agui.ReadHeader([]byte(line), &h); err != nil {
			t.Fatal(err)
		}
		return tr.Assign(&h, seq, c)
	}
	if got := assign(any1, 4, agui.Claim{Run: a}); got.Run != a {
		t.Errorf("explicit run: %+v", got)
	}
	if got := assign(ev("CUSTOM", "runId", "a"), 5, agui.Claim{Run: b, Leased: true}); got.Run != b {
		t.Errorf("the lease goes before the event's id: %+v", got)
	}
	if got := assign(start("other"), 6, agui.Claim{Run: b, Leased: true}); got.Run != b || !got.Echo || got.Started {
		t.Errorf("a start through a lease is an echo: %+v", got)
	}
	if got := assign(startFrom("c", "b"), 7, agui.Claim{Parent: &a}); !got.Started || !got.UnknownParent {
		t.Errorf("explicit parent: %+v", got)
	}
	if r, _ := tr.Latest("c"); r.Parent != a || r.ParentSeq != 6 {
		t.Errorf("explicit parent: %+v", r)
	}
	if got := assign(start("d"), 8, agui.Claim{Parent: &agui.RunKey{}}); !got.Started {
		t.Errorf("explicit root: %+v", got)
	}
	if r, _ := tr.Latest("d"); !r.Parent.IsZero() || r.ParentSeq != 0 || tr.Head() != r.Key {
		t.Errorf("explicit root: %+v, head %v", r, tr.Head())
	}
	tr.SetHead(a)
	assign(start("e"), 9, agui.Claim{})
	if r, _ := tr.Latest("e"); r.Parent != a || tr.Head() != r.Key {
		t.Errorf("a head that was set holds until the next run: %+v, head %v", r, tr.Head())
	}
}

func TestTrackerClosing(t *testing.T) {
	tr := agui.NewTracker(nil, agui.RunKey{})
	follow(t, tr, 1, start("a"),
		ev("SUBAGENT_STARTED", "subagentRunId", "sub"),
		`{"type":"STEP_STARTED","stepName":"s","subagentRunId":""}`,
		ev("STEP_STARTED", "stepName", "s"),
		ev("TOOL_CALL_START", "toolCallId", "c2"), ev("TOOL_CALL_START", "toolCallId", "c1"), ev("TOOL_CALL_START", "toolCallId", "done"), ev("TOOL_CALL_END", "toolCallId", "done"),
		ev("REASONING_START", "messageId", "r"), ev("REASONING_MESSAGE_START", "messageId", "r"),
		`{"type":"TEXT_MESSAGE_START","messageId":"\ud83d"}`, ev("TEXT_MESSAGE_START", "messageId", "m"),
		ev("TEXT_MESSAGE_CHUNK", "messageId", "chunked"))
	before := tr.Runs()
	run := agui.RunKey{ID: "a", Attempt: 1}
	want := []string{
		`{"type":"TEXT_MESSAGE_END","messageId":"\ud83d"}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
		`{"type":"REASONING_MESSAGE_END","messageId":"r"}`,
		`{"type":"REASONING_END","messageId":"r"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"c2"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"c1"}`,
		`{"type":"STEP_FINISHED","stepName":"s","subagentRunId":""}`,
		`{"type":"STEP_FINISHED","stepName":"s"}`,
		`{"type":"SUBAGENT_ERROR","subagentRunId":"sub","message":"why","code":"C"}`,
		`{"type":"RUN_ERROR","message":"why","code":"C","runId":"a"}`,
	}
	closing := tr.Closing(run, "C", "why")
	var got []string
	for _, e := range closing {
		got = append(got, string(e))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(tr.Runs(), before) {
		t.Error("asking changed the tracker")
	}
	// A tracker that was made from the rows and told the records knows as much.
	again := agui.NewTracker(tr.Runs(), tr.Head())
	var h agui.Header
	if err := agui.ReadHeader([]byte(ev("TEXT_MESSAGE_START", "messageId", "m")), &h); err != nil {
		t.Fatal(err)
	}
	again.Observe(&h, run, 2)
	if n := len(again.Closing(run, "C", "why")); n != 2 {
		t.Errorf("%d events close it, want 2", n)
	}
	for i, line := range got {
		assigned := follow(t, tr, uint64(20+i), line)
		if ended := strings.HasSuffix(assigned[0], "!"); ended != (i == len(got)-1) {
			t.Errorf("%s: %s", line, assigned[0])
		}
	}
	if open := tr.OpenRuns(); len(open) != 0 {
		t.Errorf("open: %+v", open)
	}
	if n := len(tr.Closing(run, "C", "why")); n != 1 {
		t.Errorf("%d events close what has ended, want the error alone", n)
	}
}

func TestTrackerClone(t *testing.T) {
	tr := agui.NewTracker(nil, agui.RunKey{})
	follow(t, tr, 1, start("a"), ev("TEXT_MESSAGE_START", "messageId", "m"))
	rows, closing := tr.Runs(), tr.Closing(agui.RunKey{ID: "a", Attempt: 1}, "C", "")
	trial := tr.Clone()
	follow(t, trial, 3, ev("TEXT_MESSAGE_END", "messageId", "m"), ev("TOOL_CALL_START", "toolCallId", "c"), start("b"), finish("a"), any1)
	if !slices.Equal(tr.Runs(), rows) || tr.Len() != 1 || len(tr.OpenRuns()) != 1 || tr.Head().ID != "a" {
		t.Errorf("the trial changed the tracker: %+v", tr.Runs())
	}
	if now := tr.Closing(agui.RunKey{ID: "a", Attempt: 1}, "C", ""); len(now) != len(closing) {
		t.Errorf("the trial changed what is open: %d, was %d", len(now), len(closing))
	}
}

// What a tracker says does not depend on being made anew from its rows in
// between, as a store does when it is opened.
func TestTrackerSurvivesReload(t *testing.T) {
	ids := []string{"a", "b", "c", "root"}
	rapid.Check(t, func(rt *rapid.T) {
		whole := agui.NewTracker(nil, agui.RunKey{})
		parts := agui.NewTracker(nil, agui.RunKey{})
		type seen struct {
			h   agui.Header
			run agui.RunKey
			seq uint64
		}
		var log []seen
		for seq := uint64(1); seq <= 40; seq++ {
			id := rapid.SampledFrom(ids)
			line := rapid.OneOf(
				rapid.Map(id, start), rapid.Map(id, finish),
				rapid.Custom(func(rt *rapid.T) string { return startFrom(id.Draw(rt, "run"), id.Draw(rt, "parent")) }),
				rapid.Map(id, func(s string) string { return ev("TEXT_MESSAGE_START", "messageId", s) }),
				rapid.Map(id, func(s string) string { return ev("TEXT_MESSAGE_CONTENT", "messageId", s) }),
				rapid.Map(id, func(s string) string { return ev("TOOL_CALL_END", "toolCallId", s) }),
				rapid.SampledFrom([]string{any1, fail, finish0}),
			).Draw(rt, "event")
			var h agui.Header
			if err := agui.ReadHeader([]byte(line), &h); err != nil {
				rt.Fatal(err)
			}
			if rapid.IntRange(0, 4).Draw(rt, "reload") == 0 {
				parts = agui.NewTracker(parts.Runs(), parts.Head())
				for _, s := range log {
					if r, ok := parts.Run(s.run); ok && r.Running() {
						parts.Observe(&s.h, s.run, s.seq)
					}
				}
			}
			a, b := whole.Assign(&h, seq, agui.Claim{}), parts.Assign(&h, seq, agui.Claim{})
			if a != b {
				rt.Fatalf("seq %d %s: %+v, after a reload %+v", seq, line, a, b)
			}
			log = append(log, seen{h, a.Run, seq})
		}
		if !slices.Equal(whole.Runs(), parts.Runs()) || whole.Head() != parts.Head() {
			rt.Fatalf("rows %+v, after reloads %+v", whole.Runs(), parts.Runs())
		}
		for _, r := range whole.OpenRuns() {
			a, b := whole.Closing(r.Key, "C", "m"), parts.Closing(r.Key, "C", "m")
			if !slices.EqualFunc(a, b, func(x, y []byte) bool { return string(x) == string(y) }) {
				rt.Fatalf("closing %q, after reloads %q", a, b)
			}
		}
		// A lineage goes from a run without a parent to the run itself.
		for _, r := range whole.Runs() {
			line := agui.Lineage(whole.Runs(), r.Key)
			if len(line) == 0 || line[len(line)-1] != (agui.Segment{Run: r.Key, Through: agui.Unbounded}) {
				rt.Fatalf("lineage of %v: %v", r.Key, line)
			}
		}
	})
}
