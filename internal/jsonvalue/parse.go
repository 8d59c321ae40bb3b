package jsonvalue

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultNesting is how deep lists and objects may be nested unless a caller
// says otherwise (fold-rules R25).
const DefaultNesting = 3000

// SyntaxError says why and where a text is not JSON.
type SyntaxError struct {
	Offset int    // in bytes
	Reason string // in words, without any of the text
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not JSON: %s at byte %d", e.Reason, e.Offset)
}

// Parse reads one JSON text (RFC 8259), with white space around it allowed. It
// must be valid UTF-8 and not nested deeper than nesting levels; 0 means
// [DefaultNesting]. Of members with one name the last counts and stands in the
// place of the first (SEMANTICS N-4; order carries no meaning there). The error
// is a [*SyntaxError].
func Parse(raw []byte, nesting int) (Value, error) {
	if nesting <= 0 {
		nesting = DefaultNesting
	}
	// One copy; the strings of the value are pieces of it.
	p := parser{text: string(raw), nesting: nesting}
	p.space()
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.space()
	if p.at < len(p.text) {
		return Value{}, p.fault("more behind the end of the value")
	}
	return v, nil
}

type parser struct {
	text    string
	at      int
	nesting int
	// odd is where the last thing ended that is not printed as it was written:
	// white space, an escape, a member that came twice.
	odd int
}

// close ends a list or an object that began at from.
func (p *parser) close(n *node, from int) {
	p.at++
	if p.odd <= from {
		n.printed = p.text[from:p.at]
	}
}

func (p *parser) fault(reason string) error { return &SyntaxError{Offset: p.at, Reason: reason} }

func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
			p.odd = p.at
		default:
			return
		}
	}
}

// next returns the byte at the current place, 0 at the end of the text.
func (p *parser) next() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// value reads a value that stands inside depth levels.
func (p *parser) value(depth int) (Value, error) {
	switch c := p.next(); {
	case c == '{':
		return p.object(depth + 1)
	case c == '[':
		return p.list(depth + 1)
	case c == '"':
		s, err := p.string()
		return Value{kind: String, text: s}, err
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case p.word("null"):
		return Value{kind: Null}, nil
	case p.word("true"):
		return Value{kind: Bool, truth: true}, nil
	case p.word("false"):
		return Value{kind: Bool}, nil
	}
	if p.at >= len(p.text) {
		return Value{}, p.fault("cut off before a value")
	}
	return Value{}, p.fault("no value where one must be")
}

func (p *parser) word(w string) bool {
	if strings.HasPrefix(p.text[p.at:], w) {
		p.at += len(w)
		return true
	}
	return false
}

func (p *parser) object(depth int) (Value, error) {
	if depth > p.nesting {
		return Value{}, p.fault(fmt.Sprintf("nested deeper than %d levels", p.nesting))
	}
	from := p.at
	p.at++
	p.space()
	n := newObject(4)
	if p.next() == '}' {
		p.close(n, from)
		return Value{kind: Object, node: n}, nil
	}
	for {
		if p.next() != '"' {
			return Value{}, p.fault("no name of a member where one must be")
		}
		name, err := p.string()
		if err != nil {
			return Value{}, err
		}
		p.space()
		if p.next() != ':' {
			return Value{}, p.fault("no colon behind the name of a member")
		}
		p.at++
		p.space()
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		before := len(n.items)
		if n.put(name, v); len(n.items) == before {
			p.odd = p.at
		}
		p.space()
		switch p.next() {
		case ',':
			p.at++
			p.space()
		case '}':
			p.close(n, from)
			return Value{kind: Object, node: n}, nil
		default:
			return Value{}, p.fault("no comma or } behind a member")
		}
	}
}

func (p *parser) list(depth int) (Value, error) {
	if depth > p.nesting {
		return Value{}, p.fault(fmt.Sprintf("nested deeper than %d levels", p.nesting))
	}
	from := p.at
	p.at++
	p.space()
	n := newList(nil)
	if p.next() == ']' {
		p.close(n, from)
		return Value{kind: List, node: n}, nil
	}
	for {
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		n.items = append(n.items, v)
		n.size += v.size() + itemSize
		n.holds(v)
		p.space()
		switch p.next() {
		case ',':
			p.at++
			p.space()
		case ']':
			p.close(n, from)
			return Value{kind: List, node: n}, nil
		default:
			return Value{}, p.fault("no comma or ] behind an element")
		}
	}
}

func (p *parser) number() (Value, error) {
	from := p.at
	if p.next() == '-' {
		p.at++
	}
	switch {
	case p.next() == '0':
		p.at++
	case !p.digits():
		return Value{}, p.fault("a number without digits")
	}
	if p.next() == '.' {
		p.at++
		if !p.digits() {
			return Value{}, p.fault("a number without digits behind its point")
		}
	}
	if c := p.next(); c == 'e' || c == 'E' {
		p.at++
		if c := p.next(); c == '+' || c == '-' {
			p.at++
		}
		if !p.digits() {
			return Value{}, p.fault("a number without digits in its exponent")
		}
	}
	return Value{kind: Number, text: p.text[from:p.at]}, nil
}

func (p *parser) digits() bool {
	from := p.at
	for c := p.next(); '0' <= c && c <= '9'; c = p.next() {
		p.at++
	}
	return p.at > from
}

// string reads a string. Without escapes it is a piece of the text.
func (p *parser) string() (string, error) {
	p.at++
	from, ascii := p.at, true
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			s := p.text[from:p.at]
			if !ascii && !utf8.ValidString(s) {
				return "", p.fault("invalid UTF-8")
			}
			p.at++
			return s, nil
		case c == '\\':
			return p.escaped(from)
		case c < 0x20:
			return "", p.fault("a control character in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
		p.at++
	}
	return "", p.fault("cut off in a string")
}

// escaped reads the rest of a string that began at from and has its first
// escape here.
func (p *parser) escaped(from int) (string, error) {
	out := make([]byte, 0, p.at-from+32)
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			if out = append(out, p.text[from:p.at]...); !utf8.ValidString(p.text[from:p.at]) {
				return "", p.fault("invalid UTF-8")
			}
			p.at++
			p.odd = p.at
			return string(out), nil
		case c == '\\':
			if out = append(out, p.text[from:p.at]...); !utf8.ValidString(p.text[from:p.at]) {
				return "", p.fault("invalid UTF-8")
			}
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
			from = p.at
		case c < 0x20:
			return "", p.fault("a control character in a string")
		default:
			p.at++
		}
	}
	return "", p.fault("cut off in a string")
}

func (p *parser) escape(out []byte) ([]byte, error) {
	p.at++
	if p.next() == 'u' {
		r, ok := p.unit()
		if !ok {
			return nil, p.fault("a broken \\u escape")
		}
		return p.character(out, r), nil
	}
	c, ok := plainEscape(p.next())
	if !ok {
		return nil, p.fault("an unknown escape in a string")
	}
	p.at++
	return append(out, c), nil
}

// unit reads what follows a backslash: u and four hexadecimal digits.
func (p *parser) unit() (r rune, ok bool) {
	if p.at >= len(p.text) {
		return 0, false
	}
	if r, ok = hexUnit(p.text[p.at+1:]); ok {
		p.at += 5
	}
	return r, ok
}

// character appends the character whose first code unit has just been read.
func (p *parser) character(out []byte, r rune) []byte {
	if r < 0xD800 || r > 0xDFFF {
		return utf8.AppendRune(out, r)
	}
	if r < 0xDC00 && strings.HasPrefix(p.text[p.at:], `\u`) {
		back := p.at
		p.at++
		if low, ok := p.unit(); ok && 0xDC00 <= low && low <= 0xDFFF {
			return utf8.AppendRune(out, joined(r, low))
		}
		p.at = back
	}
	return appendSurrogate(out, r)
}
