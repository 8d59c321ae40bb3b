package jsonvalue

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func patchText(ops []Op) string {
	list := make([]Value, len(ops))
	for i, op := range ops {
		list[i] = op.JSON()
	}
	return NewList(list...).String()
}

func TestDiff(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{`{"a":1}`, `{"a":1}`, `[]`},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `[]`},
		{`{"a":1}`, `{"a":2}`, `[{"op":"replace","path":"/a","value":2}]`},
		{`{"a":1}`, `{"a":1.0}`, `[{"op":"replace","path":"/a","value":1.0}]`},
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`, `[{"op":"replace","path":"/n","value":9007199254740992}]`},
		{`{"a":null}`, `{}`, `[{"op":"remove","path":"/a"}]`},
		{`{}`, `{"a/b":{"~":null}}`, `[{"op":"add","path":"/a~1b","value":{"~":null}}]`},
		{`{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, `[{"op":"replace","path":"/a~1b/~0","value":2}]`},
		{`{"deep":{"er":[{"x":1,"y":2}]}}`, `{"deep":{"er":[{"x":1,"y":3}]}}`, `[{"op":"replace","path":"/deep/er/0/y","value":3}]`},
		{`[1,2,3]`, `[1,3]`, `[{"op":"remove","path":"/1"}]`},
		{`[1,3]`, `[1,2,3]`, `[{"op":"add","path":"/1","value":2}]`},
		{`[1,2]`, `[1,2,3]`, `[{"op":"add","path":"/2","value":3}]`},
		{`[1,2,3,4]`, `[0,2,4,5]`, `[{"op":"replace","path":"/0","value":0},{"op":"remove","path":"/2"},{"op":"add","path":"/3","value":5}]`},
		{`{"a":{}}`, `{"a":[]}`, `[{"op":"replace","path":"/a","value":[]}]`},
		{`{"a":1}`, `[1]`, `[{"op":"replace","path":"","value":[1]}]`},
		{`"\ud83c"`, `"\udf89"`, `[{"op":"replace","path":"","value":"\udf89"}]`},
		{`{"":1}`, `{"":2}`, `[{"op":"replace","path":"/","value":2}]`},
	} {
		if got := patchText(Diff(mustParse(t, c.a), mustParse(t, c.b))); got != c.want {
			t.Errorf("from %s to %s: %s, want %s", c.a, c.b, got, c.want)
		}
	}
}

// Applied to a, the patch gives b, number text included. A single change deep inside is a
// single operation on that place.
func TestDiffIsApplied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawValue(t, 4)
		b := a
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			b = drawValue(t, 4)
		} else {
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				b = changed(t, b)
			}
		}
		d := NewDocument(a)
		patch := Diff(a, b)
		if err := d.Patch(patch, PatchLimits{}); err != nil {
			t.Fatalf("from %s to %s: %s: %v", a, b, patchText(patch), err)
		}
		if got := d.Snapshot(); sortedText(got) != sortedText(b) {
			t.Fatalf("from %s to %s: %s gives %s", a, b, patchText(patch), got)
		}
		if sortedText(a) == sortedText(b) && len(patch) > 0 {
			t.Fatalf("%s to itself: %s", a, patchText(patch))
		}
		for _, op := range patch {
			if op.Path == "" && a.Kind() == b.Kind() && (a.Kind() == Object || a.Kind() == List) {
				t.Fatalf("from %s to %s: the whole document is replaced", a, b)
			}
		}
	})
}

func drawValue(t *rapid.T, depth int) Value {
	n := rapid.IntRange(0, 6).Draw(t, "value")
	if depth == 0 {
		n %= 4
	}
	switch n {
	case 0:
		return NewNull()
	case 1:
		v, err := Parse([]byte(rapid.SampledFrom([]string{"1", "1.0", "2", "9007199254740993", "1e2", "-0"}).Draw(t, "number")), 0)
		if err != nil {
			t.Fatal(err)
		}
		return v
	case 2:
		return NewString(rapid.SampledFrom([]string{"", "x", "\xed\xa0\xbc", "a/b"}).Draw(t, "text"))
	case 3:
		return NewBool(rapid.Bool().Draw(t, "bool"))
	case 4:
		var items []Value
		for range rapid.IntRange(0, 6).Draw(t, "length") {
			items = append(items, drawValue(t, depth-1))
		}
		return NewList(items...)
	}
	var members []Member
	for _, name := range []string{"a", "b", "a/b", "~", ""} {
		if rapid.Bool().Draw(t, "member") {
			members = append(members, Member{Name: name, Value: drawValue(t, depth-1)})
		}
	}
	return NewObject(members...)
}

// changed is v with one change somewhere inside.
func changed(t *rapid.T, v Value) Value {
	switch v.Kind() {
	case Object:
		var members []Member
		at := rapid.IntRange(0, v.Len()).Draw(t, "at")
		i := 0
		for name, member := range v.Members() {
			if i++; i-1 == at {
				if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
					continue
				}
				member = changed(t, member)
			}
			members = append(members, Member{Name: name, Value: member})
		}
		if at == v.Len() {
			members = append(members, Member{Name: fmt.Sprint("new", rapid.IntRange(0, 9999).Draw(t, "name")), Value: drawValue(t, 1)})
		}
		return NewObject(members...)
	case List:
		items := itemsOf(v)
		at := rapid.IntRange(0, len(items)).Draw(t, "at")
		var out []Value
		for i, item := range items {
			if i == at {
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0:
					continue
				case 1:
					out = append(out, drawValue(t, 1))
				default:
					item = changed(t, item)
				}
			}
			out = append(out, item)
		}
		if at == len(items) {
			out = append(out, drawValue(t, 1))
		}
		return NewList(out...)
	}
	return drawValue(t, 1)
}
