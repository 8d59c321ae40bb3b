package fold

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The index of places against maps: each identity has one place for ever, ids in
// views are unique, and an id that is a string and one that is none find the same.
func TestPlacesAgainstMaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		t := newPlaces(rapid.IntRange(0, 100).Draw(rt, "room"))
		known := make(map[identity]string)
		taken := make(map[string]bool)
		ids := make([]string, rapid.IntRange(1, 200).Draw(rt, "ids"))
		for i := range ids {
			ids[i] = fmt.Sprintf("m%d", i)
			if i%7 == 0 {
				ids[i] = fmt.Sprintf("m%d~%s", i/2, kind(i)%kinds)
			}
		}
		for range rapid.IntRange(0, 400).Draw(rt, "steps") {
			key := identity{kind(rapid.IntRange(0, int(kinds)-1).Draw(rt, "kind")), rapid.SampledFrom(ids).Draw(rt, "id")}
			want, is := known[key]
			for _, p := range []*place{t.find(key.kind, key.id), t.findBytes(t.likely([]byte(key.id)), key.kind, []byte(key.id))} {
				if (p != nil) != is || p != nil && (p.id != want || p.kind != key.kind) {
					rt.Fatalf("%v has %+v, want %q", key, p, want)
				}
			}
			if t.taken(key.id) != taken[key.id] {
				rt.Fatalf("%q is taken: %v", key.id, t.taken(key.id))
			}
			p := t.of(key.kind, key.id)
			if !is {
				if want = key.id; taken[want] {
					want += "~" + key.kind.String()
				}
				for taken[want] {
					want += "~" + key.kind.String()
				}
				known[key], known[identity{key.kind, want}], taken[want] = want, want, true
			}
			if p.id != want || p.kind != key.kind {
				rt.Fatalf("%v got %+v, want %q", key, p, want)
			}
		}
		var listed []string
		for p := range t.all {
			listed = append(listed, p.id)
		}
		if slices.Sort(listed); !slices.Equal(listed, slices.Sorted(maps.Keys(taken))) {
			rt.Fatalf("listed are %q, want %q", listed, slices.Sorted(maps.Keys(taken)))
		}
	})
}
