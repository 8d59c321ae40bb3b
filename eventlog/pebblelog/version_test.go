package pebblelog

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

func TestNewerStoreIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	l, err := Open("d", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	newer := l.meta
	newer.format = FormatVersion + 1
	if err := l.db.Set(storeKey(), newEncoder().store(newer), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open("d", Options{FS: fs})
	var version *eventlog.VersionError
	if !errors.Is(err, eventlog.ErrVersion) || !errors.As(err, &version) || version.Found != FormatVersion+1 {
		t.Fatalf("open of a newer store: %v", err)
	}
}
