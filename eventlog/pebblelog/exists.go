package pebblelog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Exists reports whether a store was made in dir. It changes nothing, and the
// store may be in use.
func Exists(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
