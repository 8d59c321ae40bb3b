package fold

import (
	"hash/maphash"
	"strings"
)

// place is what an identity means (R7).
type place struct {
	kind    kind
	id      string   // in views
	named   string   // by events; they may use id as well
	message *message // of the list; nil: it has none with that id
	saved   savedPlace
}

func (p *place) is(k kind, id string) bool { return p.kind == k && (p.id == id || p.named == id) }

// places are what identities have got. They are for ever, whatever becomes of
// the messages.
//
// It is a hash table with linear probing, and not a map, so that a piece of text
// for one of very many messages has to wait for the memory of no more than one
// slot and one place, and so that this can be done for many pieces at once.
type places struct {
	seed  maphash.Seed
	slots []placeSlot // a power of two of them
	used  int         // at most three quarters

	// round counts the calls of [Fold.Changes], 1 more than there were; 0: nobody
	// asks. made are the places that have come since the last one, and those whose
	// messages have gone.
	round int
	made  []*place
}

type placeSlot struct {
	hash  uint64 // of an id
	place *place // nil: free
}

// newPlaces makes room for n.
func newPlaces(n int) places {
	size := 16
	for size*3/4 < n {
		size *= 2
	}
	return places{seed: maphash.MakeSeed(), slots: make([]placeSlot, size)}
}

// hash is where the search for an id begins.
func (t *places) hash(id string) uint64 { return maphash.String(t.seed, id) }

// find gives the place of an identity, nil if it has none.
func (t *places) find(k kind, id string) *place {
	h, mask := t.hash(id), uint64(len(t.slots)-1)
	for i := h & mask; t.slots[i].place != nil; i = (i + 1) & mask {
		if s := &t.slots[i]; s.hash == h && s.place.is(k, id) {
			return s.place
		}
	}
	return nil
}

// findBytes is find for an id that is not a string yet. likely is what [places.likely]
// has given for it.
func (t *places) findBytes(likely *place, k kind, id []byte) *place {
	switch {
	case likely == nil:
		return nil // its slot is free
	case likely.kind == k && (likely.id == string(id) || likely.named == string(id)):
		return likely
	}
	return t.find(k, string(id))
}

// touch reads what findBytes will compare, so that it is at hand. What it
// returns means nothing.
func (p *place) touch() byte {
	if p == nil || p.id == "" {
		return 0
	}
	return p.id[0]
}

// likely gives the place that is most likely that of an id, without having looked
// at it; nil if there is none for certain.
func (t *places) likely(id []byte) *place {
	h, mask := maphash.Bytes(t.seed, id), uint64(len(t.slots)-1)
	i := h & mask
	for t.slots[i].place != nil && t.slots[i].hash != h {
		i = (i + 1) & mask
	}
	return t.slots[i].place
}

// taken reports whether a place of any kind has this id in views.
func (t *places) taken(id string) bool {
	h, mask := t.hash(id), uint64(len(t.slots)-1)
	for i := h & mask; t.slots[i].place != nil; i = (i + 1) & mask {
		if s := &t.slots[i]; s.hash == h && s.place.id == id {
			return true
		}
	}
	return false
}

// of gives the place of an identity, a new one if it has none (R7).
func (t *places) of(k kind, id string) *place {
	if p := t.find(k, id); p != nil {
		return p
	}
	id = strings.Clone(id)
	p := &place{kind: k, id: id, named: id}
	for t.taken(p.id) {
		p.id += "~" + k.String()
	}
	t.add(id, p)
	if p.id != id {
		t.add(p.id, p)
	}
	t.rename(p)
	return p
}

// rename takes note of a place that may have to be named in a list of its own
// from now on.
func (t *places) rename(p *place) {
	if t.round > 0 && !p.saved.named {
		t.made = append(t.made, p)
	}
}

// add makes p known by one of its ids.
func (t *places) add(id string, p *place) {
	if t.used++; t.used > len(t.slots)*3/4 {
		t.grow()
	}
	t.put(placeSlot{t.hash(id), p})
}

func (t *places) put(s placeSlot) {
	mask := uint64(len(t.slots) - 1)
	i := s.hash & mask
	for t.slots[i].place != nil {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

func (t *places) grow() {
	old := t.slots
	t.slots = make([]placeSlot, 2*len(old))
	for _, s := range old {
		if s.place != nil {
			t.put(s)
		}
	}
}

// all yields every place once.
func (t *places) all(yield func(*place) bool) {
	for _, s := range t.slots {
		// One with two ids is in two slots.
		if p := s.place; p != nil && s.hash == t.hash(p.id) && !yield(p) {
			return
		}
	}
}
