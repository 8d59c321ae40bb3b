package fold

import (
	"container/heap"
	"strconv"
	"strings"
)

// numbers are the n of id~n for one id, so that the first that is free need not
// be looked for among all.
type numbers struct {
	next  int   // all below are taken, from 2, but for
	freed []int // the lowest first, as a heap; some may be taken again
}

// free gives the first that is not taken.
func (n *numbers) free(taken func(int) bool) int {
	for len(n.freed) > 0 {
		if first := n.freed[0]; !taken(first) {
			return first
		}
		heap.Pop(n)
	}
	for taken(n.next) {
		n.next++
	}
	return n.next
}

// release takes note that no message of the kind is named so any more.
func (t *transcript) release(k kind, id string) {
	at := strings.LastIndexByte(id, '~')
	if at < 0 {
		return
	}
	known := t.numbers[identity{k, id[:at]}]
	if known == nil {
		return
	}
	n, err := strconv.Atoi(id[at+1:])
	if err == nil && n >= 2 && n < known.next && strconv.Itoa(n) == id[at+1:] {
		heap.Push(known, n)
	}
}

func (n *numbers) Len() int           { return len(n.freed) }
func (n *numbers) Less(i, j int) bool { return n.freed[i] < n.freed[j] }
func (n *numbers) Swap(i, j int)      { n.freed[i], n.freed[j] = n.freed[j], n.freed[i] }
func (n *numbers) Push(x any)         { n.freed = append(n.freed, x.(int)) }
func (n *numbers) Pop() any {
	last := len(n.freed) - 1
	x := n.freed[last]
	n.freed = n.freed[:last]
	return x
}
