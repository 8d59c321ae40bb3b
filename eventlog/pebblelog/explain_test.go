package pebblelog

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// explained says how the bytes of one kind of key and value are read. The test
// of docs/format.md holds it against the encoder and the decoder.
type explained struct {
	name    string
	key     []part // behind the prefix
	sum     bool   // a checksum stands before the fields
	fields  []part
	rest    string // what follows the fields as it is
	special string // the fixed second byte of the key
}

// part is one field. Its form is u64, u32, u16, u8, 17 or n bytes of a key, or of a value
// integer, text, bytes, boolean, list.
type part struct{ name, form string }

func parts(text string) (out []part) {
	for one := range strings.SplitSeq(text, ",") {
		name, form, _ := strings.Cut(strings.TrimSpace(one), ":")
		if form == "" {
			form = "integer"
		}
		out = append(out, part{name, form})
	}
	return out
}

// kindsOfKeys are all kinds there are, by prefix; those of the store itself by
// their second byte.
var kindsOfKeys = map[byte][]explained{
	prefixStore: {
		{name: "store", special: "m", fields: parts("format, incarnation:text, created")},
		{name: "backup", special: "b", key: parts("number:u64"), fields: parts("time, position, up to, directory:text, incarnation:text, format")},
	},
	prefixName:      {{name: "name", key: parts("n:u16, scope:n, thread id:rest"), fields: parts("ordinal")}},
	prefixThread:    {{name: "thread", key: parts("ordinal:u64"), fields: parts("scope:text, thread id:text, created, position, runs, head, epoch, generation, first seq, first run, state, chain key:bytes, chain start, chain base:bytes")}},
	prefixRecord:    {{name: "record", key: parts("ordinal:u64, seq:u64"), sum: true, fields: parts("position, time, run, type:type, origin, flags, redacted:bytes"), rest: "event"}},
	prefixRun:       {{name: "run", key: parts("ordinal:u64, run:u32"), fields: parts("run id:text, attempt, parent, parent seq, first seq, last seq, end seq, records, status, started, ended, origin, held:boolean, epoch, owner:text, digest:bytes")}},
	prefixLease:     {{name: "lease", key: parts("ordinal:u64, run:u32"), fields: parts("time to live, expires")}},
	prefixCommit:    {{name: "commit", key: parts("position:u64"), fields: parts("ordinal, first, count, time, stream, chain:bytes")}},
	prefixKey:       {{name: "key", key: parts("ordinal:u64, name of the idempotency key:17"), fields: parts("first, last, digest:bytes, position, time")}},
	prefixKeyTime:   {{name: "key time", key: parts("time:u64, ordinal:u64, name of the idempotency key:17")}},
	prefixCompanion: {{name: "companion", key: parts("ordinal:u64, seq:u64"), sum: true, fields: parts("position, time, kind:text"), rest: "body"}},
	prefixReceipt:   {{name: "receipt", key: parts("ordinal:u64, number:u64"), fields: parts("removal, position, time, reason:text, actor:text, created, generation, message:text, first, last, first position, last position, first run, last run, removed:boolean, gone, disk bytes, places and holders:list")}},
	prefixPending:   {{name: "pending", key: parts("ordinal:u64, number:u64")}},
	prefixDerived:   {{name: "derived", key: parts("ordinal:u64, m:u8, owner:n, key:rest"), sum: true, fields: parts("position, removals"), rest: "value"}},
	prefixOfScope:   {{name: "derived of a scope", key: parts("n:u16, scope:n, m:u8, owner:n, key:rest"), sum: true, fields: parts("position, removals"), rest: "value"}},
}

// explainer prints bytes with what they mean.
type explainer struct {
	out strings.Builder
	in  unpacker
}

const explainBytes = 17 // of a line

// line prints some bytes and their meaning; bytes that are too many for one line
// go on in the next ones.
func (x *explainer) line(indent string, bytes []byte, meaning string) {
	for first := true; first || len(bytes) > 0; first = false {
		n := min(len(bytes), explainBytes-len(indent))
		fmt.Fprintf(&x.out, "%s\n", strings.TrimRight(fmt.Sprintf("%s%-*s %s", indent, 54-len(indent), fmt.Sprintf("% x", bytes[:n]), meaning), " "))
		bytes, meaning = bytes[n:], ""
	}
}

// read consumes one thing of the value and prints it.
func (x *explainer) read(indent, name string, one func() string) {
	before := x.in.rest
	says := one()
	x.line(indent, before[:len(before)-len(x.in.rest)], strings.TrimSpace(name+" "+says))
}

// explain prints a key and its value; ok is false if they are not of a kind that
// there is.
func explain(key, value []byte) (text string, ok bool) {
	k, ok := kindOfKey(key)
	if !ok {
		return "", false
	}
	x := new(explainer)
	x.key(k, key)
	x.in.rest = value
	x.read("", "version", func() string { return fmt.Sprint(x.in.number(1)) })
	if k.sum {
		x.read("", "CRC-32C of the rest", func() string { x.in.number(4); return "" })
	}
	count := 0
	x.read("", "", func() string { count = x.in.array(); return "fields: " + strconv.Itoa(count) })
	for i := range min(count, len(k.fields)) {
		x.field(k.fields[i])
	}
	if k.rest != "" {
		x.read("", k.rest, func() string { return string(x.in.take(uint64(len(x.in.rest)))) })
	}
	return x.out.String(), !x.in.failed && len(x.in.rest) == 0 && count <= len(k.fields)
}

func kindOfKey(key []byte) (explained, bool) {
	if len(key) < 2 {
		return explained{}, false
	}
	for _, k := range kindsOfKeys[key[0]] {
		if k.special == "" || k.special == string(key[1:2]) {
			return k, true
		}
	}
	return explained{}, false
}

func (x *explainer) key(k explained, key []byte) {
	head := 1 + len(k.special)
	x.line("", key[:head], "key: "+k.name)
	x.in.rest = key[head:]
	n := uint64(0)
	for _, p := range k.key {
		x.read("   ", p.name, func() string {
			switch p.form {
			case "u64":
				return fmt.Sprint(x.in.number(8))
			case "u32":
				return fmt.Sprint(x.in.number(4))
			case "u16":
				n = x.in.number(2)
				return fmt.Sprint(n)
			case "u8":
				n = x.in.number(1)
				return fmt.Sprint(n)
			case "n":
				return fmt.Sprintf("%q", x.in.take(n))
			case "17":
				return fmt.Sprintf("(%d bytes)", len(x.in.take(17)))
			}
			return fmt.Sprintf("%q", x.in.take(uint64(len(x.in.rest))))
		})
	}
}

func (x *explainer) field(p part) {
	if p.form == "list" {
		x.list(p)
		return
	}
	x.read("   ", p.name, func() string {
		switch {
		case p.form == "text" || p.form == "type" && x.in.isText():
			return fmt.Sprintf("%q", x.in.text())
		case p.form == "type":
			return string(typeNumbers[x.in.uint()])
		case p.form == "bytes":
			return fmt.Sprintf("(%d bytes)", len(x.in.bytes()))
		case p.form == "boolean":
			return fmt.Sprint(x.in.bool())
		}
		if x.in.peek() < packI8 {
			return fmt.Sprint(x.in.uint()) // also what is above the range of int64
		}
		return fmt.Sprint(x.in.int())
	})
}

// list prints the places and holders of a receipt.
func (x *explainer) list(p part) {
	places, left := uint64(0), 0
	x.read("   ", p.name, func() string { left = x.in.array() - 1; return fmt.Sprintf("(%d)", left+1) })
	x.read("      ", "places", func() string { places = x.in.uint(); return fmt.Sprint(places) })
	for range places {
		x.read("      ", "place", func() string { return fmt.Sprintf("%q", x.in.text()) })
		x.read("      ", "count", func() string { return fmt.Sprint(x.in.uint()) })
		x.read("      ", "bytes", func() string { return fmt.Sprint(x.in.uint()) })
		left -= 3
	}
	for range left {
		x.read("      ", "holder", func() string { return fmt.Sprintf("%q", x.in.text()) })
	}
}

// boxes draws the key and the value of a kind.
func boxes(prefix byte, version byte, k explained) string {
	cells := []string{fmt.Sprintf("%02x", prefix)}
	if k.special != "" {
		cells = append(cells, "'"+k.special+"'")
	}
	for _, p := range k.key {
		cells = append(cells, p.name+map[string]string{"u64": "  u64", "u32": "  u32", "u16": "  u16", "u8": "  u8", "n": ", n B", "17": ", 17 B", "rest": " …"}[p.form])
	}
	out := box("key  ", cells)
	cells = []string{fmt.Sprintf("%02x", version)}
	if k.sum {
		cells = append(cells, "CRC  u32")
	}
	cells = append(cells, "array")
	for _, p := range k.fields {
		cells = append(cells, p.name)
	}
	if k.rest != "" {
		cells = append(cells, k.rest+" …")
	}
	return out + box("value", cells)
}

// box draws cells, in as many rows as it takes.
func box(name string, cells []string) (out string) {
	const width = 110
	for len(cells) > 0 {
		top, middle, bottom := "┌", "│", "└"
		n := 0
		for n < len(cells) && (n == 0 || utf8.RuneCountInString(middle)+utf8.RuneCountInString(cells[n])+3 <= width) {
			bar := strings.Repeat("─", utf8.RuneCountInString(cells[n])+2)
			top, middle, bottom = top+bar+"┬", middle+" "+cells[n]+" │", bottom+bar+"┴"
			n++
		}
		blank := strings.Repeat(" ", len(name))
		out += fmt.Sprintf("%s %s┐\n%s %s\n%s %s┘\n", blank, strings.TrimSuffix(top, "┬"), name, middle, blank, strings.TrimSuffix(bottom, "┴"))
		name, cells = blank, cells[n:]
	}
	return out
}
