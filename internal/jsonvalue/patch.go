package jsonvalue

import (
	"errors"
	"fmt"
	"slices"
)

// OpKind is the "op" of a patch operation.
type OpKind string

// The operations of RFC 6902.
const (
	Add     OpKind = "add"
	Remove  OpKind = "remove"
	Replace OpKind = "replace"
	Move    OpKind = "move"
	Copy    OpKind = "copy"
	Test    OpKind = "test"
)

// Op is one operation of a patch.
type Op struct {
	Kind  OpKind
	Path  string
	From  string // move and copy
	Value Value  // add, replace and test; must be present there
}

// Why a patch fails. A [*PatchError] wraps one of them.
var (
	// ErrPointer: a path or from is no JSON Pointer.
	ErrPointer = errors.New("not a JSON Pointer")
	// ErrNoSuchPlace: what the operation needs is not in the document.
	ErrNoSuchPlace = errors.New("nothing is there")
	// ErrListIndex: a token that points into a list is no index of it.
	ErrListIndex = errors.New("not an index of the list")
	// ErrNotContainer: a pointer goes on below a value that has nothing inside.
	ErrNotContainer = errors.New("neither an object nor a list")
	// ErrTestFailed: a test found another value.
	ErrTestFailed = errors.New("the test failed")
	// ErrMoveIntoItself: a move of a value to a place inside it.
	ErrMoveIntoItself = errors.New("a value cannot be moved into itself")
	// ErrUnknownOp: an operation that RFC 6902 does not know.
	ErrUnknownOp = errors.New("unknown operation")
	// ErrNoValue: an operation without the value it needs.
	ErrNoValue = errors.New("the operation has no value")
	// ErrNotObject: the document would no longer be an object, and has to be.
	ErrNotObject = errors.New("the document must stay an object")
	// ErrPatchLimit: the patch goes over one of its [PatchLimits].
	ErrPatchLimit = errors.New("over a limit")
)

// PatchError says which operation of a patch failed and why.
type PatchError struct {
	Index int // of the operation, from 0
	Op    OpKind
	Err   error // one of the errors above
	What  string
}

func (e *PatchError) Error() string {
	if e.What != "" {
		return fmt.Sprintf("operation %d (%s): %v: %s", e.Index, e.Op, e.Err, e.What)
	}
	return fmt.Sprintf("operation %d (%s): %v", e.Index, e.Op, e.Err)
}

func (e *PatchError) Unwrap() error { return e.Err }

// PatchLimits bound what one patch may do. A field that is 0 means its default
// (fold-rules R25).
type PatchLimits struct {
	Ops     int // operations in a patch; default 10,000
	Copied  int // bytes copied by one patch; default 16 MiB
	Size    int // bytes of the document afterwards; default 64 MiB
	Nesting int // levels of the document; default 3,000

	// ObjectOnly wants the document to be an object afterwards.
	ObjectOnly bool
	// ShiftingMoves resolves the path of a move in what is left after the value
	// was taken away, as the official client does (SEMANTICS J-7), even where it
	// began as a path into the value itself. RFC 6902 forbids such a move.
	ShiftingMoves bool
}

// WithDefaults returns l with every 0 replaced by its default.
func (l PatchLimits) WithDefaults() PatchLimits {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&l.Ops, 10_000)
	set(&l.Copied, 16<<20)
	set(&l.Size, 64<<20)
	set(&l.Nesting, DefaultNesting)
	return l
}

// Patch applies the operations in order, each to what the one before left (RFC
// 6902). If one fails, the document is what it was, and the error is a
// [*PatchError]. Removing the whole document leaves null.
//
// An operation costs what lies on its path, and the size of the values it
// brings, takes away, tests or copies. Bytes are counted as [Document.Size]
// does; a value that a move puts deeper than it was counts as copied.
func (d *Document) Patch(ops []Op, limits PatchLimits) error {
	p := patcher{d: d, limits: limits.WithDefaults()}
	if len(ops) > p.limits.Ops {
		return &PatchError{
			Index: p.limits.Ops, Op: ops[p.limits.Ops].Kind, Err: ErrPatchLimit,
			What: fmt.Sprintf("%d operations, at most %d", len(ops), p.limits.Ops),
		}
	}
	for i, op := range ops {
		err := p.apply(op)
		if err == nil && d.Size() > p.limits.Size {
			err = p.over("the document would be larger than %d bytes", p.limits.Size)
		}
		if err == nil && i == len(ops)-1 && p.limits.ObjectOnly && d.root.kind != Object {
			err = ErrNotObject
		}
		if err != nil {
			p.rollBack()
			return &PatchError{Index: i, Op: op.Kind, Err: err, What: p.what}
		}
	}
	p.settle()
	return nil
}

type patcher struct {
	d       *Document
	limits  PatchLimits
	changes []change
	resized []resize
	spine   []*node // from the root to what parent has found
	copied  int
	what    string // details of a failure
}

func (p *patcher) over(format string, args ...any) error {
	p.what = fmt.Sprintf(format, args...)
	return ErrPatchLimit
}

func (p *patcher) apply(op Op) error {
	path, ok := SplitPointer(op.Path)
	if !ok {
		return ErrPointer
	}
	switch op.Kind {
	case Add, Replace, Test:
		if !op.Value.Present() {
			return ErrNoValue
		}
	case Move, Copy:
		from, ok := SplitPointer(op.From)
		if !ok {
			return ErrPointer
		}
		if op.Kind == Move {
			return p.move(from, path)
		}
		return p.copy(from, path)
	}
	switch op.Kind {
	case Add:
		if err := p.fits(op.Value, path); err != nil {
			return err
		}
		return p.add(path, op.Value)
	case Replace:
		if err := p.fits(op.Value, path); err != nil {
			return err
		}
		return p.replace(path, op.Value)
	case Remove:
		_, err := p.remove(path)
		return err
	case Test:
		v, err := p.find(path)
		if err != nil {
			return err
		}
		if !Equal(v, op.Value) {
			return ErrTestFailed
		}
		return nil
	}
	return ErrUnknownOp
}

// fits checks that the document may be as deep as v would make it at path. Only
// if it might be too deep is v looked through.
func (p *patcher) fits(v Value, path []string) error {
	if v.node == nil || len(path)+int(v.node.levels) <= p.limits.Nesting {
		return p.deep(len(path))
	}
	return p.deep(len(path) + v.levels())
}

func (p *patcher) deep(levels int) error {
	if levels > p.limits.Nesting {
		return p.over("the document would be nested deeper than %d levels", p.limits.Nesting)
	}
	return nil
}

func (p *patcher) charge(size int) error {
	if p.copied += size; p.copied > p.limits.Copied {
		return p.over("more than %d bytes copied", p.limits.Copied)
	}
	return nil
}

// find returns what is at path.
func (p *patcher) find(path []string) (Value, error) {
	v := p.d.root
	if !v.Present() {
		return v, ErrNoSuchPlace
	}
	for _, token := range path {
		next := v.step(token)
		if !next.Present() {
			return next, missing(v, token)
		}
		v = next
	}
	return v, nil
}

// missing says why there is nothing at token of v.
func missing(v Value, token string) error {
	switch v.kind {
	case Object:
		return ErrNoSuchPlace
	case List:
		if _, ok := listIndex(token); ok {
			return ErrNoSuchPlace
		}
		return ErrListIndex
	}
	return ErrNotContainer
}

// parent returns the list or object that holds the last token of path, ready to
// be changed.
func (p *patcher) parent(path []string) (n *node, kind Kind, err error) {
	if !p.d.root.Present() {
		return nil, Absent, ErrNoSuchPlace
	}
	if k := p.d.root.kind; k != Object && k != List {
		return nil, k, ErrNotContainer
	}
	n = p.own(p.d.root, nil, 0)
	kind = p.d.root.kind
	p.spine = append(p.spine[:0], n)
	for _, token := range path[:len(path)-1] {
		here := Value{kind: kind, node: n}
		slot := here.slotOf(token)
		if slot < 0 {
			return nil, kind, missing(here, token)
		}
		inside := n.at(slot)
		if inside.kind != Object && inside.kind != List {
			return nil, inside.kind, ErrNotContainer
		}
		kind = inside.kind
		n = p.own(inside, n, slot)
		p.spine = append(p.spine, n)
	}
	return n, kind, nil
}

// slotOf returns where the value at token stands in a list or object, -1 if
// there is none.
func (v Value) slotOf(token string) int {
	if v.kind == Object {
		return v.node.slot(token)
	}
	if i, ok := listIndex(token); ok && v.node.has(i) {
		return i
	}
	return -1
}

// own makes the container v, item slot of in, ready to be changed; the root if
// in is nil.
func (p *patcher) own(v Value, in *node, slot int) *node {
	before := v
	if n := p.d.own(&v); n == before.node {
		return n
	}
	// The copy has to go with the changes made to it: those made to the
	// original, earlier in this patch, are undone there.
	p.changes = append(p.changes, change{kind: itemSet, in: in, slot: slot, old: before})
	if in == nil {
		p.d.root = v
	} else {
		in.setAt(slot, v)
	}
	return v.node
}

// grew takes note of what a change has added to the sizes, and may have added
// to the depth, of the container that parent has found and all around it.
func (p *patcher) grew(size int, v Value) {
	var levels int32
	if v.node != nil {
		levels = v.node.levels
	}
	for _, n := range slices.Backward(p.spine) {
		levels++
		n.levels = max(n.levels, levels)
		n.size += size
		if size != 0 {
			p.resized = append(p.resized, resize{n, size})
		}
	}
}

func (p *patcher) add(path []string, v Value) error {
	if len(path) == 0 {
		p.setRoot(v)
		return nil
	}
	n, kind, err := p.parent(path)
	if err != nil {
		return err
	}
	last := path[len(path)-1]
	if kind == Object {
		if slot := n.slot(last); slot >= 0 {
			p.set(n, slot, v)
			return nil
		}
		n.push(last, v)
		p.changes = append(p.changes, change{kind: memberAdded, in: n})
		p.grew(v.size()+nameSize(last), v)
		return nil
	}
	i, ok := 0, true
	if last == "-" {
		i = n.count()
	} else if i, ok = listIndex(last); !ok {
		return ErrListIndex
	}
	if i > 0 && !n.has(i-1) {
		return ErrNoSuchPlace
	}
	n.insert(i, v)
	p.changes = append(p.changes, change{kind: itemInserted, in: n, slot: i})
	p.grew(v.size()+itemSize, v)
	return nil
}

func (p *patcher) replace(path []string, v Value) error {
	if len(path) == 0 {
		if !p.d.root.Present() {
			return ErrNoSuchPlace
		}
		p.setRoot(v)
		return nil
	}
	n, slot, err := p.target(path)
	if err != nil {
		return err
	}
	p.set(n, slot, v)
	return nil
}

// target returns where the existing value at path stands, ready to be changed.
func (p *patcher) target(path []string) (*node, int, error) {
	n, kind, err := p.parent(path)
	if err != nil {
		return nil, 0, err
	}
	here := Value{kind: kind, node: n}
	last := path[len(path)-1]
	slot := here.slotOf(last)
	if slot < 0 {
		return nil, 0, missing(here, last)
	}
	return n, slot, nil
}

// remove takes out what is at path and returns it.
func (p *patcher) remove(path []string) (Value, error) {
	if len(path) == 0 {
		old := p.d.root
		if !old.Present() {
			return old, ErrNoSuchPlace
		}
		p.setRoot(NewNull())
		return old, nil
	}
	n, slot, err := p.target(path)
	if err != nil {
		return Value{}, err
	}
	old := n.at(slot)
	if n.keys != nil {
		name := n.keys[slot]
		n.drop(slot)
		p.changes = append(p.changes, change{kind: memberRemoved, in: n, slot: slot, old: old})
		p.grew(-old.size()-nameSize(name), Value{})
		return old, nil
	}
	n.cut(slot)
	p.changes = append(p.changes, change{kind: itemRemoved, in: n, slot: slot, old: old})
	p.grew(-old.size()-itemSize, Value{})
	return old, nil
}

func (p *patcher) move(from, path []string) error {
	v, err := p.find(from)
	if err != nil {
		return err
	}
	if len(from) <= len(path) && equalTokens(from, path[:len(from)]) {
		if len(from) == len(path) {
			return nil
		}
		if len(from) == 0 || !p.limits.ShiftingMoves {
			return ErrMoveIntoItself
		}
	}
	if len(path) > len(from) {
		// First the charge: to see how deep it is may cost as much as copying it.
		if err := p.charge(v.size()); err != nil {
			return err
		}
		if err := p.fits(v, path); err != nil {
			return err
		}
	}
	if v, err = p.remove(from); err != nil {
		return err
	}
	return p.add(path, v)
}

func equalTokens(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (p *patcher) copy(from, path []string) error {
	v, err := p.find(from)
	if err != nil {
		return err
	}
	if err := p.charge(v.size()); err != nil {
		return err
	}
	if err := p.fits(v, path); err != nil {
		return err
	}
	// Two places share the value from now on: neither may change it in place.
	v.disown(p.d.owner)
	return p.add(path, v)
}

// disown takes v away from the document that may change it. Whoever wants to
// change what is inside has to copy v first, and that is disowned then.
func (v Value) disown(o *owner) {
	if v.node != nil && o != nil && v.node.owner == o {
		v.node.owner = nil
	}
}

func (p *patcher) setRoot(v Value) {
	p.changes = append(p.changes, change{kind: itemSet, old: p.d.root})
	p.d.root = v
}

func (p *patcher) set(n *node, slot int, v Value) {
	old := n.at(slot)
	p.changes = append(p.changes, change{kind: itemSet, in: n, slot: slot, old: old})
	n.setAt(slot, v)
	p.grew(v.size()-old.size(), v)
}
