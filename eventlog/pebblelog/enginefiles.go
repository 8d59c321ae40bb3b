package pebblelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

// What is looked at before the engine is let into its directory: it would take a
// directory without one of these files for another state of the store, and go on
// from that, or refuse it in words that name no file.

const (
	manifestMarker = markerPrefix + "manifest."
	formatMarker   = markerPrefix + "format-version."
	optionsPrefix  = "OPTIONS-"
	logSuffix      = ".log"
)

// optionsError is that of an OPTIONS file that the engine refuses. All that it
// says follows from this program, so that it can be removed.
type optionsError struct {
	file string
	err  error
}

func (e *optionsError) Error() string   { return e.file + ": " + e.err.Error() }
func (e *optionsError) Unwrap() []error { return []error{errDamaged, e.err} }

// undamaged refuses a directory that has files of a store but lacks one without
// which the engine goes wrong.
func undamaged(files vfs.FS, dir string, w witness) error {
	names, err := files.List(dir)
	if err != nil {
		return named("list", dir, err)
	}
	if err := marked(dir, names); err != nil {
		return err
	}
	if err := engineVersion(names); err != nil {
		return err
	}
	if err := w.logged(dir, names); err != nil {
		return err
	}
	if err := soundManifest(files, dir, names, w.Closed); err != nil {
		return err
	}
	return soundOptions(files, dir, names)
}

// marked refuses a directory without the marker that names its MANIFEST: the
// engine would take it for empty, and remove what is there.
func marked(dir string, names []string) error {
	store := ""
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, manifestMarker):
			return nil
		case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, logSuffix),
			strings.HasPrefix(name, optionsPrefix), strings.HasPrefix(name, formatMarker):
			store = name
		}
	}
	if store == "" {
		return nil
	}
	return fmt.Errorf("%w: %s has %s, but no %s*", errDamaged, dir, store, manifestMarker)
}

// engineVersion refuses what a newer engine has written. A marker that is none
// is the engine's to refuse.
func engineVersion(names []string) error {
	version, _ := strconv.Atoi(markedValue(names, formatMarker))
	if known := int(pebble.FormatNewest); version > known {
		return &eventlog.VersionError{What: "files of the engine", Found: version, Known: known}
	}
	return nil
}

// markedValue is what the latest marker of a kind says.
func markedValue(names []string, kind string) string {
	latest, out := "", ""
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, kind)
		number, value, dotted := strings.Cut(rest, ".")
		if ok && dotted && number > latest { // numbers have leading zeros
			latest, out = number, value
		}
	}
	return out
}

// soundManifest refuses a MANIFEST that is damaged. The engine would take it for
// one that ends there, and remove the tables that the rest names. It can end in
// the middle of a record, if its process was killed: what was not synced is
// missing then. But no record is written before the one in front of it is synced.
func soundManifest(files vfs.FS, dir string, names []string, closed bool) error {
	name := markedValue(names, manifestMarker)
	if !slices.Contains(names, name) {
		return nil // which the engine refuses
	}
	path := files.PathJoin(dir, name)
	text, err := contents(files, path)
	if err != nil {
		return err
	}
	r := record.NewReader(bytes.NewReader(text), 0)
	at := 0 // behind the last record that is whole
	for err == nil {
		var one io.Reader
		at = int(r.Offset())
		if one, err = r.Next(); err == nil {
			_, err = io.Copy(io.Discard, one)
		}
	}
	if err == io.EOF || !record.IsInvalidRecord(err) {
		return nil
	}
	if closed || beginsLater(text, at) {
		return fmt.Errorf("%w: %s from byte %d on: %w", errDamaged, path, at, err)
	}
	return nil
}

// beginsLater reports whether a record begins behind a place in a file of the
// engine's records: blocks of 32 KB with chunks of a checksum, a size and a kind,
// of which the first of a record has its own.
func beginsLater(text []byte, at int) bool {
	const blockSize, headerSize, full, first = 32 << 10, 7, 1, 2
	table := crc32.MakeTable(crc32.Castagnoli)
	for i := at + 1; i+headerSize <= len(text); i++ {
		size, kind := int(binary.LittleEndian.Uint16(text[i+4:])), text[i+6]
		end := i + headerSize + size
		if kind != full && kind != first || end > len(text) || i%blockSize+headerSize+size > blockSize {
			continue
		}
		sum := crc32.Checksum(text[i+6:end], table)
		if binary.LittleEndian.Uint32(text[i:]) == bits.RotateLeft32(sum, -15)+0xa282ead8 {
			return true
		}
	}
	return false
}

// contents reads a file.
func contents(files vfs.FS, path string) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, named("open", path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, named("read", path, err)
	}
	return text, nil
}

// logged refuses a directory without the write-ahead log that the store had when
// it was opened last, or a later one: a killed process has left what it wrote
// last in there and nowhere else.
func (w witness) logged(dir string, names []string) error {
	if w.Log == 0 {
		return nil
	}
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, logSuffix)
		if number, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && number >= w.Log {
			return nil
		}
	}
	return fmt.Errorf("%w: %s has no write-ahead log %06d%s and none behind it", errNoLog, dir, w.Log, logSuffix)
}

// soundOptions reads the latest OPTIONS file as the engine will.
func soundOptions(files vfs.FS, dir string, names []string) error {
	name, latest := "", uint64(0)
	for _, one := range names {
		digits, ok := strings.CutPrefix(one, optionsPrefix)
		if number, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && number >= latest {
			name, latest = one, number
		}
	}
	if name == "" {
		return nil // the engine goes on without one
	}
	path := files.PathJoin(dir, name)
	text, err := contents(files, path)
	if err != nil {
		return err
	}
	o := &pebble.Options{FS: files}
	o.EnsureDefaults()
	if err := o.CheckCompatibility(dir, string(text)); err != nil {
		return &optionsError{path, err}
	}
	return nil
}

// mendOptions removes OPTIONS files that the engine refuses. It writes a new one
// whenever it is opened.
func (l *Log) mendOptions(yield func(eventlog.Mended, error) bool) error {
	for {
		err := undamaged(l.opts.FS, l.dir, l.witness)
		var bad *optionsError
		if !errors.As(err, &bad) {
			return err
		}
		if err := l.opts.FS.Remove(bad.file); err != nil {
			return named("remove", bad.file, err)
		}
		fault := eventlog.Fault{Kind: eventlog.FaultBlock, Place: "file " + bad.file, Detail: wording(bad.err), Derived: true}
		if !yield(eventlog.Mended{Fault: fault, Action: "removed it: the engine writes another when it is opened"}, nil) {
			return errStopped
		}
	}
}

// replayed refuses a log from whose middle commits are missing: of several
// write-ahead logs that a killed process has left, one that is not the last has
// lost its end, or is gone. Only commits that were not yet in tables then can be
// missing, so that not many need be looked at.
func (l *Log) replayed() error {
	first := l.witness.Opened + 1
	if l.position > replayCommits {
		first = max(first, l.position-replayCommits)
	}
	next := first
	err := l.scanFrom(commitKey(first), after([]byte{prefixCommit}), func(key, _ []byte) error {
		if at := commitPosition(key); at != next {
			return fmt.Errorf("%w: commits %d to %d are missing", errHole, next, at-1)
		}
		next++
		return nil
	})
	return err
}

// replayCommits is more commits than the write-ahead logs of one process hold,
// unless most of them are of a few bytes.
const replayCommits = 1 << 16
