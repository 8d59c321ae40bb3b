package jsonvalue

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
)

// Diff is a patch that makes b of a: members and elements that are the same stay
// as they are. Numbers are the same if their text is, and the order of members is
// no difference; so what a becomes is b but for that order. Both must be present.
func Diff(a, b Value) []Op {
	d := differ{seed: maphash.MakeSeed()}
	d.value(nil, a, b)
	return d.ops
}

type differ struct {
	seed maphash.Seed
	ops  []Op
}

func (d *differ) add(kind OpKind, path []string, v Value) {
	d.ops = append(d.ops, Op{Kind: kind, Path: JoinPointer(path...), Value: v})
}

func (d *differ) value(path []string, a, b Value) {
	switch {
	case a.kind == Object && b.kind == Object:
		d.object(path, a, b)
	case a.kind == List && b.kind == List:
		d.list(path, a, b)
	case !exact(a, b):
		d.add(Replace, path, b)
	}
}

func (d *differ) object(path []string, a, b Value) {
	for name := range a.Members() {
		if !b.Get(name).Present() {
			d.add(Remove, append(path, name), Value{})
		}
	}
	for name, now := range b.Members() {
		if before := a.Get(name); before.Present() {
			d.value(append(path, name), before, now)
		} else {
			d.add(Add, append(path, name), now)
		}
	}
}

func (d *differ) list(path []string, a, b Value) {
	from, to := itemsOf(a), itemsOf(b)
	start := 0
	for len(from) > 0 && len(to) > 0 && exact(from[0], to[0]) {
		from, to, start = from[1:], to[1:], start+1
	}
	for len(from) > 0 && len(to) > 0 && exact(from[len(from)-1], to[len(to)-1]) {
		from, to = from[:len(from)-1], to[:len(to)-1]
	}
	// Between elements that stay, the n-th old one becomes the n-th new one;
	// then the rest goes or comes.
	i, j, at := 0, 0, start
	for _, keep := range append(d.common(from, to), [2]int{len(from), len(to)}) {
		for i < keep[0] && j < keep[1] {
			d.value(append(path, strconv.Itoa(at)), from[i], to[j])
			i, j, at = i+1, j+1, at+1
		}
		for ; i < keep[0]; i++ {
			d.add(Remove, append(path, strconv.Itoa(at)), Value{})
		}
		for ; j < keep[1]; j, at = j+1, at+1 {
			d.add(Add, append(path, strconv.Itoa(at)), to[j])
		}
		i, j, at = i+1, j+1, at+1 // the one that stays
	}
}

// maxCells bounds the table of common: longer lists, where both differ in the
// middle, are compared place by place.
const maxCells = 1 << 22

// common is the longest list of elements that both have in this order, as pairs
// of indexes.
func (d *differ) common(a, b []Value) [][2]int {
	if len(a) == 0 || len(b) == 0 || len(a) == 1 && len(b) == 1 || len(a) > maxCells/len(b) {
		return nil
	}
	ha, hb := d.hashes(a), d.hashes(b)
	width := len(b) + 1
	longest := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if ha[i] == hb[j] && exact(a[i], b[j]) {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
			} else {
				longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
			}
		}
	}
	var out [][2]int
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case ha[i] == hb[j] && exact(a[i], b[j]):
			out = append(out, [2]int{i, j})
			i, j = i+1, j+1
		case longest[(i+1)*width+j] >= longest[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return out
}

func (d *differ) hashes(list []Value) []uint64 {
	out := make([]uint64, len(list))
	for i, v := range list {
		out[i] = maphash.String(d.seed, sortedText(v))
	}
	return out
}

func itemsOf(v Value) []Value {
	out := make([]Value, 0, v.Len())
	for _, item := range v.Items() {
		out = append(out, item)
	}
	return out
}

// sortedText is the same for values that are the same.
func sortedText(v Value) string {
	if v.kind != Object && v.kind != List {
		return v.String()
	}
	var parts []string
	for _, item := range v.Items() {
		parts = append(parts, sortedText(item))
	}
	for name, member := range v.Members() {
		parts = append(parts, string(AppendString(nil, name))+":"+sortedText(member))
	}
	if v.kind == Object {
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// exact reports whether two values are one but for the order of members: unlike
// for Equal, 1 and 1.0 are not.
func exact(a, b Value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case Object:
		if a.Len() != b.Len() {
			return false
		}
		for name, member := range a.Members() {
			if !exact(member, b.Get(name)) {
				return false
			}
		}
		return true
	case List:
		if a.Len() != b.Len() {
			return false
		}
		return slices.EqualFunc(itemsOf(a), itemsOf(b), exact)
	case Number:
		x, _ := a.Literal()
		y, _ := b.Literal()
		return x == y
	}
	return Equal(a, b)
}

// JoinPointer is the JSON Pointer of these tokens: what SplitPointer splits.
func JoinPointer(tokens ...string) string {
	var out strings.Builder
	for _, token := range tokens {
		out.WriteByte('/')
		out.WriteString(escapeToken.Replace(token))
	}
	return out.String()
}

var escapeToken = strings.NewReplacer("~", "~0", "/", "~1")

// JSON is the operation as a JSON value.
func (o Op) JSON() Value {
	members := []Member{{Name: "op", Value: NewString(string(o.Kind))}}
	if o.Kind == Move || o.Kind == Copy {
		members = append(members, Member{Name: "from", Value: NewString(o.From)})
	}
	members = append(members, Member{Name: "path", Value: NewString(o.Path)})
	if o.Value.Present() {
		members = append(members, Member{Name: "value", Value: o.Value})
	}
	return NewObject(members...)
}
