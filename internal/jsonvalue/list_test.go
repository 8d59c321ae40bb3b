package jsonvalue

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/internal/cputime"
)

// measure counts what every value keeps a count of: its length as JSON text, and
// how deep it is nested, of which it knows at least as much.
func measure(v Value) (size, levels int) {
	switch v.kind {
	case List:
		size = 2
		for _, item := range v.Items() {
			s, l := measure(item)
			size, levels = size+s+1, max(levels, l)
		}
	case Object:
		size = 2
		for name, item := range v.Members() {
			s, l := measure(item)
			size, levels = size+s+len(name)+4, max(levels, l)
		}
	default:
		return v.size(), 0
	}
	levels++
	if known := int(v.node.levels); known < levels || levels != v.levels() {
		panic(fmt.Sprintf("nested %d deep, known are %d, counted %d", levels, known, v.levels()))
	}
	return size, levels
}

func numbers(from, n int) []Value {
	out := make([]Value, n)
	for i := range out {
		out[i] = NewInt(int64(from + i))
	}
	return out
}

// A long list does what a slice would do, whatever a patch does to it; a patch
// that fails leaves it as it was, and so do patches the snapshots taken before.
func TestLongListAgainstSlice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		model := numbers(0, rapid.SampledFrom([]int{3, maxFlat, maxFlat + 1, 2*maxFlat + 7}).Draw(rt, "length"))
		for i := range model {
			if i%1000 == 0 {
				model[i] = NewList(model[i])
			}
		}
		d := NewDocument(NewObject(Member{"a", NewList(model...)}))
		next := len(model)
		type kept struct {
			v     Value
			model []Value
		}
		var snapshots []kept
		for range rapid.IntRange(1, 3).Draw(rt, "patches") {
			if rapid.Bool().Draw(rt, "snapshot") {
				snapshots = append(snapshots, kept{d.Snapshot().Get("a"), slices.Clone(model)})
			}
			before := slices.Clone(model)
			var patch []Op
			for range rapid.IntRange(1, 4).Draw(rt, "runs") {
				// Runs of operations at one place, or chunks would never fill or empty.
				at := rapid.IntRange(0, len(model)).Draw(rt, "at")
				times := rapid.SampledFrom([]int{1, 2, 700, 2500}).Draw(rt, "times")
				kind := rapid.SampledFrom([]string{"add", "remove", "replace", "inside", "copy", "append"}).Draw(rt, "kind")
				if kind == "replace" || kind == "inside" {
					times = min(times, 3)
				}
				if kind == "copy" {
					// The list has two places for a moment: neither may be changed in place.
					patch = append(patch, Op{Kind: Copy, From: "/a", Path: "/b"})
					if rapid.Bool().Draw(rt, "change the copy") && len(model) > 0 {
						patch = append(patch, Op{Kind: Remove, Path: "/b/0"})
					}
					continue
				}
				for range times {
					v := NewInt(int64(next))
					i := min(at, len(model)-1)
					switch {
					case kind == "add":
						next++
						patch = append(patch, Op{Kind: Add, Path: "/a/" + strconv.Itoa(at), Value: v})
						model = slices.Insert(model, at, v)
					case kind == "append":
						next++
						patch = append(patch, Op{Kind: Add, Path: "/a/-", Value: v})
						model = append(model, v)
					case i < 0:
					case kind == "remove":
						patch = append(patch, Op{Kind: Remove, Path: "/a/" + strconv.Itoa(i)})
						model = slices.Delete(model, i, i+1)
						at = min(at, len(model))
					case kind == "replace":
						patch = append(patch, Op{Kind: Replace, Path: "/a/" + strconv.Itoa(i), Value: v})
						model[i] = v
					case model[i].kind == List:
						patch = append(patch, Op{Kind: Add, Path: "/a/" + strconv.Itoa(i) + "/-", Value: v})
						model[i] = NewList(append(slices.Collect(elementsOf(model[i])), v)...)
					}
				}
			}
			fails := rapid.Bool().Draw(rt, "fails")
			if fails {
				patch = append(patch, Op{Kind: Remove, Path: "/nothing"})
				model = before
			}
			if err := d.Patch(patch, PatchLimits{Ops: math.MaxInt}); (err != nil) != fails {
				rt.Fatalf("the patch: %v", err)
			}
			same(rt, d.root.Get("a"), model)
			if size, _ := measure(d.root); size != d.Size() {
				rt.Fatalf("size %d, counted %d", d.Size(), size)
			}
		}
		for _, s := range snapshots {
			same(rt, s.v, s.model)
		}
	})
}

func elementsOf(v Value) func(func(Value) bool) {
	return func(yield func(Value) bool) {
		for _, item := range v.Items() {
			if !yield(item) {
				return
			}
		}
	}
}

// same fails unless a list has just these elements, by whatever way one looks.
func same(rt *rapid.T, v Value, want []Value) {
	flat := Value{kind: List, node: newList(want)}
	if v.Len() != len(want) || !Equal(v, flat) || !Equal(flat, v) {
		rt.Fatalf("%d elements, want %d, or others", v.Len(), len(want))
	}
	if v.String() != flat.String() || string(v.AppendCanonical(nil)) != v.String() || !Equal(v.Detach(), flat) {
		rt.Fatal("the elements are the same, the text is not")
	}
	for i := 0; i < len(want); i += 1 + len(want)/7 {
		if !Equal(v.At(i), want[i]) || !Equal(v.Resolve("/"+strconv.Itoa(i)), want[i]) {
			rt.Fatalf("element %d is %v, want %v", i, v.At(i), want[i])
		}
	}
	if v.Resolve("/" + strconv.Itoa(len(want))).Present() {
		rt.Fatal("there is one more behind the last")
	}
}

// No operation costs what the document holds. Were the list moved, or the value
// measured, as a whole each time, the large one would take a hundred times as
// long as the small one.
func TestPatchOfLongListCostsItsPath(t *testing.T) {
	many := func(n int, op func(i int) Op) (out []Op) {
		for i := range n {
			out = append(out, op(i))
		}
		return out
	}
	const times = 1000
	for name, patch := range map[string][]Op{
		"insert in front": many(times, func(int) Op { return Op{Kind: Add, Path: "/a/0", Value: NewNull()} }),
		"remove in front": many(times, func(int) Op { return Op{Kind: Remove, Path: "/a/0"} }),
		"replace":         many(times, func(i int) Op { return Op{Kind: Replace, Path: "/a/" + strconv.Itoa(i), Value: NewNull()} }),
		"move the list": many(times, func(i int) Op {
			return Op{Kind: Move, From: [...]string{"/a", "/b"}[i%2], Path: [...]string{"/b", "/a"}[i%2]}
		}),
		"failing": append(many(times, func(i int) Op { return Op{Kind: Add, Path: "/a/1", Value: NewNull()} }),
			Op{Kind: Remove, Path: "/a"}, Op{Kind: Remove, Path: "/nothing"}),
		"copy that is too large": {{Kind: Copy, From: "/a", Path: "/b"}},
	} {
		cost := func(n int) time.Duration {
			d := NewDocument(NewObject(Member{"a", NewList(numbers(0, n)...)}))
			// The first change copies the list, and cuts it into chunks.
			if err := d.Patch([]Op{{Kind: Add, Path: "/a/1", Value: NewNull()}}, PatchLimits{}); err != nil {
				t.Fatal(err)
			}
			return cputime.Of(func() {
				for range 1 + times/len(patch) {
					_ = d.Patch(patch, PatchLimits{Copied: 10_000})
				}
			})
		}
		// A machine with other things to do is slower now and then, never faster.
		small, large := cost(maxFlat), cost(100*maxFlat)
		for range 9 {
			if large <= 12*small+10*time.Millisecond {
				break
			}
			small, large = min(small, cost(maxFlat)), min(large, cost(100*maxFlat))
		}
		if large > 12*small+10*time.Millisecond {
			t.Errorf("%s: %v in a short list, %v in one a hundred times as long", name, small, large)
		}
	}
}
