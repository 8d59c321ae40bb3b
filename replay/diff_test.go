package replay_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/jsonvalue"
	"github.com/agstore/agstore/replay"
)

func TestDiffMessages(t *testing.T) {
	text := func(id, says string) agui.Message { return say(agui.RoleUser, id, says) }
	a, b, c, d := text("a", "1"), text("b", "2"), text("c", "3"), text("d", "4")
	for _, x := range []struct {
		name     string
		from, to []agui.Message
		want     string
	}{
		{"nothing", []agui.Message{a, b}, []agui.Message{a, b}, ``},
		{"added behind", []agui.Message{a}, []agui.Message{a, b}, `added b -1>1 `},
		{"removed", []agui.Message{a, b, c}, []agui.Message{a, c}, `removed b 1>-1 `},
		{"changed", []agui.Message{a, b}, []agui.Message{a, text("b", "other")}, `changed b 1>1 `},
		{"moved to the front", []agui.Message{a, b, c}, []agui.Message{c, a, b}, `moved c 2>0 `},
		{"moved to the end", []agui.Message{a, b, c, d}, []agui.Message{b, c, d, a}, `moved a 0>3 `},
		{"changed and moved", []agui.Message{a, b, c}, []agui.Message{text("c", "x"), a, b}, `changed c 2>0 moved c 2>0 `},
		{"all of it", []agui.Message{a, b, c}, []agui.Message{d, c, a}, `removed b 1>-1 added d -1>0 moved c 2>1 `},
		{"one id twice", []agui.Message{a, a}, []agui.Message{a}, `removed a 1>-1 `},
	} {
		got, err := replay.Diff(&fold.View{Messages: x.from}, &fold.View{Messages: x.to})
		if err != nil {
			t.Fatal(err)
		}
		list := ""
		for _, m := range got.Messages {
			list += fmt.Sprintf("%s %s %d>%d ", m.Kind, m.ID, m.From, m.To)
			if (m.Before == nil) != (m.From < 0) || (m.After == nil) != (m.To < 0) {
				t.Errorf("%s: %+v", x.name, m)
			}
		}
		if list != x.want && x.name != "all of it" {
			t.Errorf("%s: %q, want %q", x.name, list, x.want)
		}
		if x.name == "all of it" && list != x.want && list != `removed b 1>-1 added d -1>0 moved a 0>2 ` {
			t.Errorf("%s: %q", x.name, list)
		}
		if got.Empty() != (x.want == "") {
			t.Errorf("%s: empty is %v", x.name, got.Empty())
		}
		if !json.Valid(got.AppendJSON(nil)) {
			t.Errorf("%s: %s", x.name, got.AppendJSON(nil))
		}
	}
}

func TestDiffState(t *testing.T) {
	for _, x := range []struct{ a, b, want string }{
		{``, ``, `{"messages":[],"state":[]}`},
		{``, `{"n":1.0}`, `{"messages":[],"state":[{"op":"add","path":"","value":{"n":1.0}}]}`},
		{`{"n":1}`, ``, `{"messages":[],"state":[],"stateGone":true}`},
		{`{"n":1,"k":[]}`, `{"n":1.0,"k":[]}`, `{"messages":[],"state":[{"op":"replace","path":"/n","value":1.0}]}`},
	} {
		state := func(s string) json.RawMessage {
			if s == "" {
				return nil
			}
			return json.RawMessage(s)
		}
		d, err := replay.Diff(&fold.View{State: state(x.a)}, &fold.View{State: state(x.b)})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(d.AppendJSON(nil)); got != x.want {
			t.Errorf("%s to %s: %s, want %s", x.a, x.b, got, x.want)
		}
	}
}

// Between any two points of any conversation, what the difference says is done to
// the first view gives the second.
func TestDiffLeadsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		views := prefixes(conversation(t))
		a, b := rapid.SampledFrom(views).Draw(t, "a"), rapid.SampledFrom(views).Draw(t, "b")
		d, err := replay.Diff(a, b)
		if err != nil {
			t.Fatal(err)
		}
		// Take out what went and what moved, put in what came and what moved, in order.
		out := map[int]bool{}
		at := map[int]*agui.Message{}
		changed := map[string]*agui.Message{}
		for _, c := range d.Messages {
			switch c.Kind {
			case replay.Removed:
				out[c.From] = true
			case replay.Moved:
				out[c.From], at[c.To] = true, c.After
			case replay.Added:
				at[c.To] = c.After
			case replay.Changed:
				changed[c.ID] = c.After
			}
		}
		var rest []*agui.Message
		for i := range a.Messages {
			if !out[i] {
				rest = append(rest, &a.Messages[i])
			}
		}
		for j := range b.Messages {
			m := at[j]
			if m == nil {
				if len(rest) == 0 {
					t.Fatalf("nothing is left for place %d: %s", j, d.AppendJSON(nil))
				}
				m, rest = rest[0], rest[1:]
			}
			if c := changed[m.ID]; c != nil {
				m = c
			}
			if x, y := string(m.AppendJSON(nil)), string(b.Messages[j].AppendJSON(nil)); x != y {
				t.Fatalf("at place %d %s, want %s", j, x, y)
			}
		}
		if len(rest) > 0 || d.StateGone != (a.State != nil && b.State == nil) {
			t.Fatalf("%d are left; state gone %v", len(rest), d.StateGone)
		}
		if b.State == nil {
			return
		}
		from, to := jsonvalue.NewObject(), mustValue(t, b.State)
		if a.State != nil {
			from = mustValue(t, a.State)
		}
		doc := jsonvalue.NewDocument(from)
		if err := doc.Patch(d.State, jsonvalue.PatchLimits{}); err != nil {
			t.Fatal(err)
		}
		if d, err := replay.Diff(&fold.View{State: doc.Snapshot().AppendJSON(nil)}, &fold.View{State: to.AppendJSON(nil)}); err != nil || !d.Empty() {
			t.Fatalf("%s patched is %s, not %s", from, doc.Snapshot(), to)
		}
	})
}

func mustValue(t *rapid.T, raw []byte) jsonvalue.Value {
	v, err := jsonvalue.Parse(raw, 0)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
