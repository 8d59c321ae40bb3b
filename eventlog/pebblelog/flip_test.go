package pebblelog

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agstore/agstore/eventlog"
)

// flipped opens a store of these files and verifies it, and says what was found;
// empty: nothing, and it reads as it must.
func flipped(t *testing.T, files map[string][]byte, reads []byte) (found string) {
	t.Helper()
	fs := memoryOf(t, files)
	l, err := Open("store", Options{FS: fs, Now: func() time.Time { return fixtureLater }})
	if err != nil {
		return "open: " + err.Error()
	}
	defer l.Close()
	for f, err := range l.Verify(context.Background(), eventlog.VerifyOptions{}) {
		if err != nil {
			return "verify: " + err.Error()
		}
		return string(f.Kind)
	}
	if got := describeStore(t, l); !bytes.Equal(got, reads) {
		return "" // the caller compares
	}
	return "same"
}

// silence says why a flipped byte of a file may be found by nobody: it has no
// meaning, and what the store says is the same. Of all other files every byte
// has one.
func silence(name string) string {
	switch {
	case name == ownerFile:
		return "it is for people; a witness that cannot be read is none"
	case strings.HasPrefix(name, "OPTIONS-"):
		return "the engine writes it for tools and compares little of it; the options are the program's"
	case strings.HasSuffix(name, ".sst"):
		return "the footer's and the properties' bytes that only tools read; or the engine reads it the same"
	case strings.HasSuffix(name, ".log"):
		return "of a write-ahead log whose commits are in tables already"
	case strings.HasPrefix(name, "MANIFEST-"):
		return "of the last entry: an entry that was not finished; what it said is found again in the write-ahead log"
	}
	return ""
}

// Whatever byte of a closed store is flipped, opening or verifying finds it, or
// the store reads as before. AGSTORE_LONG=1 flips every one.
func TestFlippedBytes(t *testing.T) {
	fs := memoryOf(t, fixtureFiles(t, 1))
	opts := Options{FS: fs, Now: func() time.Time { return fixtureLater }}
	l := fixtureOpen(t, opts)
	reads := describeStore(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files := readFiles(t, fs, "store")
	delete(files, "LOCK")
	step := 131
	if os.Getenv("AGSTORE_LONG") != "" {
		step = 1
	}
	total, quiet := 0, make(map[string]int)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if len(files[name]) == 0 {
			continue
		}
		for at := total % step; at < len(files[name]); at += step {
			total++
			bad := maps.Clone(files)
			bad[name] = bytes.Clone(files[name])
			bad[name][at] ^= 1 << (at % 8)
			switch found := flipped(t, bad, reads); {
			case found == "":
				t.Errorf("%s byte %s: nobody finds it, and the store says something else", name, strconv.Itoa(at))
			case found == "same" && silence(name) == "":
				t.Errorf("%s byte %d: nobody finds it", name, at)
			case found == "same":
				quiet[name]++
			}
		}
	}
	t.Log(total, "bytes flipped; without a meaning:", fmt.Sprint(quiet))
}
