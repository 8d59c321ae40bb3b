package interop

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// A quirk is a way of the client's patches that RFC 6901 or 6902 forbids: Reference lets such a patch fail
// (docs/fold.md). "" is none.
type quirk string

const (
	scalarDocument quirk = "patch of a scalar document"       // SEMANTICS B-8
	rootIntoItself quirk = "move of the document into itself" // B-1
	nothingToRoot  quirk = "move or copy of nothing to root"  // B-2
	oddIndex       quirk = "odd list index"                   // B-6
	inheritedName  quirk = "inherited name"                   // B-3, B-7
	infinite       quirk = "number beyond doubles in a test"  // B-9
	shiftedAway    quirk = "move whose place went with it"    // B-6, B-8
)

var quirks = []quirk{scalarDocument, rootIntoItself, nothingToRoot, oddIndex, inheritedName, infinite, shiftedAway}

// inherited are the names that every object of JavaScript has, and those that its lists have beside.
var (
	inherited = strings.Fields("constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf" +
		" __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__")
	inheritedByLists = strings.Fields("length at concat copyWithin entries every fill filter find findIndex findLast findLastIndex flat flatMap" +
		" forEach includes indexOf join keys lastIndexOf map pop push reduce reduceRight reverse shift slice some sort splice" +
		" toReversed toSorted toSpliced unshift values with")
)

// quirkOf tells which quirk a patch of a document meets before anything else lets it fail.
func quirkOf(doc value, patch []jsonvalue.Op) quirk {
	d := jsonvalue.NewDocument(doc)
	for _, op := range patch {
		if q := quirkOfOp(d.Snapshot(), op); q != "" {
			return q
		}
		if d.Patch([]jsonvalue.Op{op}, jsonvalue.PatchLimits{ShiftingMoves: true}) != nil {
			return ""
		}
	}
	return ""
}

func quirkOfOp(doc value, op jsonvalue.Op) quirk {
	moves := op.Kind == jsonvalue.Move || op.Kind == jsonvalue.Copy
	container := doc.Kind() == jsonvalue.Object || doc.Kind() == jsonvalue.List
	if !container && !doc.IsNull() && (op.Path != "" || moves && op.From != "") {
		return scalarDocument
	}
	if op.Kind == jsonvalue.Move && op.From == "" && op.Path != "" {
		return rootIntoItself
	}
	if moves {
		if q := quirkOfPointer(doc, op.From, false); q != "" {
			return q
		}
		if inherits(doc, op.From) {
			return inheritedName
		}
		if op.Path == "" && !doc.Resolve(op.From).Present() {
			return nothingToRoot
		}
	}
	if q := quirkOfPointer(doc, op.Path, moves); q != "" {
		return q
	}
	if (op.Kind == jsonvalue.Replace || op.Kind == jsonvalue.Remove) && inherits(doc, op.Path) {
		return inheritedName
	}
	if op.Kind == jsonvalue.Move && op.From != "" {
		left := jsonvalue.NewDocument(doc)
		if left.Patch([]jsonvalue.Op{{Kind: jsonvalue.Remove, Path: op.From}}, jsonvalue.PatchLimits{}) == nil {
			return quirkOfMove(left.Snapshot(), op.Path)
		}
	}
	if op.Kind == jsonvalue.Test && op.Value.Kind() != jsonvalue.String && (beyondDoubles(doc.Resolve(op.Path)) || beyondDoubles(op.Value)) {
		return infinite
	}
	return ""
}

// quirkOfPointer walks down a pointer. With end, an index beyond the end of its list is one too.
func quirkOfPointer(at value, pointer string, end bool) quirk {
	tokens, _ := jsonvalue.SplitPointer(pointer)
	for i, token := range tokens {
		switch at.Kind() {
		case jsonvalue.Object:
			at = at.Get(token)
		case jsonvalue.List:
			n, err := strconv.ParseUint(token, 10, 64)
			digits := strings.Trim(token, "0123456789") == ""
			switch {
			case digits && (err != nil || n > math.MaxInt32 || strconv.FormatUint(n, 10) != token):
				return oddIndex
			case !digits || n >= uint64(at.Len()):
				if digits && end && i == len(tokens)-1 && n > uint64(at.Len()) {
					return oddIndex
				}
				return ""
			}
			at = at.At(int(n))
		default:
			return ""
		}
	}
	return ""
}

// inherits tells whether a pointer leads to something that an object or a list has without having it.
func inherits(doc value, pointer string) bool {
	tokens, ok := jsonvalue.SplitPointer(pointer)
	if !ok || len(tokens) == 0 {
		return false
	}
	token := tokens[len(tokens)-1]
	switch parent := doc.Resolve(pointer[:strings.LastIndexByte(pointer, '/')]); parent.Kind() {
	case jsonvalue.Object:
		return !parent.Get(token).Present() && slices.Contains(inherited, token)
	case jsonvalue.List:
		return slices.Contains(inherited, token) || slices.Contains(inheritedByLists, token)
	}
	return false
}

// quirkOfMove looks where a value that was taken away is to be put.
func quirkOfMove(left value, path string) quirk {
	if q := quirkOfPointer(left, path, true); q != "" || path == "" {
		return q
	}
	parent, last := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
	switch left.Resolve(parent).Kind() {
	case jsonvalue.Bool, jsonvalue.Number, jsonvalue.String:
		return shiftedAway
	case jsonvalue.List:
		if last != "-" && strings.Trim(last, "0123456789") != "" {
			return shiftedAway // a member of a list, which JSON does not show
		}
	}
	// What was taken away may have hidden an inherited member of its name; the client then puts the value in there.
	for ; parent != ""; parent = parent[:strings.LastIndexByte(parent, '/')] {
		if inherits(left, parent) {
			return inheritedName
		}
	}
	return ""
}

// beyondDoubles tells whether there is a number in v that is infinite as a double.
func beyondDoubles(v value) bool {
	if f, ok := v.Float(); ok && math.IsInf(f, 0) {
		return true
	}
	for _, item := range v.Items() {
		if beyondDoubles(item) {
			return true
		}
	}
	for _, item := range v.Members() {
		if beyondDoubles(item) {
			return true
		}
	}
	return false
}

// refuse finds the last patch with a quirk among the first n events that is no refusal already, and returns the stream
// with a patch in its place that fails, as it must for Reference. There may be none.
func refuse(s stream, n int) (refused stream, found quirk) {
	f := fold.New(fold.Options{Profile: fold.Reference})
	at := 0
	for i, line := range s[:min(n, len(s))] {
		if q := quirkOfEvent(f.View(), line); q != "" {
			at, found = i, q
		}
		f.Apply(fold.Record{Seq: uint64(i + 1), Raw: []byte(line)})
	}
	refused = slices.Clone(s)
	if found != "" {
		refused[at] = refusal(s[at])
	}
	return refused, found
}

func quirkOfEvent(before *fold.View, line string) quirk {
	e, err := agui.Decode([]byte(line))
	if err != nil {
		return ""
	}
	switch e.Type {
	case agui.TypeStateDelta:
		state, err := jsonvalue.Parse(before.State, 0)
		if err != nil {
			return ""
		}
		return quirkOf(state, e.Patch)
	case agui.TypeActivityDelta:
		for i := range before.Messages {
			if m := &before.Messages[i]; m.ID == e.MessageID.V {
				if m.Role != agui.RoleActivity {
					return ""
				}
				content := m.Content.Object
				if content.IsNull() {
					content = jsonvalue.NewObject()
				}
				return quirkOf(content, e.Patch)
			}
		}
	}
	return ""
}

// refusal is the event with a patch that fails.
func refusal(line string) string {
	v, err := jsonvalue.Parse([]byte(line), 0)
	if err != nil {
		return line
	}
	fails := jsonvalue.NewList(object("op", "test", "path", "", "value", "no document is this"))
	for _, name := range []string{"delta", "patch"} {
		if v.Get(name).Present() {
			v = with(v, name, fails)
		}
	}
	return v.String()
}

func TestQuirks(t *testing.T) {
	for _, c := range []struct {
		doc, patch string
		want       quirk
	}{
		{`{"a":1}`, `[{"op":"add","path":"/b","value":1}]`, ""},
		{`{"a":1}`, `[{"op":"remove","path":"/b"},{"op":"remove","path":"/toString"}]`, ""}, // the first one fails
		{`{"a":1}`, `[{"op":"add","path":"/b","value":1},{"op":"remove","path":"/toString"}]`, inheritedName},
		{`{"toString":1}`, `[{"op":"remove","path":"/toString"}]`, ""},
		{`{}`, `[{"op":"add","path":"/toString","value":1}]`, ""},
		{`{}`, `[{"op":"copy","from":"/valueOf","path":"/a"}]`, inheritedName},
		{`{"l":[1,2]}`, `[{"op":"add","path":"/l/2","value":1},{"op":"add","path":"/l/-","value":1}]`, ""},
		{`{"l":[1,2]}`, `[{"op":"add","path":"/l/9","value":1}]`, ""},
		{`{"l":[1,2]}`, `[{"op":"copy","from":"/l/0","path":"/l/9"}]`, oddIndex},
		{`{"l":[1,2]}`, `[{"op":"move","from":"/l/0","path":"/l/2"}]`, oddIndex}, // one is left
		{`{"l":[1,2]}`, `[{"op":"move","from":"/l/0","path":"/l/1"}]`, ""},
		{`{"l":[1,2]}`, `[{"op":"add","path":"/l/01","value":1}]`, oddIndex},
		{`{"l":[1,2]}`, `[{"op":"copy","from":"/l/length","path":"/n"}]`, inheritedName},
		{`{"l":[1,2]}`, `[{"op":"add","path":"/l/x","value":1}]`, ""},
		{`{"valueOf":{"a":1}}`, `[{"op":"move","from":"/valueOf","path":"/valueOf/b"}]`, inheritedName},
		{`{"l":[[1],5]}`, `[{"op":"move","from":"/l/0","path":"/l/0/0"}]`, shiftedAway},
		{`{"l":[{},[5]]}`, `[{"op":"move","from":"/l/0","path":"/l/0/y"}]`, shiftedAway},
		{`{"l":[{},{}]}`, `[{"op":"move","from":"/l/0","path":"/l/0/y"}]`, ""},
		{`0`, `[{"op":"add","path":"/a","value":1}]`, scalarDocument},
		{`0`, `[{"op":"replace","path":"","value":1}]`, ""},
		{`null`, `[{"op":"add","path":"/a","value":1}]`, ""},
		{`{}`, `[{"op":"move","from":"","path":"/a"}]`, rootIntoItself},
		{`{}`, `[{"op":"copy","from":"","path":"/a"}]`, ""},
		{`{}`, `[{"op":"copy","from":"/a","path":""}]`, nothingToRoot},
		{`{"a":1e400}`, `[{"op":"test","path":"/a","value":null}]`, infinite},
	} {
		e, err := agui.Decode([]byte(`{"type":"STATE_DELTA","delta":` + c.patch + `}`))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonvalue.Parse([]byte(c.doc), 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := quirkOf(doc, e.Patch); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.patch, c.doc, got, c.want)
		}
	}
}
