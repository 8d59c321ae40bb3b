package pebblelog

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerFS makes the entries of Pebble's directory durable in an order in which
// every state between is a store.
//
// Pebble says in a file's name, marker.manifest.…, which of its manifests holds.
// To move on it writes a new manifest, creates a new marker, removes the old one,
// and syncs the directory once. A disk that keeps some of these changes and not
// others can be left with a marker of a manifest that is not there, which does
// not open, or without a marker, which is an empty store. So the directory is
// synced before a marker is created, and once more before the old one goes.
type markerFS struct{ vfs.FS }

const markerPrefix = "marker."

// Create implements [vfs.FS].
func (m markerFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !strings.HasPrefix(m.PathBase(name), markerPrefix) {
		return m.FS.Create(name, category)
	}
	if err := m.syncDir(name); err != nil {
		return nil, err
	}
	f, err := m.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	if err := m.syncDir(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncDir syncs the directory that holds a file.
func (m markerFS) syncDir(name string) error {
	dir, err := m.OpenDir(m.PathDir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Unwrap implements [vfs.FS].
func (m markerFS) Unwrap() vfs.FS { return m.FS }
