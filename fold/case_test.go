package fold_test

import (
	"bytes"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// A case is a stream, NAME.jsonl, and what must be seen of it, NAME.check.json:
// one or more views, looked at in the file or in a store it was imported into.
// The comparison is by entries: of an entry only what the check names counts.

type value = jsonvalue.Value

func parse(t testing.TB, raw []byte) value {
	t.Helper()
	v, err := jsonvalue.Parse(raw, 0)
	if err != nil {
		t.Fatalf("%v in %.80s", err, raw)
	}
	return v
}

func readLines(t testing.TB, file string) [][]byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]byte
	for line := range bytes.Lines(raw) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// comparer collects where a view differs from what a check wants.
type comparer struct {
	byText bool // numbers are equal only if they are written alike
	found  []string
}

func (c *comparer) say(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *comparer) same(want, got value) bool {
	if want.Kind() != got.Kind() {
		return false
	}
	switch want.Kind() {
	case jsonvalue.Number:
		a, _ := want.Literal()
		b, _ := got.Literal()
		if a == b || c.byText {
			return a == b
		}
		x, okX := new(big.Rat).SetString(a)
		y, okY := new(big.Rat).SetString(b)
		return okX && okY && x.Cmp(y) == 0
	case jsonvalue.List:
		if want.Len() != got.Len() {
			return false
		}
		for i, item := range want.Items() {
			if !c.same(item, got.At(i)) {
				return false
			}
		}
		return true
	case jsonvalue.Object:
		if want.Len() != got.Len() {
			return false
		}
		for name, item := range want.Members() {
			if !c.same(item, got.Get(name)) {
				return false
			}
		}
		return true
	}
	return jsonvalue.Equal(want, got)
}

func (c *comparer) equal(path string, want, got value) {
	if !c.same(want, got) {
		c.say("%s: want %v, got %v", path, want, got)
	}
}

// entry compares the members that the check names. null: absent or null. A name
// with ! behind it: anything but this.
func (c *comparer) entry(path string, want, got value) {
	for name, item := range want.Members() {
		if name, ok := strings.CutSuffix(name, "!"); ok {
			if c.same(item, got.Get(name)) {
				c.say("%s.%s: must not be %v", path, name, item)
			}
			continue
		}
		actual := got.Get(name)
		switch {
		case item.IsNull():
			if actual.Present() && !actual.IsNull() {
				c.say("%s.%s: want nothing, got %v", path, name, actual)
			}
		case name == "answers":
			c.list(path+".answers", item, actual)
		default:
			c.equal(path+"."+name, item, actual)
		}
	}
}

func (c *comparer) list(path string, want, got value) {
	if want.Len() != got.Len() {
		c.say("%s: want %d entries, got %v", path, want.Len(), got)
		return
	}
	for i, item := range want.Items() {
		c.entry(fmt.Sprintf("%s[%d]", path, i), item, got.At(i))
	}
}

// loose wants each entry met by one of its own; others may be there.
func (c *comparer) loose(path string, want, got value) {
	taken := make(map[int]bool)
	for _, item := range want.Items() {
		met := false
		for i, candidate := range got.Items() {
			try := comparer{byText: c.byText}
			if try.entry(path, item, candidate); len(try.found) == 0 && !taken[i] {
				taken[i], met = true, true
				break
			}
		}
		if !met {
			c.say("%s: nothing like %v in %v", path, item, got)
		}
	}
}

var messageMembers = []string{
	"id", "role", "content", "toolCalls", "toolCallId", "name", "subagentRunId",
	"activityType", "encryptedValue", "metadata", "error",
}

// protocol is a message without what AG-UI does not know, its calls written
// flat.
func protocol(m value) value {
	var out []jsonvalue.Member
	for _, name := range messageMembers {
		v := m.Get(name)
		if v.IsNull() || name == "toolCalls" && v.Len() == 0 {
			continue
		}
		if name == "toolCalls" {
			var calls []value
			for _, call := range v.Items() {
				calls = append(calls, jsonvalue.NewObject(
					jsonvalue.Member{Name: "id", Value: call.Get("id")},
					jsonvalue.Member{Name: "name", Value: call.Get("function").Get("name")},
					jsonvalue.Member{Name: "arguments", Value: call.Get("function").Get("arguments")},
					jsonvalue.Member{Name: "encryptedValue", Value: call.Get("encryptedValue")},
					jsonvalue.Member{Name: "metadata", Value: call.Get("metadata")},
				))
			}
			v = jsonvalue.NewList(calls...)
		}
		out = append(out, jsonvalue.Member{Name: name, Value: v})
	}
	return jsonvalue.NewObject(out...)
}

func (c *comparer) messages(want, got value) {
	ids := func(list value) (out []string) {
		for _, m := range list.Items() {
			id, _ := m.GetText("id")
			out = append(out, id)
		}
		return out
	}
	if !slices.Equal(ids(want), ids(got)) {
		c.say("messages: want %q, got %q", ids(want), ids(got))
		return
	}
	for i, m := range want.Items() {
		var wanted []jsonvalue.Member
		for name, v := range m.Members() {
			if name != "ignore" {
				wanted = append(wanted, jsonvalue.Member{Name: name, Value: v})
			}
		}
		var shown []jsonvalue.Member
		for name, v := range protocol(got.At(i)).Members() {
			ignored := false
			for _, item := range m.Get("ignore").Items() {
				s, _ := item.Text()
				ignored = ignored || s == name
			}
			if !ignored {
				shown = append(shown, jsonvalue.Member{Name: name, Value: v})
			}
		}
		c.equal(fmt.Sprintf("messages[%d]", i), jsonvalue.NewObject(wanted...), jsonvalue.NewObject(shown...))
	}
}

// texts yields every string and key of a value.
func texts(v value, yield func(string)) {
	if s, ok := v.Text(); ok {
		yield(s)
	}
	for _, item := range v.Items() {
		texts(item, yield)
	}
	for name, item := range v.Members() {
		yield(name)
		texts(item, yield)
	}
}

// compare returns how a view differs from what a check wants of it.
func compare(want, got value) []string {
	numbers, _ := want.GetText("numbers")
	c := comparer{byText: numbers == "text"}
	for name, item := range want.Members() {
		switch name {
		case "at", "run", "thread", "stored", "args", "note", "numbers":
		case "messages":
			c.messages(item, got.Get(name))
		case "state", "pendingToolCalls":
			c.equal(name, item, got.Get(name))
		case "noState":
			if got.Get("state").Present() {
				c.say("state: want nothing, got %v", got.Get("state"))
			}
		case "pendingInterrupts", "interruptHistory", "legacyInterrupts", "runs", "opaqueReasoning", "custom":
			c.list(name, item, got.Get(name))
		case "subagents", "steps", "diagnostics":
			c.loose(name, item, got.Get(name))
		case "view":
			c.entry(name, item, got)
		case "noDiagnostics":
			for _, rule := range item.Items() {
				for _, d := range got.Get("diagnostics").Items() {
					if jsonvalue.Equal(rule, d.Get("rule")) {
						c.say("diagnostics: want no %v", d)
					}
				}
			}
		case "absent":
			for _, pointer := range item.Items() {
				s, _ := pointer.Text()
				if got.Resolve(s).Present() {
					c.say("%s: must be absent, got %v", s, got.Resolve(s))
				}
			}
		case "nowhere":
			for _, text := range item.Items() {
				s, _ := text.Text()
				for member, v := range got.Members() {
					if member == "diagnostics" {
						continue
					}
					texts(v, func(found string) {
						if strings.Contains(found, s) {
							c.say("%q must be nowhere, found in %q", s, found)
						}
					})
				}
			}
		default:
			c.say("the check has a member %q that is not understood", name)
		}
	}
	return c.found
}

// stored gives the view of a thread that these lines were imported into: at the
// lineage of run, else of the head, up to seq at.
func stored(t *testing.T, lines [][]byte, run string, at uint64) *fold.View {
	t.Helper()
	tracker := agui.NewTracker(nil, agui.RunKey{})
	var records []fold.Record
	for i, line := range lines {
		var h agui.Header
		if err := agui.ReadHeader(line, &h); err != nil {
			t.Fatal(err)
		}
		seq := uint64(i) + 1
		a := tracker.Assign(&h, seq, agui.Claim{})
		records = append(records, fold.Record{Seq: seq, Run: a.Run, Echo: a.Echo, UnknownParent: a.UnknownParent, Raw: line})
		if seq == at {
			break
		}
	}
	of := tracker.Head()
	if run != "" {
		var ok bool
		if of, ok = agui.ParseRunKey(tracker.Runs(), run); !ok {
			t.Fatalf("no run is called %q", run)
		}
	}
	f := fold.New(fold.Options{})
	for _, r := range records {
		for _, s := range agui.Lineage(tracker.Runs(), of) {
			if r.Run.IsZero() || s.Run == r.Run && r.Seq <= s.Through {
				f.Apply(r)
				break
			}
		}
	}
	return f.View()
}

func TestDurableCases(t *testing.T) {
	checks, err := filepath.Glob("testdata/durable/*.check.json")
	if err != nil || len(checks) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range checks {
		name := strings.TrimSuffix(filepath.Base(file), ".check.json")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			check := parse(t, raw)
			lines := readLines(t, filepath.Join("testdata", "durable", name+".jsonl"))
			for i, view := range check.Get("views").Items() {
				t.Run(fmt.Sprint(i), func(t *testing.T) { checkView(t, check, view, lines) })
			}
		})
	}
}

func checkView(t *testing.T, check, want value, lines [][]byte) {
	var got *fold.View
	at, _ := want.Get("at").Int()
	run, inRun := want.GetText("run")
	thread, inThread := want.GetText("thread")
	opts := fold.Options{}
	if args := want.Get("args"); args.Len() > 0 {
		if args.String() != `["--profile","reference"]` {
			t.Fatalf("arguments %v are not understood", args)
		}
		opts.Profile = fold.Reference
	}
	switch {
	case inThread:
		got = stored(t, imported(t, check, thread, lines), "", uint64(at))
	case inRun || want.Get("stored").Present():
		got = stored(t, lines, run, uint64(at))
	default:
		got = fold.Stream(slices.Values(lines), opts, uint64(at))
	}
	for _, difference := range compare(want, parse(t, got.AppendJSON(nil))) {
		t.Error(difference)
	}
}

// imported picks the lines that the check imports into a thread.
func imported(t *testing.T, check value, thread string, lines [][]byte) [][]byte {
	t.Helper()
	for _, part := range check.Get("import").Items() {
		if name, _ := part.GetText("thread"); name == thread {
			from, _ := part.Get("lines").At(0).Int()
			to, _ := part.Get("lines").At(1).Int()
			return lines[from-1 : to]
		}
	}
	t.Fatalf("nothing is imported into thread %q", thread)
	return nil
}
