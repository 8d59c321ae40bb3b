package agstoretest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agstoretest"
	"github.com/agstore/agstore/eventlog/logtest"
)

// judged is a test that another test runs.
type judged struct {
	testing.TB
	name     string
	cleanups []func()
	said     []string
}

func (j *judged) Helper()          {}
func (j *judged) Name() string     { return j.name }
func (j *judged) Cleanup(f func()) { j.cleanups = append(j.cleanups, f) }
func (j *judged) Failed() bool     { return len(j.said) > 0 }
func (j *judged) Logf(string, ...any) {
}
func (j *judged) Errorf(format string, args ...any) {
	j.said = append(j.said, fmt.Sprintf(format, args...))
}

// over ends the test.
func (j *judged) over() {
	for i := len(j.cleanups) - 1; i >= 0; i-- {
		j.cleanups[i]()
	}
}

func write(t *testing.T, store *agstore.Store) {
	t.Helper()
	for _, scope := range []string{"a", "b"} {
		for i := range 3 {
			events := [][]byte{
				fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":"r%d"}`, i),
				fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`, i),
				fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"%s"}`, i, strings.Repeat("words ", 50)),
				fmt.Appendf(nil, `{"type":"RUN_FINISHED","runId":"r%d"}`, i),
			}
			if _, err := store.Scope(scope).Append(t.Context(), "t", events...); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Scope(scope).View(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A sound store fails no test, in memory or on disk, closed by the test or not.
func TestSoundStore(t *testing.T) {
	for _, dir := range []string{"", t.TempDir(), t.TempDir()} {
		j := &judged{name: "sound"}
		store := agstoretest.Open(j, dir, agstore.Options{})
		write(t, store)
		if dir != "" {
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		j.over()
		if j.Failed() {
			t.Errorf("%q: %q", dir, j.said)
		}
	}
}

// A damaged one fails its test, and what is needed to look into it is kept.
func TestDamagedStore(t *testing.T) {
	keep, dir := t.TempDir(), t.TempDir()
	t.Setenv(logtest.KeepVariable, keep)
	j := &judged{name: "TestOf/a product"}
	store := agstoretest.Open(j, dir, agstore.Options{})
	write(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %v, %v", tables, err)
	}
	for _, name := range tables {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)/8] ^= 0x55
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j.over()
	if !j.Failed() {
		t.Fatal("the damage went unseen")
	}
	kept, err := filepath.Glob(filepath.Join(keep, "TestOf_a product-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept: %v, %v", kept, err)
	}
	command, err := os.ReadFile(filepath.Join(kept[0], "command.txt"))
	if err != nil || !strings.Contains(string(command), "TestOf/a product") || !strings.Contains(string(command), logtest.KeepVariable) {
		t.Errorf("command.txt says %q, %v", command, err)
	}
	if there, err := filepath.Glob(filepath.Join(kept[0], "store", "*.sst")); err != nil || len(there) != len(tables) {
		t.Errorf("kept tables: %v, %v", there, err)
	}
}
