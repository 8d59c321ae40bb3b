package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// outDir is where a whole run writes its results.
const outDir = "docs/bench"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// row is one row of the goals: what it measures may be several results.
type row struct {
	id   string
	long bool // only with -full, or by name
	run  func(ctx context.Context, b *bench) ([]Result, error)
}

// rows are all rows in the order they are run and shown in.
func rows() []row { return slices.Concat(foldRows(), logRows(), viewRows()) }

// bench is what rows are run with.
type bench struct {
	short bool   // a hundredth of the work: to see that a row runs
	data  string // directory for stores and files
	peers string // directory of the peers' packages
}

// n is how often to do something, that many times in a real run.
func (b *bench) n(times int) int {
	if b.short {
		return max(times/100, 1)
	}
	return times
}

// rounds is how many rounds the contestants of a row have.
func (b *bench) rounds(n int) int {
	if b.short {
		return 1
	}
	return n
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	b := new(bench)
	full := flags.Bool("full", false, "run the long rows too")
	only := flags.String("rows", "", "run only these rows, e.g. P-F1,P-F3")
	asJSON := flags.Bool("json", false, "print the results as JSON on stdout, the table on stderr")
	out := flags.String("out", "", "`directory` for results.json and results.svg (default "+outDir+", for a whole run)")
	flags.BoolVar(&b.short, "short", false, "a hundredth of the work: shows that the rows run, and nothing else")
	flags.StringVar(&b.peers, "peers", "bench/peers", "`directory` of the peers' packages")
	flags.StringVar(&b.data, "data", os.TempDir(), "`directory` for stores, on the disk to be measured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(rows(), *only, *full)
	if err != nil {
		return err
	}
	if *out == "" && *only == "" && !b.short {
		*out = outDir
	}
	work, err := os.MkdirTemp(b.data, "agstore-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b.data = work

	results, err := measure(ctx, b, chosen, stderr)
	if err != nil {
		return err
	}
	table := io.Writer(stdout)
	if *asJSON {
		table = stderr
	}
	if err := writeTable(table, results); err != nil {
		return err
	}
	return publish(results, *out, *asJSON, stdout)
}

// choose picks rows by name, or all that are not long.
func choose(all []row, names string, full bool) ([]row, error) {
	if names == "" {
		return slices.DeleteFunc(all, func(r row) bool { return r.long && !full }), nil
	}
	var chosen []row
	for name := range strings.SplitSeq(names, ",") {
		name = strings.ToUpper(strings.TrimSpace(name))
		i := slices.IndexFunc(all, func(r row) bool { return r.id == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no row %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// measure runs the rows, and says on log how far it is.
func measure(ctx context.Context, b *bench, chosen []row, log io.Writer) ([]Result, error) {
	var results []Result
	for _, r := range chosen {
		began := time.Now()
		found, err := r.run(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.id, err)
		}
		for i := range found {
			found[i].Row = r.id
		}
		results = append(results, found...)
		fmt.Fprintf(log, "%s: %.1f s\n", r.id, time.Since(began).Seconds())
	}
	return results, nil
}

// publish writes the results to where they are wanted.
func publish(results []Result, out string, asJSON bool, stdout io.Writer) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(results); err != nil {
		return err
	}
	if asJSON {
		if _, err := stdout.Write(text.Bytes()); err != nil {
			return err
		}
	}
	if out == "" {
		return nil
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "results.json"), text.Bytes(), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "results.svg"), chart(results), 0o666)
}
