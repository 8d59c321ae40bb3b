package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api/client"
)

// completePatience is how long a shell waits for what could come next.
const completePatience = 2 * time.Second

// complete offers words for a flag.
func (a *app) complete(cmd *cobra.Command, flag string, words ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // only a flag that does not exist has no completion
	}
}

// completeThread offers thread ids for the first argument and, if the command
// takes one, files for the second.
func (a *app) completeThread(file bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 && file {
			return nil, cobra.ShellCompDirectiveDefault
		}
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.offer(cmd, func(ctx context.Context, c *client.Client) (ids []string, err error) {
			for t, err := range c.Threads(ctx) {
				if err != nil {
					return nil, err
				}
				ids = append(ids, string(t.Thread))
			}
			return ids, nil
		})
	}
}

// completeRunFlag offers the runs of the thread that is the first argument.
func (a *app) completeRunFlag(cmd *cobra.Command, flag string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.offer(cmd, func(ctx context.Context, c *client.Client) ([]string, error) {
			runs, err := c.Runs(ctx, args[0])
			var names []string
			for _, r := range runs {
				names = append(names, runName(r))
			}
			if flag == "from" {
				names = append(names, agui.RootParent)
			}
			return names, err
		})
	})
	if err != nil {
		panic(err) // only a flag that does not exist has no completion
	}
}

// offer asks the store. A shell has no place for errors: there is then nothing
// to offer.
func (a *app) offer(cmd *cobra.Command, ask func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completePatience)
	defer cancel()
	var words []string
	err := a.with(ctx, reading, func(c *client.Client) (err error) {
		words, err = ask(ctx, c)
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
