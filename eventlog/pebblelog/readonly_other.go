//go:build !unix

package pebblelog

// lockedByAnother cannot be known here: a file that is locked cannot be opened.
func lockedByAnother(string) (bool, error) { return false, nil }
