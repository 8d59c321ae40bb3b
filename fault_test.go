package agstore_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/eventlog"
)

// A fault that fails no call is told to who opened the store.
func TestFaultIsTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	store, err := agstore.Open(dir, agstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatTableFormatV6})
	if err != nil {
		t.Fatal(err)
	}
	// A lease and a removal whose keys are cut short: docs/format.md.
	for _, key := range [][]byte{{0x06, 1}, {0x0c, 1}} {
		if err := db.Set(key, nil, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var told []error
	store, err = agstore.Open(dir, agstore.Options{
		Fault:       func(err error) { told = append(told, err) },
		WriteFailed: func(err error) { t.Errorf("writes failed: %v", err) },
		Reopened:    func(time.Duration) { t.Error("reopened") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || !errors.Is(told[0], eventlog.ErrCorrupt) || !errors.Is(told[1], eventlog.ErrCorrupt) {
		t.Errorf("told: %v", told)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
