package pebblelog

import (
	"bytes"
	"context"
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
// has one. newest is the manifest that holds.
//
// Every 7th byte of the kept store of format 2 was flipped once, 1,932 of them;
// 564 were found by nobody. Those were: every one of a write-ahead log whose
// commits are in tables (137) and of a manifest that holds no more (27), those of
// the last entry of the one that holds (10), of options (374), and of the owner
// file (16). Of tables every one was found; their class is for the bytes between.
func silence(name, newest string) string {
	switch {
	case name == ownerFile:
		return "it is for people; a witness that cannot be read is none"
	case strings.HasPrefix(name, "OPTIONS-"):
		return "the engine writes it for tools and compares little of it; the options are the program's"
	case strings.HasSuffix(name, ".sst"):
		return "the footer's and the properties' bytes that only tools read; or the engine reads it the same"
	case strings.HasSuffix(name, ".log"):
		return "of a write-ahead log whose commits are in tables already"
	case strings.HasPrefix(name, "MANIFEST-") && name < newest:
		return "of a manifest that another has taken the place of"
	case strings.HasPrefix(name, "MANIFEST-"):
		return "of the last entry: an entry that was not finished; what it said is found again in the write-ahead log"
	}
	return ""
}

// Whatever byte of a closed store is flipped, opening or verifying finds it, or
// the store reads as before. AGSTORE_FLIPS=N flips every Nth one of them, 1 all.
func TestFlippedBytes(t *testing.T) {
	fs := memoryOf(t, fixtureFiles(t, FormatLifecycle))
	opts := Options{FS: fs, Now: func() time.Time { return fixtureLater }}
	l := fixtureOpen(t, opts)
	reads := describeStore(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files := readFiles(t, fs, "store")
	delete(files, "LOCK")
	step := 131
	if every := os.Getenv("AGSTORE_FLIPS"); every != "" {
		var err error
		if step, err = strconv.Atoi(every); err != nil || step < 1 {
			t.Fatalf("AGSTORE_FLIPS is %q, not a number of bytes", every)
		}
	}
	newest := ""
	for name := range files {
		if strings.HasPrefix(name, "MANIFEST-") {
			newest = max(newest, name)
		}
	}
	total, quiet := 0, make(map[string][]int)
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
			case found == "same" && silence(name, newest) == "":
				t.Errorf("%s byte %d: nobody finds it", name, at)
			case found == "same":
				quiet[name] = append(quiet[name], at)
			}
		}
	}
	for name, at := range quiet {
		t.Logf("%s, %d bytes, nobody finds %d: %s: %v", name, len(files[name]), len(at), silence(name, newest), at)
	}
	t.Log(total, "bytes flipped")
}
