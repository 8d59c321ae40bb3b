package pebblelog

import (
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// within reports whether a directory, which need not be there yet, is another one
// or lies inside it. On a disk links are followed: what counts is where the files
// would be.
func within(disk vfs.FS, dir, outer string) (bool, error) {
	if disk != vfs.Default {
		return inside(filepath.Clean(dir), filepath.Clean(outer)), nil
	}
	dir, err := resolved(dir)
	if err != nil {
		return false, err
	}
	outer, err = resolved(outer)
	return err == nil && inside(dir, outer), err
}

func inside(dir, outer string) bool {
	rel, err := filepath.Rel(outer, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// resolved is an absolute path without links, as far as it can be looked at. The
// rest stays as it is written.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for there, rest := path, ""; ; there, rest = filepath.Dir(there), filepath.Join(filepath.Base(there), rest) {
		real, err := filepath.EvalSymlinks(there)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if filepath.Dir(there) == there {
			return path, nil
		}
	}
}
