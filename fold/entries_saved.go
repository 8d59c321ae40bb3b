package fold

import (
	"hash/maphash"
	"slices"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// saved is what a fold remembers of the last [Fold.Changes], to find what has
// changed without looking at the rest: how long the lists were, which entries
// were not final, and what has happened to the state since.
type saved struct {
	shape int // the transcript's
	count [Lists]int

	// Those without an end: no others can change.
	runs, steps, subagents []int

	state savedState
}

// savedPlace is what is remembered of the message of a place.
type savedPlace struct {
	index int    // in the list then
	size  int    // of the entry; 0: it had none yet
	sum   uint64 // of the entry, by the seed of the places
	lost  int    // if it had none then: after which round it went
	named bool   // it is an entry of ListNames
}

// lose takes note that a place has no message any more.
func (t *places) lose(p *place) {
	if t.round > 0 && p.saved.lost == 0 {
		p.saved.lost = t.round
	}
	t.rename(p)
}

// told reports whether the last Changes, that of the round before this, told of a
// message of the place.
func (t *places) told(p *place) bool {
	return p.saved.size > 0 && (p.saved.lost == 0 || p.saved.lost == t.round-1)
}

// savedState is what the entries of the state are.
type savedState struct {
	whole   bool // it must be written as a whole
	size    int  // of the last whole one, and its sum
	sum     uint64
	patched int      // bytes of the patches behind it
	patches [][]byte // that are not written yet
}

// stateSet takes note that the state is another one.
func (s *saved) stateSet() {
	if s != nil {
		s.state.whole, s.state.patches = true, nil
	}
}

// statePatched takes note of a patch that has been applied. The state is written
// anew when its patches would be longer than it is.
func (s *saved) statePatched(ops []agui.Op) {
	if s == nil || s.state.whole {
		return
	}
	patch := appendPatch(nil, ops)
	if s.state.patched += len(patch); s.count[ListState] == 0 || s.state.patched > s.state.size {
		s.stateSet()
		return
	}
	s.state.patches = append(s.state.patches, patch)
}

// appendPatch appends a patch as JSON.
func appendPatch(dst []byte, ops []agui.Op) []byte {
	list := make([]agui.Value, len(ops))
	for i := range ops {
		op := &ops[i]
		members := []jsonvalue.Member{
			{Name: "op", Value: jsonvalue.NewString(string(op.Kind))},
			{Name: "path", Value: jsonvalue.NewString(op.Path)},
		}
		if op.Kind == jsonvalue.Move || op.Kind == jsonvalue.Copy {
			members = append(members, jsonvalue.Member{Name: "from", Value: jsonvalue.NewString(op.From)})
		}
		if op.Value.Present() {
			members = append(members, jsonvalue.Member{Name: "value", Value: op.Value})
		}
		list[i] = jsonvalue.NewObject(members...)
	}
	return jsonvalue.NewList(list...).AppendJSON(dst)
}

// sumOf is a number by which one entry is told from another.
func (t *places) sumOf(entry []byte) uint64 { return maphash.Bytes(t.seed, entry) }

// changed gives the segments of a list that had so many entries, of which some
// have changed, and now has more.
func changed(before int, at []int, now int, entry func(i int) []byte) []Segment {
	slices.Sort(at)
	var out segments
	next := 0
	for _, i := range slices.Compact(at) {
		out.keep(next, i)
		out.add(entry(i))
		next = i + 1
	}
	out.keep(next, before)
	for i := before; i < now; i++ {
		out.add(entry(i))
	}
	return out
}

// segments are those of a list, as it grows.
type segments []Segment

// keep adds the entries from from to to of the list as it was.
func (s *segments) keep(from, to int) {
	switch n := len(*s); {
	case from >= to:
	case n > 0 && (*s)[n-1].New == nil && (*s)[n-1].To == from:
		(*s)[n-1].To = to
	default:
		*s = append(*s, Segment{From: from, To: to})
	}
}

// add adds a new entry.
func (s *segments) add(entry []byte) {
	if n := len(*s); n > 0 && (*s)[n-1].New != nil {
		(*s)[n-1].New = append((*s)[n-1].New, entry)
		return
	}
	*s = append(*s, Segment{New: [][]byte{entry}})
}

// ended drops from a list of numbers those of what has ended, and gives them.
func ended(open *[]int, over func(i int) bool) (out []int) {
	*open = slices.DeleteFunc(*open, func(i int) bool {
		if over(i) {
			out = append(out, i)
			return true
		}
		return false
	})
	return out
}
