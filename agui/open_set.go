package agui

// openSet is what is open of one kind, in the order in which it was opened. All
// it does costs the same however much is open.
type openSet[K comparable] struct {
	at    map[K]uint64 // the number of its opening
	order []opening[K] // openings by number, some of what has ended among them
	last  uint64
}

type opening[K comparable] struct {
	key    K
	number uint64
}

func (s *openSet[K]) has(k K) bool {
	_, open := s.at[k]
	return open
}

func (s *openSet[K]) len() int { return len(s.at) }

// add opens k, which is not open.
func (s *openSet[K]) add(k K) {
	if s.at == nil {
		s.at = make(map[K]uint64)
	}
	if len(s.order) >= 16 && len(s.order) > 2*len(s.at) {
		s.order = s.list(s.order[:0])
	}
	s.last++
	s.at[k] = s.last
	s.order = append(s.order, opening[K]{k, s.last})
}

func (s *openSet[K]) remove(k K) { delete(s.at, k) }

// list appends the openings of what is open.
func (s *openSet[K]) list(dst []opening[K]) []opening[K] {
	for _, o := range s.order {
		if s.at[o.key] == o.number {
			dst = append(dst, o)
		}
	}
	return dst
}

// first is what has been open for longest. Something must be open.
func (s *openSet[K]) first() K {
	for s.at[s.order[0].key] != s.order[0].number {
		s.order = s.order[1:]
	}
	return s.order[0].key
}

// keys lists what is open.
func (s *openSet[K]) keys() []K {
	out := make([]K, 0, len(s.at))
	for _, o := range s.list(nil) {
		out = append(out, o.key)
	}
	return out
}

// openSetOf is what keys lists.
func openSetOf[K comparable](keys []K) openSet[K] {
	var s openSet[K]
	for _, k := range keys {
		if !s.has(k) {
			s.add(k)
		}
	}
	return s
}
