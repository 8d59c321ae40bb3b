package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// consent is how a command that removes or replaces something is agreed to.
type consent struct {
	yes    bool
	dryRun bool
}

// errDeclined: somebody was asked, and said no.
var errDeclined = errors.New("nothing was done")

// consentFlags gives a command the flags --yes and --dry-run.
func consentFlags(cmd *cobra.Command, c *consent) {
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do it without asking")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show what would be done, and do nothing")
}

// agree asks the question on a terminal, unless --yes was given. Where nobody
// can be asked, --yes is needed.
func (a *app) agree(ctx context.Context, c *consent, question string) error {
	if c.yes {
		return nil
	}
	if !a.io.inTTY || !a.io.errTTY {
		return &usageError{text: "nobody can be asked here", hint: "give --yes to do it, or --dry-run to see what it would do"}
	}
	if _, err := fmt.Fprintf(a.io.err, "%s [y/N] ", question); err != nil {
		return err
	}
	in, stop := a.io.reader(ctx)
	defer stop()
	answer, err := bufio.NewReader(in).ReadString('\n')
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if word := strings.ToLower(strings.TrimSpace(answer)); word == "y" || word == "yes" {
		return nil
	} else if word == "" && err != nil {
		return errors.Join(errDeclined, err)
	}
	return errDeclined
}
