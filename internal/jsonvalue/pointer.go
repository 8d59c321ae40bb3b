package jsonvalue

import "strings"

// SplitPointer splits a JSON Pointer (RFC 6901) into its tokens, which are
// unescaped. It must be empty or begin with a slash, and every ~ must be
// followed by 0 or 1; else ok is false.
func SplitPointer(pointer string) (tokens []string, ok bool) {
	if pointer == "" {
		return nil, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	tokens = strings.Split(pointer[1:], "/")
	if !strings.Contains(pointer, "~") {
		return tokens, true
	}
	for i, token := range tokens {
		for at := strings.IndexByte(token, '~'); at >= 0; {
			if at+1 == len(token) || token[at+1] != '0' && token[at+1] != '1' {
				return nil, false
			}
			next := strings.IndexByte(token[at+2:], '~')
			if next < 0 {
				break
			}
			at += 2 + next
		}
		// One pass: ~01 is ~1, not a slash.
		tokens[i] = unescapeToken.Replace(token)
	}
	return tokens, true
}

var unescapeToken = strings.NewReplacer("~1", "/", "~0", "~")

// Resolve returns what a pointer leads to in v, absent if nothing is there or
// the pointer is none.
func (v Value) Resolve(pointer string) Value {
	tokens, ok := SplitPointer(pointer)
	if !ok {
		return Value{}
	}
	for _, token := range tokens {
		if v = v.step(token); !v.Present() {
			return v
		}
	}
	return v
}

// step goes one token down.
func (v Value) step(token string) Value {
	if v.kind == List {
		if i, ok := listIndex(token); ok && v.node.has(i) {
			return v.node.at(i)
		}
		return Value{}
	}
	return v.Get(token)
}

// listIndex reads an array index of RFC 6901: digits without leading zeros. One
// that no list can have is returned as one that is too large.
func listIndex(token string) (i int, ok bool) {
	if token == "" || len(token) > 1 && token[0] == '0' {
		return 0, false
	}
	for _, c := range []byte(token) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if i < 1<<40 {
			i = i*10 + int(c-'0')
		}
	}
	return i, true
}
