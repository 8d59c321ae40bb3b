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

// A store of an older format is brought to the newest by opening it, for good.
func TestOlderStoreIsUpgraded(t *testing.T) {
	fs := vfs.NewMem()
	l, err := Open("d", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	first := l.meta
	first.format = FormatFirst
	if err := l.db.Set(storeKey(), newEncoder().store(first), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l, err = Open("d", Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		value, _, err := l.get(storeKey())
		if err != nil {
			t.Fatal(err)
		}
		got, err := newDecoder().store(value)
		if err != nil || got.format != FormatVersion || got.incarnation != first.incarnation || got.created != first.created {
			t.Fatalf("store row %+v, %v", got, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
