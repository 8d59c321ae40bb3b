package fold

// callList is the calls of a message, in order.
type callList struct {
	first, last *call
	count       int
	open        int // so many of them are open
	// over are those that are not, and some that were not or that have gone; nil
	// before the first snapshot. One that the snapshot does not carry is taken
	// away with the next one of its message (R9 c), however many are open.
	over []*call
}

// push makes c the last call of m.
func (m *message) push(c *call) {
	l := &m.calls
	if c.prev = l.last; c.prev != nil {
		c.prev.next, c.position = c, c.prev.position+1
	} else {
		l.first, c.position = c, 0
	}
	l.last = c
	m.owns(c)
}

// pushFront makes c the first call of m.
func (m *message) pushFront(c *call) {
	l := &m.calls
	if c.next = l.first; c.next != nil {
		c.next.prev, c.position = c, c.next.position-1
	} else {
		l.last, c.position = c, 0
	}
	l.first = c
	m.owns(c)
}

func (m *message) owns(c *call) {
	c.owner = m
	m.calls.count++
	switch {
	case c.isOpen():
		m.calls.open++
	case m.spot != nil:
		m.calls.ended(c)
	}
}

// drop takes c away from m, which has it no longer.
func (m *message) drop(c *call) {
	l := &m.calls
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.last = c.prev
	}
	c.prev, c.next, c.owner, c.over = nil, nil, nil, false
	l.count--
	if c.isOpen() {
		l.open--
	}
}

// ended takes note of a call that is not open.
func (l *callList) ended(c *call) {
	if !c.over && !c.isOpen() {
		c.over = true
		l.over = append(l.over, c)
	}
}

func (c *call) isOpen() bool { return c.open != nil && !c.paused }

// set opens or closes a call.
func (c *call) set(by *run, paused bool) {
	was := c.isOpen()
	c.open, c.paused = by, paused
	m := c.owner
	switch now := c.isOpen(); {
	case m == nil || was == now:
	case now:
		m.calls.open++
	default:
		m.calls.open--
		if m.spot != nil {
			m.calls.ended(c)
			m.closed()
		}
	}
}
