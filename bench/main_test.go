package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A short run of every row: each has results, the table and the files have
// them, and a peer that is not installed is said to be missing.
func TestShortRun(t *testing.T) {
	dir := t.TempDir()
	var stdout, stderr strings.Builder
	args := []string{"-short", "-full", "-json", "-out", dir, "-data", t.TempDir(), "-peers", filepath.Join(dir, "none")}
	if err := run(t.Context(), args, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var results []map[string]any
	if err := json.Unmarshal([]byte(stdout.String()), &results); err != nil {
		t.Fatalf("%v in\n%s", err, stdout.String())
	}
	seen := make(map[string]bool)
	missing := 0
	for _, r := range results {
		seen[r["row"].(string)] = true
		for _, member := range []string{"what", "agstore", "goal"} {
			if r[member] == "" {
				t.Errorf("%v has no %s", r["row"], member)
			}
		}
		if r["ok"] == nil {
			missing++
			if other := r["other"].(string); !strings.Contains(other, "not installed") {
				t.Errorf("%v could not be measured, because %q", r["row"], other)
			}
		}
	}
	for _, r := range rows() {
		if !seen[r.id] {
			t.Errorf("%s has no results", r.id)
		}
	}
	if missing != 2 {
		t.Errorf("%d results want the peer, not 2", missing)
	}
	if table := stderr.String(); strings.Count(table, "\n") < len(results) || !strings.Contains(table, "peer or limit") {
		t.Errorf("the table is\n%s", table)
	}
	file, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil || string(file) != stdout.String() {
		t.Errorf("results.json: %v\n%s", err, file)
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "results.svg")); err != nil || !strings.HasPrefix(string(svg), "<svg") {
		t.Errorf("results.svg: %v\n%.100s", err, svg)
	}
}

func TestChoose(t *testing.T) {
	all := func() []row { return []row{{id: "P-1"}, {id: "P-2", long: true}, {id: "P-3"}} }
	for _, c := range []struct {
		names string
		full  bool
		want  string
	}{{"", false, "P-1 P-3"}, {"", true, "P-1 P-2 P-3"}, {"p-3, P-2", false, "P-3 P-2"}} {
		chosen, err := choose(all(), c.names, c.full)
		var got []string
		for _, r := range chosen {
			got = append(got, r.id)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("-rows %q -full=%t: %v, %v", c.names, c.full, got, err)
		}
	}
	if _, err := choose(all(), "P-9", false); err == nil {
		t.Error("a row that is not there was chosen")
	}
}
