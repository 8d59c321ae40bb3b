package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// misuse is the error for a command line that cobra did not understand: what is
// wrong with it, and on the next line how the command is used.
func misuse(cmd *cobra.Command, err error) error {
	// Behind its first line cobra lists the commands that were perhaps meant.
	text, meant, _ := strings.Cut(err.Error(), "\n")
	if cmd.HasParent() {
		return &usageError{text: cmd.Name() + ": " + text, hint: "usage: " + cmd.UseLine() + "; " + helpOf(cmd)}
	}
	hint := "agstore --help lists commands and flags"
	if words := strings.Fields(meant); len(words) > 0 {
		hint = strings.Join(words, " ") + "; " + hint
	}
	return &usageError{text: text, hint: hint}
}

// noArgs is for commands without arguments.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("it takes no arguments, and was given %q", args[0])
	}
	return nil
}

// helpOf says where a command is explained.
func helpOf(cmd *cobra.Command) string { return cmd.CommandPath() + " --help explains it" }

// serverURL is what --server means: a URL, or the address in one.
func serverURL(text string) (string, error) {
	full := text
	if !strings.Contains(text, "://") {
		full = "http://" + text
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", &usageError{text: "--server: no URL of a server", hint: "as http://127.0.0.1:4180, where agstore serve listens"}
	}
	return full, nil
}
