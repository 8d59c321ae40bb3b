package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agstore/agstore/eventlog"
)

const oneRun = `{"type":"RUN_STARTED","threadId":"t","runId":"r1"}
{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"kept"}
{"type":"TEXT_MESSAGE_END","messageId":"m1"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r1"}
`

// A backup is restored to a store that shows the same, and can be written.
func TestBackupAndRestore(t *testing.T) {
	c := newCLI(t)
	c.with(oneRun).ok("import", "t", "-")
	dir := t.TempDir()
	backup := filepath.Join(dir, "backup")
	var made, read eventlog.Backup
	if err := json.Unmarshal([]byte(c.ok("backup", backup, "--json")), &made); err != nil {
		t.Fatal(err)
	}
	c.with(oneRun).ok("import", "later", "-")
	other := newCLI(t)
	if err := json.Unmarshal([]byte(other.ok("restore", backup, "--dry-run", "--json")), &read); err != nil || read != made {
		t.Errorf("plan %+v, %v; want %+v", read, err, made)
	}
	if _, err := os.Stat(other.data); !os.IsNotExist(err) {
		t.Errorf("after --dry-run: %v", err)
	}
	other.ok("restore", backup, "--yes", "--reason", "ticket 4711", "--actor", "ann")
	note, err := os.ReadFile(filepath.Join(other.data, "restored.json"))
	if text := string(note); err != nil || !strings.Contains(text, "ticket 4711") || !strings.Contains(text, "ann") || !strings.Contains(text, made.Incarnation) {
		t.Errorf("restored.json: %v\n%s", err, note)
	}
	if got, want := other.ok("show", "t"), c.ok("show", "t"); got != want {
		t.Errorf("restored:\n%s\nwas:\n%s", got, want)
	}
	if got := other.ok("threads"); strings.Contains(got, "later") {
		t.Errorf("threads:\n%s", got)
	}
	other.with(oneRun).ok("import", "new", "-")
	if got := c.ok("backup", "--list"); !strings.Contains(got, backup+"\t") {
		t.Errorf("backups:\n%s", got)
	}
}

func TestBackupBesideServe(t *testing.T) {
	c := newCLI(t)
	c.stopAtEnd(c.startServer())
	c.with(oneRun).ok("import", "t", "-")
	backup := filepath.Join(t.TempDir(), "backup")
	c.ok("backup", backup)
	other := newCLI(t)
	other.ok("restore", backup, "--yes")
	if got := other.ok("threads"); !strings.HasPrefix(got, "t\t") {
		t.Errorf("threads:\n%s", got)
	}
}

func TestBackupRefusals(t *testing.T) {
	c := newCLI(t)
	c.fails(exitNotFound, "not found", "backup", filepath.Join(t.TempDir(), "b"))
	c.with(oneRun).ok("import", "t", "-")
	dir := t.TempDir()
	c.fails(exitUsage, "exists", "backup", dir)
	c.fails(exitUsage, "inside the data directory", "backup", filepath.Join(c.data, "b"))
	c.fails(exitUsage, "takes a directory", "backup")
	c.fails(exitUsage, "--server", "backup", "b", "--server", "http://127.0.0.1:1")
	c.fails(exitNotFound, "no complete backup", "restore", dir, "--yes")
	backup := filepath.Join(dir, "b")
	c.ok("backup", backup)
	c.fails(exitUsage, "not empty", "restore", backup, "--yes")
	c.fails(exitUsage, "not empty", "restore", backup, "--dry-run")
	c.fails(exitUsage, "inside a backup", "restore", backup, "--dry-run", "--data", filepath.Join(backup, "d"))
	other := newCLI(t)
	other.fails(exitUsage, "nobody can be asked", "restore", backup)
	lists, err := filepath.Glob(filepath.Join(backup, "MANIFEST-*"))
	if err != nil || len(lists) != 1 {
		t.Fatal(lists, err)
	}
	if err := os.Truncate(lists[0], 1); err != nil {
		t.Fatal(err)
	}
	other.fails(exitDamaged, filepath.Base(lists[0])+" is not the file that was backed up", "restore", backup, "--yes")
	if _, err := os.Stat(other.data); !os.IsNotExist(err) {
		t.Errorf("a failed restore left something: %v", err)
	}
}

// On a terminal the question is asked, and only yes does it.
func TestRestoreAsks(t *testing.T) {
	c := newCLI(t)
	c.with(oneRun).ok("import", "t", "-")
	backup := filepath.Join(t.TempDir(), "backup")
	c.ok("backup", backup)
	for answer, want := range map[string]exitCode{"n\n": exitFailed, "\n": exitFailed, "": exitFailed, "yes\n": exitDone, "Y\n": exitDone} {
		other := newCLI(t).with(answer).onTerminal()
		other.asked = true
		if r := other.run("restore", backup); r.code != int(want) || !strings.Contains(r.err, "restore the backup of") {
			t.Errorf("answer %q: exit %d, want %d\n%s", answer, r.code, want, r.err)
		}
		if _, err := os.Stat(other.data); (err == nil) != (want == exitDone) {
			t.Errorf("answer %q: the data directory: %v", answer, err)
		}
	}
}
