package agui

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// ErrMalformed says that an event of a known type is not shaped as AG-UI says
// (SEMANTICS E-4). What it wraps is always a [*MalformedError].
var ErrMalformed = errors.New("malformed AG-UI event")

// MalformedError says which field of an event is wrong, and how.
type MalformedError struct {
	Type   Type
	Field  string // JSON Pointer into the event
	Reason string // in words, without any of the event's content
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("%v: %s: %s %s", ErrMalformed, e.Type, e.Field, e.Reason)
}

// Is reports that every MalformedError is an [ErrMalformed].
func (e *MalformedError) Is(target error) bool { return target == ErrMalformed }

// Decoder turns bytes into events. The zero Decoder does what the official
// client does: it accepts 0.x (SEMANTICS section 4), removes what the protocol
// does not know and refuses what is malformed (section 5).
//
// A Decoder is not safe for concurrent use. What it has decoded stays as it is.
type Decoder struct {
	// Lenient keeps whatever can be kept of a malformed event: a malformed
	// element of a list costs the element, a malformed optional field the field,
	// and null in an optional field is absent (fold-rules R4, R10). Each is a
	// [Note]. RUN_STARTED and RUN_FINISHED without a threadId or a runId and
	// RUN_ERROR without a message are accepted.
	// Operations of a patch are taken as they are, for the patch to fail.
	Lenient bool
	// Nesting is how deep lists and objects may be nested; 0 means [MaxNesting].
	Nesting int

	texts   *strings.Builder // what the ids and texts of deltas are pieces of
	scratch []byte
}

// Decode reads one event as the zero [Decoder] does.
func Decode(raw []byte) (*Event, error) {
	e := new(Event)
	if err := new(Decoder).Decode(raw, e); err != nil {
		return nil, err
	}
	return e, nil
}

// Decode reads one event into e. An event of unknown type is no error: e has
// its type, a [NoteEventDropped] and nothing else.
//
// Bytes that are no event give an [*InvalidEventError]; an event of a known
// type that is malformed a [*MalformedError], and e has its type.
func (o *Decoder) Decode(raw []byte, e *Event) error {
	*e = Event{}
	if o.delta(raw, e) {
		return nil
	}
	return o.any(raw, e)
}

// any reads an event of any type.
func (o *Decoder) any(raw []byte, e *Event) error {
	v, err := jsonvalue.Parse(raw, o.nesting())
	if err != nil {
		invalid := &InvalidEventError{Reason: err.Error()}
		if syntax, ok := errors.AsType[*jsonvalue.SyntaxError](err); ok {
			invalid.Offset, invalid.Reason = syntax.Offset, syntax.Reason
		}
		return invalid
	}
	if v.Kind() != jsonvalue.Object {
		return &InvalidEventError{Reason: "JSON, but not an object"}
	}
	name, ok := v.GetText("type")
	if !ok || name == "" {
		return &InvalidEventError{Reason: `no string member "type"`}
	}
	e.Type = Type(strings.Clone(name))
	d := decoder{lenient: o.Lenient, event: e}
	if now, was := thinkingTypes[e.Type]; was {
		e.Type, e.Legacy = now, e.Type
		e.note(NoteLegacy, "")
	}
	fields, known := eventFields[e.Type]
	if !known {
		if v.Get("rawEvent").IsNull() {
			e.note(NoteLegacy, "/rawEvent")
		}
		e.note(NoteEventDropped, "")
		return nil
	}
	if !readEvent(&d, v, fields) {
		failed := *d.failed
		*e = Event{Type: e.Type, Legacy: e.Legacy, Notes: e.Notes}
		return &failed
	}
	return nil
}

func (o *Decoder) nesting() int {
	if o.Nesting > 0 {
		return o.Nesting
	}
	return MaxNesting
}

// DecodeMessage reads one message as the zero [Decoder] reads those of a
// MESSAGES_SNAPSHOT. Bytes that are no JSON object, a message of unknown role
// and a malformed one are a [*MalformedError].
func DecodeMessage(raw []byte) (Message, error) {
	var m Message
	v, err := jsonvalue.Parse(raw, MaxNesting)
	if err != nil {
		return m, &MalformedError{Type: TypeMessagesSnapshot, Reason: err.Error()}
	}
	d := decoder{event: &Event{Type: TypeMessagesSnapshot}, upgrade: true}
	switch readMessage(&d, v, &m) {
	case bad:
		return Message{}, d.failed
	case unknown:
		return Message{}, &MalformedError{Type: TypeMessagesSnapshot, Field: "/role", Reason: "is none of AG-UI"}
	}
	return m, nil
}

// decoder is the state of decoding one event.
type decoder struct {
	lenient bool
	upgrade bool // inside messages that C-9 and C-11 apply to
	binary  bool // a binary part of this message has been seen, and noted
	event   *Event
	path    []crumb
	failed  *MalformedError
}

// crumb is a name, or the index of an element if name is empty and index is not
// negative.
type crumb struct {
	name  string
	index int
}

func (d *decoder) in(name string)  { d.path = append(d.path, crumb{name, -1}) }
func (d *decoder) inItem(i int)    { d.path = append(d.path, crumb{"", i}) }
func (d *decoder) out()            { d.path = d.path[:len(d.path)-1] }
func (d *decoder) pointer() string { return d.pointerTo(d.path) }

var escapeToken = strings.NewReplacer("~", "~0", "/", "~1")

func (d *decoder) pointerTo(path []crumb) string {
	var out []byte
	for _, s := range path {
		out = append(out, '/')
		if s.index >= 0 {
			out = strconv.AppendInt(out, int64(s.index), 10)
			continue
		}
		out = append(out, escapeToken.Replace(s.name)...)
	}
	return string(out)
}

// note adds a note about where the decoder is.
func (d *decoder) note(code NoteCode) { d.event.note(code, d.pointer()) }

// noteMember adds a note about a member of the object the decoder is at.
func (d *decoder) noteMember(code NoteCode, name string) {
	d.in(name)
	d.note(code)
	d.out()
}

// fail says that what the decoder is at is malformed. It returns false.
func (d *decoder) fail(reason string) bool {
	d.failed = &MalformedError{Type: d.event.Type, Field: d.pointer(), Reason: reason}
	return false
}

func (d *decoder) wrong(v Value, want string) bool {
	return d.fail("is " + v.Kind().String() + ", not " + want)
}

// forgive goes on without what has just failed, if the decoder may. Strictly
// it may not.
func (d *decoder) forgive() bool {
	if !d.lenient {
		return false
	}
	d.event.note(NoteMalformedPart, d.failed.Field)
	d.failed = nil
	return true
}

// need says what it means that a field is not there.
type need uint8

const (
	optional need = iota
	required
	expected // required, but not by a lenient decoder
)

func (n need) of(d *decoder) bool { return n == required || n == expected && !d.lenient }

// field describes a member of an object that is read into a T.
type field[T any] struct {
	name string
	need need
	// null: what null is. By default it is a value like others to a strict
	// decoder (that is, mostly, malformed) and absent to a lenient one, unless
	// the field is required.
	null nullRule
	read func(d *decoder, v Value, to *T) bool
}

type nullRule uint8

const (
	nullByNeed nullRule = iota
	nullLegacy          // forgiven by compatibility: absent
	nullData            // data
)

// readObject reads the members of v. It returns false if v is malformed.
func readObject[T any](d *decoder, v Value, fields []field[T], to *T) bool {
	if v.Kind() != jsonvalue.Object {
		return d.wrong(v, "an object")
	}
	var seen uint64
	for name, item := range v.Members() {
		at := fieldAt(fields, name)
		if at < 0 {
			d.noteMember(NoteRemoved, name)
			continue
		}
		ok, there := readField(d, item, &fields[at], to)
		if !ok {
			return false
		}
		if there {
			seen |= 1 << at
		}
	}
	return complete(d, fields, seen)
}

func fieldAt[T any](fields []field[T], name string) int {
	for i := range fields {
		if fields[i].name == name {
			return i
		}
	}
	return -1
}

// readField reads one member. there is false if it counts as absent.
func readField[T any](d *decoder, item Value, f *field[T], to *T) (ok, there bool) {
	if item.IsNull() && f.null != nullData {
		if f.null == nullLegacy && !f.need.of(d) {
			d.noteMember(NoteLegacy, f.name)
			return true, false
		}
		if d.lenient && !f.need.of(d) {
			return true, false
		}
	}
	if f.read == nil {
		return true, true
	}
	d.in(f.name)
	ok = f.read(d, item, to)
	d.out()
	if !ok {
		return !f.need.of(d) && d.forgive(), false
	}
	return true, true
}

func complete[T any](d *decoder, fields []field[T], seen uint64) bool {
	for i := range fields {
		if fields[i].need.of(d) && seen&(1<<i) == 0 {
			d.in(fields[i].name)
			d.fail("is missing")
			d.out()
			return false
		}
	}
	return true
}

// verdict is what became of an element of a list.
type verdict uint8

const (
	good    verdict = iota
	bad             // malformed: d.failed says why
	unknown         // of a kind that AG-UI does not know; noted
)

// readList reads the elements of v; those of unknown kind are left out.
func readList[T any](d *decoder, v Value, one func(d *decoder, v Value, to *T) verdict) ([]T, bool) {
	if v.Kind() != jsonvalue.List {
		return nil, d.wrong(v, "a list")
	}
	out := make([]T, 0, v.Len())
	for i, item := range v.Items() {
		d.inItem(i)
		out = append(out, *new(T))
		what := one(d, item, &out[len(out)-1])
		d.out()
		if what == good {
			continue
		}
		out = out[:len(out)-1]
		if what == bad && !d.forgive() {
			return nil, false
		}
	}
	return out, true
}

// element makes an element's verdict of whether it could be read.
func element(ok bool) verdict {
	if ok {
		return good
	}
	return bad
}
