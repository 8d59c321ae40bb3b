package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

func (a *app) backupCommand() *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy the whole store, while it is in use",
		Long: "Makes a copy of the store, of all scopes, in the new directory DIR. Writing goes on\n" +
			"meanwhile; all that was acknowledged before is in the copy. On the same disk it is quick and\n" +
			"takes little room. --list shows the backups that were made: what is erased from the store is\n" +
			"still in them. In a pipe: directory, time, position and, of a new one, files and bytes, on one\n" +
			"line each.",
		Example: "  agstore backup /backups/agstore-monday\n  agstore backup --list",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if list == (len(args) == 1) {
				return &usageError{text: "backup takes a directory, or --list"}
			}
			if a.server != "" {
				return &usageError{text: "--server: a backup is made where the store is", hint: "run it on that machine, with --data"}
			}
			if list {
				return a.with(ctx, reading, func(c *client.Client) error { return a.listBackups(ctx, c) })
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			var made eventlog.Backup
			err = a.with(ctx, reading, func(c *client.Client) (err error) {
				made, err = c.Backup(ctx, dir)
				return err
			})
			if err != nil {
				return err
			}
			return a.printBackup("backed up", dir, made)
		}),
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the backups that were made")
	return cmd
}

func (a *app) listBackups(ctx context.Context, c *client.Client) error {
	made, err := c.Backups(ctx)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(a.io.out)
	t := &table{header: []string{"DIRECTORY", "TIME", "POSITION"}}
	clock := a.listClock()
	for _, b := range made {
		if a.json {
			if err := lines.Encode(b); err != nil {
				return err
			}
			continue
		}
		t.add(b.Dir, clock.show(b.Time), strconv.FormatUint(b.Position, 10))
	}
	if a.json {
		return nil
	}
	return a.printTable(a.io.out, t)
}

// printBackup says what was done with a backup.
func (a *app) printBackup(done, dir string, b eventlog.Backup) error {
	if a.json {
		return json.NewEncoder(a.io.out).Encode(b)
	}
	files, bytes, position := strconv.Itoa(b.Files), strconv.FormatInt(b.Bytes, 10), strconv.FormatUint(b.Position, 10)
	if !a.io.outTTY {
		return a.printTable(a.io.out, &table{rows: [][]string{{dir, b.Time.Format(time.RFC3339), position, files, bytes}}})
	}
	_, err := fmt.Fprintf(a.io.out, "%s to %s: all up to position %s, %s files, %s bytes\n", done, printable(dir), position, files, bytes)
	return err
}

func (a *app) restoreCommand() *cobra.Command {
	var c consent
	var reason, actor string
	restore := func(ctx context.Context, backup string, dryRun bool) (eventlog.Backup, error) {
		opts := eventlog.RestoreOptions{Reason: reason, Actor: actor, DryRun: dryRun}
		if opts.Actor == "" {
			opts.Actor = thisUser()
		}
		return agstore.Restore(ctx, backup, a.data, opts)
	}
	cmd := &cobra.Command{
		Use:   "restore BACKUP",
		Short: "Make a store of a backup",
		Long: "Makes a store of the backup in the directory BACKUP, in the data directory, which must not\n" +
			"exist or be empty. Every file is checked. The store is of another life than the one that was\n" +
			"backed up: clients with cursors of that one are told so. Runs that were being written then\n" +
			"are closed. The file restored.json in the data directory says of which backup it was made,\n" +
			"when, by whom and why. In a pipe: data directory, time of the backup, position, files and bytes.",
		Example: "  agstore restore /backups/agstore-monday --data ./restored --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if a.server != "" {
				return &usageError{text: "--server: a restore makes a data directory", hint: "run it on that machine, with --data"}
			}
			b, err := restore(ctx, args[0], true)
			if err != nil {
				return err
			}
			if c.dryRun {
				return a.printBackup("would restore "+printable(args[0]), a.data, b)
			}
			question := fmt.Sprintf("restore the backup of %s to %s?", b.Time.Format(time.RFC3339), printable(a.data))
			if err := a.agree(ctx, &c, question); err != nil {
				return err
			}
			if b, err = restore(ctx, args[0], false); err != nil {
				return err
			}
			return a.printBackup("restored "+printable(args[0]), a.data, b)
		}),
	}
	consentFlags(cmd, &c)
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept in the data directory, in restored.json")
	cmd.Flags().StringVar(&actor, "actor", "", "who asked for it; kept there too (default: the user of this process)")
	return cmd
}
