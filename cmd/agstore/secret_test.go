package main

import (
	"strings"
	"testing"
)

// Credentials in URLs are in no error.
func TestErrorsHoldNoSecrets(t *testing.T) {
	c := newCLI(t)
	for _, args := range [][]string{
		{"serve", "--agent", "http://user:pa55word@h/"},
		{"serve", "--agent", "http://user:pa55word@h/?a=b"},
		{"serve", "--agent", "a=ftp://user:pa55word@h/"},
		{"threads", "--server", "http://user:pa55word@127.0.0.1:1"},
		{"threads", "--server", "ftp://user:pa55word@127.0.0.1:1"},
	} {
		out := c.run(args...)
		if out.code == 0 {
			t.Errorf("%q succeeded", args)
		}
		if all := out.out + out.err; strings.Contains(all, "pa55word") {
			t.Errorf("%q says %s", args, all)
		}
	}
}
