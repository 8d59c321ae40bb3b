package jsonvalue

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"pgregory.net/rapid"
)

// ops reads a patch in its JSON form.
func ops(t testing.TB, text string) []Op {
	t.Helper()
	var out []Op
	for _, o := range mustParse(t, text).Items() {
		op, _ := o.GetText("op")
		path, _ := o.GetText("path")
		from, _ := o.GetText("from")
		out = append(out, Op{Kind: OpKind(op), Path: path, From: from, Value: o.Get("value")})
	}
	return out
}

func TestPatch(t *testing.T) {
	for _, c := range []struct {
		doc, patch string
		want       string // the document, if err is nil
		err        error
	}{
		{`{"a":1,"b":2}`, `[{"op":"add","path":"/a","value":{"x":1.0}}]`, `{"a":{"x":1.0},"b":2}`, nil},
		{`{"a":1,"b":2}`, `[{"op":"remove","path":"/a"},{"op":"add","path":"/a","value":3}]`, `{"b":2,"a":3}`, nil},
		{`[1,2]`, `[{"op":"add","path":"/1","value":9},{"op":"add","path":"/-","value":8},{"op":"add","path":"/4","value":7}]`, `[1,9,2,8,7]`, nil},
		{`[1,2]`, `[{"op":"add","path":"/3","value":9}]`, ``, ErrNoSuchPlace},
		{`[1,2]`, `[{"op":"add","path":"/01","value":9}]`, ``, ErrListIndex},
		{`[1,2]`, `[{"op":"add","path":"/","value":9}]`, ``, ErrListIndex},
		{`[1,2]`, `[{"op":"add","path":"/-1","value":9}]`, ``, ErrListIndex},
		{`[1,2]`, `[{"op":"add","path":"/+1","value":9}]`, ``, ErrListIndex},
		{`[1,2]`, `[{"op":"add","path":"/4294967296","value":9}]`, ``, ErrNoSuchPlace},
		{`[1,2]`, `[{"op":"add","path":"/99999999999999999999999999","value":9}]`, ``, ErrNoSuchPlace},
		{`[1,2]`, `[{"op":"replace","path":"/-","value":9}]`, ``, ErrListIndex},
		{`[1,2]`, `[{"op":"remove","path":"/-"}]`, ``, ErrListIndex},
		{`[1,2]`, `[{"op":"test","path":"/-","value":null}]`, ``, ErrListIndex},
		{`[1,2]`, `[{"op":"copy","from":"/length","path":"/-"}]`, ``, ErrListIndex},
		{`[[1],2]`, `[{"op":"copy","from":"/0","path":"/-"},{"op":"add","path":"/0/-","value":3}]`, `[[1,3],2,[1]]`, nil},
		{`[1,2]`, `[{"op":"move","from":"/0","path":"/-"}]`, `[2,1]`, nil},
		{`[1,2]`, `[{"op":"move","from":"/0","path":"/2"}]`, ``, ErrNoSuchPlace},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, ``, ErrMoveIntoItself},
		{`{"a":1}`, `[{"op":"move","from":"","path":"/a"}]`, ``, ErrMoveIntoItself},
		{`{"a":1}`, `[{"op":"move","from":"/a","path":"/a"}]`, `{"a":1}`, nil},
		{`{"a":1}`, `[{"op":"move","from":"/b","path":"/b"}]`, ``, ErrNoSuchPlace},
		{`{"a":[1]}`, `[{"op":"move","from":"/a","path":""}]`, `[1]`, nil},
		{`{"a":[1]}`, `[{"op":"copy","from":"","path":"/b"}]`, `{"a":[1],"b":{"a":[1]}}`, nil},
		{`{"a":1}`, `[{"op":"copy","from":"/x","path":""}]`, ``, ErrNoSuchPlace},
		{`{"a":1}`, `[{"op":"replace","path":"/b","value":1}]`, ``, ErrNoSuchPlace},
		{`{"a":null}`, `[{"op":"replace","path":"/a","value":1}]`, `{"a":1}`, nil},
		{`{"a":null}`, `[{"op":"test","path":"/a","value":null},{"op":"remove","path":"/a"}]`, `{}`, nil},
		{`{}`, `[{"op":"test","path":"/a","value":null}]`, ``, ErrNoSuchPlace},
		{`{}`, `[{"op":"replace","path":"/toString","value":1}]`, ``, ErrNoSuchPlace},
		{`{"a":1}`, `[{"op":"test","path":"","value":{"a":1.0}}]`, `{"a":1}`, nil},
		{`{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, ``, ErrTestFailed},
		{`{"a/b":1,"m~n":2,"~1":3,"":4}`, `[{"op":"test","path":"/a~1b","value":1},{"op":"test","path":"/m~0n","value":2},{"op":"test","path":"/~01","value":3},{"op":"test","path":"/","value":4}]`, `{"a/b":1,"m~n":2,"~1":3,"":4}`, nil},
		{`{"a":1}`, `[{"op":"remove","path":""}]`, `null`, nil},
		{`null`, `[{"op":"add","path":"/a","value":1}]`, ``, ErrNotContainer},
		{`{"a":"text"}`, `[{"op":"add","path":"/a/0","value":1}]`, ``, ErrNotContainer},
		{`5`, `[{"op":"replace","path":"","value":[]},{"op":"add","path":"/0","value":6}]`, `[6]`, nil},
		{`{}`, `[{"op":"add","path":"a","value":1}]`, ``, ErrPointer},
		{`{}`, `[{"op":"add","path":"/~2","value":1}]`, ``, ErrPointer},
		{`{}`, `[{"op":"add","path":"/a/b~","value":1}]`, ``, ErrPointer},
		{`{}`, `[{"op":"add","path":"/a"}]`, ``, ErrNoValue},
		{`{}`, `[{"op":"increment","path":"/a","value":1}]`, ``, ErrUnknownOp},
		{`{}`, `[]`, `{}`, nil},
	} {
		d := NewDocument(mustParse(t, c.doc))
		err := d.Patch(ops(t, c.patch), PatchLimits{})
		if c.err != nil {
			c.want = c.doc
		}
		if got := d.Snapshot().String(); !errors.Is(err, c.err) || got != c.want {
			t.Errorf("%s with %s: %s, %v; want %s, %v", c.doc, c.patch, got, err, c.want, c.err)
		}
	}
}

func TestPatchShiftingMoves(t *testing.T) {
	for _, c := range []struct {
		doc, patch, want string
		err              error
	}{
		{`[{"x":1},{"x":2}]`, `[{"op":"move","from":"/0","path":"/0/y"}]`, `[{"x":2,"y":{"x":1}}]`, nil},
		{`[{"x":1}]`, `[{"op":"move","from":"/0","path":"/0/y"}]`, ``, ErrNoSuchPlace},
		{`{"a":{}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, ``, ErrNoSuchPlace},
		{`{"a":{}}`, `[{"op":"move","from":"","path":"/a"}]`, ``, ErrMoveIntoItself},
	} {
		d := NewDocument(mustParse(t, c.doc))
		err := d.Patch(ops(t, c.patch), PatchLimits{ShiftingMoves: true})
		if c.err != nil {
			c.want = c.doc
		}
		if got := d.Snapshot().String(); !errors.Is(err, c.err) || got != c.want {
			t.Errorf("%s with %s: %s, %v; want %s, %v", c.doc, c.patch, got, err, c.want, c.err)
		}
	}
}

func TestPatchErrorNamesTheOperation(t *testing.T) {
	d := NewDocument(mustParse(t, `{"a":1}`))
	err := d.Patch(ops(t, `[{"op":"add","path":"/b","value":2},{"op":"remove","path":"/zz"}]`), PatchLimits{})
	failed, ok := errors.AsType[*PatchError](err)
	if !ok || failed.Index != 1 || failed.Op != Remove || !errors.Is(err, ErrNoSuchPlace) {
		t.Errorf("error %v", err)
	}
	if got := d.Snapshot().String(); got != `{"a":1}` {
		t.Errorf("the document became %s", got)
	}
}

func TestPatchLimits(t *testing.T) {
	long := strings.Repeat("x", 100)
	nest := `[{"op":"add","path":"/a","value":{"b":{}}},{"op":"copy","from":"/a","path":"/a/b/a"}]`
	for name, c := range map[string]struct {
		patch  string
		limits PatchLimits
		ok     bool
	}{
		"ops":           {`[{"op":"test","path":"","value":{}},{"op":"test","path":"","value":{}}]`, PatchLimits{Ops: 1}, false},
		"copied":        {`[{"op":"add","path":"/a","value":"` + long + `"},{"op":"copy","from":"/a","path":"/b"}]`, PatchLimits{Copied: 100}, false},
		"copied enough": {`[{"op":"add","path":"/a","value":"` + long + `"},{"op":"copy","from":"/a","path":"/b"}]`, PatchLimits{Copied: 102}, true},
		"size":          {`[{"op":"add","path":"/a","value":"` + long + `"}]`, PatchLimits{Size: 100}, false},
		"nesting":       {nest, PatchLimits{Nesting: 4}, false},
		"nested enough": {nest, PatchLimits{Nesting: 5}, true},
		"moved deeper":  {`[{"op":"add","path":"/a","value":[[]]},{"op":"add","path":"/b","value":{"c":0}},{"op":"move","from":"/a","path":"/b/c"}]`, PatchLimits{Nesting: 3}, false},
		"object only":   {`[{"op":"replace","path":"","value":[]}]`, PatchLimits{ObjectOnly: true}, false},
		"object again":  {`[{"op":"replace","path":"","value":[]},{"op":"replace","path":"","value":{}}]`, PatchLimits{ObjectOnly: true}, true},
	} {
		d := NewDocument(mustParse(t, `{}`))
		err := d.Patch(ops(t, c.patch), c.limits)
		switch {
		case c.ok && err != nil:
			t.Errorf("%s: %v", name, err)
		case !c.ok && !errors.Is(err, ErrPatchLimit) && !errors.Is(err, ErrNotObject):
			t.Errorf("%s: error %v", name, err)
		case !c.ok && d.Snapshot().String() != `{}`:
			t.Errorf("%s: the document became %s", name, d.Snapshot())
		}
	}
}

// Copies that double a document 60 times end at a limit, not in memory.
func TestPatchCopiesAreBounded(t *testing.T) {
	d := NewDocument(mustParse(t, `{"a":["0123456789"]}`))
	var patch []Op
	for range 60 {
		patch = append(patch, Op{Kind: Copy, From: "/a", Path: "/a/-"})
	}
	if err := d.Patch(patch, PatchLimits{}); !errors.Is(err, ErrPatchLimit) {
		t.Errorf("error %v", err)
	}
}

// value draws a small document.
func value(depth int) *rapid.Generator[Value] {
	scalar := rapid.Custom(func(rt *rapid.T) Value {
		return rapid.SampledFrom([]Value{NewNull(), NewBool(true), NewInt(1), NewString("s"), {kind: Number, text: "1.0"}}).Draw(rt, "scalar")
	})
	if depth == 0 {
		return scalar
	}
	inner := value(depth - 1)
	return rapid.Custom(func(rt *rapid.T) Value {
		switch rapid.IntRange(0, 3).Draw(rt, "kind") {
		case 0:
			return scalar.Draw(rt, "value")
		case 1:
			return NewList(rapid.SliceOfN(inner, 0, 3).Draw(rt, "items")...)
		}
		var members []Member
		for _, k := range rapid.SliceOfN(rapid.StringMatching(`[a-l]`), 0, 12).Draw(rt, "names") {
			members = append(members, Member{k, inner.Draw(rt, k)})
		}
		return NewObject(members...)
	})
}

// path draws a pointer that more often than not leads somewhere in v.
func path(v Value) *rapid.Generator[string] {
	return rapid.Custom(func(rt *rapid.T) string {
		out := ""
		for range rapid.IntRange(1, 3).Draw(rt, "length") {
			token := rapid.SampledFrom([]string{"a", "b", "c", "0", "1", "2", "-", "k"}).Draw(rt, "token")
			if v.Kind() == List && v.Len() > 0 && rapid.Bool().Draw(rt, "hit") {
				token = fmt.Sprint(rapid.IntRange(0, v.Len()-1).Draw(rt, "index"))
			} else if v.Kind() == Object && v.Len() > 0 && rapid.Bool().Draw(rt, "hit") {
				var names []string
				for name := range v.Members() {
					names = append(names, name)
				}
				token = rapid.SampledFrom(names).Draw(rt, "name")
			}
			out += "/" + token
			v = v.step(token)
		}
		return out
	})
}

func drawOps(rt *rapid.T, v Value) []Op {
	var out []Op
	for range rapid.IntRange(1, 6).Draw(rt, "operations") {
		op := Op{
			Kind:  rapid.SampledFrom([]OpKind{Add, Remove, Replace, Move, Copy, Test}).Draw(rt, "op"),
			Path:  path(v).Draw(rt, "path"),
			From:  path(v).Draw(rt, "from"),
			Value: value(1).Draw(rt, "value"),
		}
		if op.Kind == Test && rapid.Bool().Draw(rt, "true") {
			if there := v.Resolve(op.Path); there.Present() {
				op.Value = there
			}
		}
		out = append(out, op)
	}
	return out
}

// Random patches, with the second opinion of evanphx/json-patch where its rules
// are those of the RFC; and whatever happens, snapshots stay, failing patches
// leave no trace, and the size is that of the document.
func TestPatchAgainstSecondOpinion(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		start := value(3).Draw(rt, "document")
		if start.Kind() != Object && start.Kind() != List {
			start = NewList(start)
		}
		d := NewDocument(start)
		for range rapid.IntRange(1, 4).Draw(rt, "patches") {
			before := d.Size()
			snapshot := d.root
			if rapid.Bool().Draw(rt, "snapshot") {
				snapshot = d.Snapshot()
			} else {
				snapshot = mustParseRapid(rt, snapshot.String())
			}
			text := snapshot.String()
			patch := drawOps(rt, snapshot)
			err := d.Patch(patch, PatchLimits{})
			got := d.root.String()
			if snapshot.String() != text {
				rt.Fatalf("the patch changed a snapshot from %s to %s", text, snapshot)
			}
			if err != nil && (got != text || d.Size() != before) {
				rt.Fatalf("a failing patch changed %s to %s, size %d to %d", text, got, before, d.Size())
			}
			if size, _ := measure(d.root); size != d.Size() {
				rt.Fatalf("%s has size %d, counted %d", got, size, d.Size())
			}
			if again := mustParseRapid(rt, got); !Equal(again, d.root) {
				rt.Fatalf("%s does not equal itself", got)
			}
			compareOpinions(rt, text, patch, d.root, err)
		}
	})
}

func mustParseRapid(rt *rapid.T, text string) Value {
	v, err := Parse([]byte(text), 0)
	if err != nil {
		rt.Fatalf("%s: %v", text, err)
	}
	return v
}

func compareOpinions(rt *rapid.T, doc string, patch []Op, got Value, err error) {
	text := []byte("[")
	for i, op := range patch {
		// Moving a value into itself, or to where it is, is treated otherwise there.
		if op.Kind == Move && strings.HasPrefix(op.Path+"/", op.From+"/") {
			return
		}
		// "test" there finds a null where nothing is, and panics on some nulls
		// inside lists.
		if op.Kind == Test && strings.Contains(op.Value.String(), "null") {
			return
		}
		if strings.Contains(op.Path+"/"+op.From, "/-") && op.Kind != Add {
			return
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = NewObject(Member{"op", NewString(string(op.Kind))}, Member{"path", NewString(op.Path)},
			Member{"from", NewString(op.From)}, Member{"value", op.Value}).AppendJSON(text)
	}
	second, decodeErr := jsonpatch.DecodePatch(append(text, ']'))
	if decodeErr != nil {
		rt.Fatalf("%s: %v", text, decodeErr)
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	out, secondErr := second.ApplyWithOptions([]byte(doc), options)
	if (err == nil) != (secondErr == nil) {
		rt.Fatalf("%s with %s: %v, second opinion %v", doc, text, err, secondErr)
	}
	if err == nil && !Equal(got, mustParseRapid(rt, string(out))) {
		rt.Fatalf("%s with %s: %s, second opinion %s", doc, text, got, out)
	}
}

// A patch of one member costs the same in a large document as in a small one.
func TestPatchCostsItsPath(t *testing.T) {
	perOp := func(size int) int64 {
		var members []Member
		for i := range size {
			members = append(members, Member{fmt.Sprintf("k%d", i), NewList(NewInt(int64(i)))})
		}
		d := NewDocument(NewObject(Member{"inner", NewObject(members...)}))
		patch := []Op{{Kind: Replace, Path: "/inner/k1/0", Value: NewInt(7)}, {Kind: Add, Path: "/inner/new", Value: NewInt(1)}, {Kind: Remove, Path: "/inner/new"}}
		if err := d.Patch(patch, PatchLimits{}); err != nil {
			t.Fatal(err)
		}
		return testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				if err := d.Patch(patch, PatchLimits{}); err != nil {
					b.Fatal(err)
				}
			}
		}).AllocedBytesPerOp()
	}
	small, large := perOp(20), perOp(50_000)
	if large > 4*small+1024 {
		t.Errorf("a patch allocates %d bytes in a small document, %d in a large one", small, large)
	}
}

func TestMerge(t *testing.T) {
	var d Document
	d.Merge(NewNull())
	if d.Present() {
		t.Error("merging null made a document")
	}
	d.Merge(mustParse(t, `{}`))
	if got := d.Snapshot().String(); got != `{}` {
		t.Errorf("merging {} gives %s", got)
	}
	d.Merge(mustParse(t, `{"a":{"x":1},"b":2}`))
	before := d.Snapshot()
	d.Merge(mustParse(t, `{"a":{"y":1},"c":null}`))
	if got := d.Snapshot().String(); got != `{"a":{"y":1},"b":2,"c":null}` {
		t.Errorf("merged %s", got)
	}
	if got := before.String(); got != `{"a":{"x":1},"b":2}` {
		t.Errorf("the snapshot became %s", got)
	}
	if size, _ := measure(d.root); size != d.Size() {
		t.Errorf("size %d, counted %d", size, d.Size())
	}
}

// FuzzPatch: no patch panics, and a failing one leaves no trace.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":2}]}`), []byte(`[{"op":"move","from":"/a/0","path":"/a/1/c"},{"op":"copy","from":"","path":"/x"}]`))
	f.Add([]byte(`[]`), []byte(`[{"op":"add","path":"/-","value":1},{"op":"remove","path":"/9"}]`))
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		v, err := Parse(doc, 100)
		if err != nil {
			return
		}
		if _, err := Parse(patch, 100); err != nil {
			return
		}
		text := v.String()
		d := NewDocument(v)
		if err := d.Patch(ops(t, string(patch)), PatchLimits{Ops: 50, Size: 1 << 16, Nesting: 100}); err != nil && d.root.String() != text {
			t.Fatalf("%s with %s: %v, and the document is %s", doc, patch, err, d.root)
		}
		if v.String() != text {
			t.Fatalf("%s with %s changed the original to %s", doc, patch, v)
		}
	})
}
