package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
)

// injected fails calls of the file system as the system would: with an error
// that names the file.
type injected func(kind errorfs.OpKind, base string) error

func (injected) String() string { return "injected" }

func (i injected) MaybeError(op errorfs.Op) error {
	err := i(op.Kind, filepath.Base(op.Path))
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "test", Path: op.Path, Err: err}
}

// of fails what is done to files whose names match, other than looking at them.
func (match pattern) fails(err error) injected {
	return func(kind errorfs.OpKind, base string) error {
		if kind != errorfs.OpStat && kind != errorfs.OpFileClose && match.is(base) {
			return err
		}
		return nil
	}
}

// pattern is one of [path/filepath.Match].
type pattern string

func (match pattern) is(name string) bool {
	ok, _ := filepath.Match(string(match), name)
	return ok
}

// left is a directory as a store left it.
type left map[string][]byte

// find gives the last file by name that matches.
func (l left) find(t *testing.T, match pattern) string {
	t.Helper()
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(l))) {
		if match.is(name) {
			return name
		}
	}
	t.Fatalf("no %s among %v", match, slices.Sorted(maps.Keys(l)))
	return ""
}

// first gives the first one.
func (l left) first(t *testing.T, match pattern) string {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if match.is(name) {
			return name
		}
	}
	t.Fatalf("no %s", match)
	return ""
}

func pile(t *testing.T, l *Log, thread string, events int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(events)))
	for range events {
		var value strings.Builder
		for value.Len() < 10000 { // which no compression makes small
			fmt.Fprintf(&value, "%016x", rng.Uint64())
		}
		event := []byte(`{"type":"CUSTOM","name":"x","value":"` + value.String() + `"}`)
		if _, err := l.Append(context.Background(), eventlog.ThreadKey{Scope: "s", Thread: thread}, eventlog.Batch{Events: [][]byte{event}}); err != nil {
			t.Fatal(err)
		}
	}
}

// leftClosed is a store that was closed; leftKilled one whose process died, with
// a table and a write-ahead log of 12 records in four blocks; leftBehind one
// that died while the flush of an earlier log was under way.
func leftClosed(t *testing.T) left { return leftBy(t, true) }
func leftKilled(t *testing.T) left { return leftBy(t, false) }

func leftBy(t *testing.T, closed bool) left {
	t.Helper()
	disk := vfs.NewCrashableMem()
	l := fixtureOpen(t, Options{FS: disk})
	pile(t, l, "t", 5)
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	pile(t, l, "t", 12)
	killed := disk.CrashClone(vfs.CrashCloneCfg{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !closed {
		disk = killed
	}
	return readFiles(t, disk, "store")
}

func leftBehind(t *testing.T) left {
	t.Helper()
	disk := vfs.NewCrashableMem()
	var stuck atomic.Bool
	goOn := make(chan struct{})
	wait := injected(func(kind errorfs.OpKind, base string) error {
		if stuck.Load() && kind == errorfs.OpCreate && pattern("*.sst").is(base) {
			<-goOn
		}
		return nil
	})
	opts := Options{FS: errorfs.Wrap(disk, wait)}.WithEngine(func(o *pebble.Options) { o.MemTableSize = 256 << 10 })
	l := fixtureOpen(t, opts)
	pile(t, l, "t", 5)
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	stuck.Store(true)
	pile(t, l, "t", 12)
	for before := l.traffic.log(); l.traffic.log() == before; {
		pile(t, l, "more", 1)
	}
	pile(t, l, "more", 3)
	killed := disk.CrashClone(vfs.CrashCloneCfg{})
	close(goOn)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return readFiles(t, killed, "store")
}

// openFault is something that keeps a store from being opened.
type openFault struct {
	name  string
	from  func(*testing.T) left
	spoil func(*testing.T, left)
	fails injected
	is    error
	says  string // in the error: which file
	hint  string // what to do
	// late: it shows only when the engine has been opened, and has put what the
	// write-ahead logs held into tables.
	late bool
	// mended: a repair makes it a store again.
	mended bool
}

func without(match pattern) func(*testing.T, left) {
	return func(t *testing.T, l left) { delete(l, l.find(t, match)) }
}

func renamed(match pattern, to string) func(*testing.T, left) {
	return func(t *testing.T, l left) {
		name := l.find(t, match)
		l[to] = l[name]
		delete(l, name)
	}
}

func changed(match pattern, change func([]byte) []byte) func(*testing.T, left) {
	return func(t *testing.T, l left) {
		name := l.find(t, match)
		l[name] = change(bytes.Clone(l[name]))
	}
}

func changedFirst(match pattern, change func([]byte) []byte) func(*testing.T, left) {
	return func(t *testing.T, l left) {
		name := l.first(t, match)
		for _, one := range slices.Sorted(maps.Keys(l)) {
			if match.is(one) && len(l[one]) > 100<<10 { // not one whose commits are in tables already
				name = one
				break
			}
		}
		if text := change(bytes.Clone(l[name])); text != nil {
			l[name] = text
		} else {
			delete(l, name)
		}
	}
}

func empty([]byte) []byte      { return []byte{} }
func gone([]byte) []byte       { return nil }
func half(b []byte) []byte     { return b[:len(b)/2] }
func page(b []byte) []byte     { clear(b[40<<10 : 44<<10]); return b }
func blockOut(b []byte) []byte { return slices.Delete(b, 32<<10, 64<<10) }
func flip(b []byte) []byte     { b[len(b)/3] ^= 0x40; return b }

func comparer(b []byte) []byte { return bytes.Replace(b, []byte("leveldb."), []byte("leveldc."), 1) }

func refuseWrites(err error) injected {
	return func(kind errorfs.OpKind, _ string) error {
		if kind.ReadOrWrite() == errorfs.OpIsWrite && kind != errorfs.OpFileClose {
			return err
		}
		return nil
	}
}

func noRoom(kind errorfs.OpKind, _ string) error {
	if kind == errorfs.OpFileWrite || kind == errorfs.OpFilePreallocate {
		return syscall.ENOSPC
	}
	return nil
}

var openFaults = []openFault{
	{name: "DirectoryMayNotBeRead", fails: pattern("store").fails(syscall.EACCES), is: fs.ErrPermission, says: "store", hint: "the right to read and write store"},
	{name: "TableMayNotBeRead", fails: pattern("*.sst").fails(syscall.EACCES), is: fs.ErrPermission, says: ".sst", hint: "the right to read", late: true},
	{name: "ManifestMayNotBeRead", fails: pattern("MANIFEST-*").fails(syscall.EACCES), is: fs.ErrPermission, says: "MANIFEST-", hint: "the right to read"},
	{name: "LogMayNotBeRead", fails: pattern("*.log").fails(syscall.EACCES), is: fs.ErrPermission, says: ".log", hint: "the right to read"},
	{name: "OptionsMayNotBeRead", fails: pattern("OPTIONS-*").fails(syscall.EACCES), is: fs.ErrPermission, says: "OPTIONS-", hint: "the right to read"},
	{name: "LockMayNotBeOpened", fails: pattern("LOCK").fails(syscall.EACCES), is: fs.ErrPermission, says: "LOCK", hint: "the right to read and write"},
	{name: "OwnerMayNotBeRead", fails: pattern("owner.json").fails(syscall.EACCES), is: fs.ErrPermission, says: "owner.json", hint: "the right to read"},
	{name: "ReadOnlyFileSystem", fails: refuseWrites(syscall.EROFS), is: syscall.EROFS, says: "store", hint: "mount it for writing"},
	{name: "FullDisk", fails: noRoom, is: eventlog.ErrNoSpace, says: "store", hint: "make space on the disk that holds store"},
	{name: "DiskDoesNotRead", fails: func(kind errorfs.OpKind, _ string) error {
		if kind == errorfs.OpFileRead || kind == errorfs.OpFileReadAt {
			return syscall.EIO
		}
		return nil
	}, is: eventlog.ErrUnavailable, says: "store", hint: "check the disk that holds store"},
	{name: "TooManyOpenFiles", fails: pattern("MANIFEST-*").fails(syscall.EMFILE), is: syscall.EMFILE, says: "MANIFEST-", hint: "more files open"},

	{name: "TableMissing", spoil: without("*.sst"), is: eventlog.ErrCorrupt, says: "000007", hint: "restore a backup"},
	{name: "TableEmpty", spoil: changed("*.sst", empty), is: eventlog.ErrCorrupt, says: "000007.sst", hint: "restore a backup"},
	{name: "TableCut", spoil: changed("*.sst", half), is: eventlog.ErrCorrupt, says: "000007.sst", hint: "restore a backup"},
	{name: "ManifestMissing", spoil: without("MANIFEST-*"), is: eventlog.ErrCorrupt, says: "MANIFEST-", hint: "restore a backup"},
	{name: "ManifestFlipped", spoil: changed("MANIFEST-*", flip), is: eventlog.ErrCorrupt, says: "MANIFEST-", hint: "restore a backup"},
	{name: "ManifestEndFlippedOfAClosedStore", from: leftClosed, spoil: changed("MANIFEST-*", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), is: eventlog.ErrCorrupt, says: "MANIFEST-", hint: "restore a backup"},
	{name: "ManifestMarkerMissing", spoil: without("marker.manifest.*"), is: eventlog.ErrCorrupt, says: "marker.manifest.", hint: "restore a backup"},
	{name: "ManifestMarkerGarbled", spoil: renamed("marker.manifest.*", "marker.manifest.garbled"), is: eventlog.ErrCorrupt, says: "garbled", hint: "restore a backup"},
	{name: "ManifestMarkerLeadsNowhere", spoil: renamed("marker.manifest.*", "marker.manifest.000009.MANIFEST-000099"), is: eventlog.ErrCorrupt, says: "MANIFEST-000099", hint: "restore a backup"},
	{name: "FormatMarkerMissing", spoil: without("marker.format-version.*"), is: eventlog.ErrCorrupt, says: "marker.format-version.", hint: "restore a backup"},
	{name: "FormatMarkerGarbled", spoil: renamed("marker.format-version.*", "marker.format-version.000009.x"), is: eventlog.ErrCorrupt, says: "format", hint: "restore a backup"},
	{name: "NewerEngine", spoil: renamed("marker.format-version.*", "marker.format-version.000099.999"), is: eventlog.ErrVersion, says: "999", hint: "a newer one"},
	{name: "OptionsCut", spoil: changed("OPTIONS-*", half), is: eventlog.ErrCorrupt, says: "OPTIONS-", hint: "agstore verify --repair", mended: true},
	{name: "OptionsOfAnother", spoil: changed("OPTIONS-*", comparer), is: eventlog.ErrCorrupt, says: "OPTIONS-", hint: "agstore verify --repair", mended: true},

	{name: "LogMissing", spoil: without("*.log"), is: eventlog.ErrCorrupt, says: "000006.log", hint: "remove owner.json"},
	{name: "LogEmpty", spoil: changed("*.log", empty), is: eventlog.ErrCorrupt, says: "position", hint: "remove owner.json", late: true},
	{name: "LogFlipped", spoil: changed("*.log", flip), is: eventlog.ErrCorrupt, says: "WAL", hint: "restore a backup"},
	{name: "LogPageOfZeros", spoil: changed("*.log", page), is: eventlog.ErrCorrupt, says: "WAL", hint: "restore a backup"},
	{name: "LogBlockTakenOut", spoil: changed("*.log", blockOut), is: eventlog.ErrCorrupt, says: "not what was written", hint: "restore a backup"},
	{name: "EarlierLogMissing", from: leftBehind, spoil: changedFirst("*.log", gone), is: eventlog.ErrCorrupt, says: "are missing", hint: "remove owner.json", late: true},
	{name: "EarlierLogEmpty", from: leftBehind, spoil: changedFirst("*.log", empty), is: eventlog.ErrCorrupt, says: "are missing", hint: "remove owner.json", late: true},
	{name: "EarlierLogCut", from: leftBehind, spoil: changedFirst("*.log", half), is: eventlog.ErrCorrupt, says: "WAL", hint: "restore a backup"},
}

// What keeps a store from being opened is told: what it is, where, and what to
// do. The refused open changes nothing, so that with the fault undone the store
// is what it was; and the directory is not left locked.
func TestOpenFaults(t *testing.T) {
	bases := make(map[uintptr]left)
	for _, fault := range openFaults {
		t.Run(fault.name, func(t *testing.T) {
			from := fault.from
			if from == nil {
				from = leftKilled
			}
			key := reflect.ValueOf(from).Pointer()
			if bases[key] == nil {
				bases[key] = from(t)
			}
			sound := bases[key]
			files := maps.Clone(sound)
			if fault.spoil != nil {
				fault.spoil(t, files)
			}
			disk := memoryOf(t, files)
			opts := Options{FS: disk}
			if fault.fails != nil {
				opts.FS = errorfs.Wrap(disk, fault.fails)
			}
			for range 2 {
				refusesOpen(t, opts, fault)
			}
			after := left(readFiles(t, disk, "store"))
			if !fault.late {
				sameFiles(t, after, files)
			}
			for name := range files {
				if _, there := after[name]; !there {
					t.Errorf("the refused open has removed %s", name)
				}
			}
			if fault.mended {
				repairsOptions(t, disk, sound)
			} else if fault.spoil == nil {
				holdsAll(t, disk, sound)
			} else if !fault.late {
				holdsAll(t, memoryOf(t, sound), sound)
			}
		})
	}
}

func refusesOpen(t *testing.T, opts Options, fault openFault) {
	t.Helper()
	l, err := Open("store", opts)
	if err == nil {
		t.Errorf("it was opened; close: %v", l.Close())
		return
	}
	var e *eventlog.Error
	if !errors.As(err, &e) || !errors.Is(err, fault.is) {
		t.Errorf("it says %v, and should be %v", err, fault.is)
		return
	}
	if !strings.Contains(e.Error(), fault.says) || !strings.Contains(e.Hint, fault.hint) {
		t.Errorf("it says %q with the hint %q, and should name %q and %q", e.Error(), e.Hint, fault.says, fault.hint)
	}
	if strings.Contains(e.Hint, "reads go on") {
		t.Errorf("nothing is open, and the hint is %q", e.Hint)
	}
}

func sameFiles(t *testing.T, got, want left) {
	t.Helper()
	for name := range got {
		if text, there := want[name]; !there || !bytes.Equal(text, got[name]) {
			t.Errorf("the refused open has written %s (it was there: %v)", name, there)
		}
	}
}

// holdsAll opens a store and compares its records with those of another.
func holdsAll(t *testing.T, disk vfs.FS, sound left) {
	t.Helper()
	count := func(disk vfs.FS) (n int) {
		l, err := Open("store", Options{FS: disk})
		if err != nil {
			t.Fatalf("with the fault undone: %v", err)
		}
		defer l.Close()
		for _, err := range l.Commits(t.Context(), 1) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		clean(t, l)
		return n
	}
	if got, want := count(disk), count(memoryOf(t, sound)); got != want || want < 17 {
		t.Errorf("%d commits, there were %d", got, want)
	}
}

func repairsOptions(t *testing.T, disk *vfs.MemFS, sound left) {
	t.Helper()
	told := false
	for f, err := range VerifyDir(t.Context(), "store", Options{FS: disk}, eventlog.VerifyOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		told = told || strings.Contains(f.String(), "OPTIONS-")
	}
	if !told {
		t.Error("verify says nothing of it")
	}
	out := mended(t, disk)
	if len(out) != 1 || !strings.Contains(out[0].Fault.Place, "OPTIONS-") || out[0].Action == "" || !out[0].Fault.Derived {
		t.Errorf("mended: %+v", out)
	}
	holdsAll(t, disk, sound)
}

// What is missing of a store that was closed in order, and holds nothing, keeps
// it from nothing.
func TestOpensWithout(t *testing.T) {
	sound := leftClosed(t)
	for _, match := range []pattern{"*.log", "OPTIONS-*", "LOCK"} {
		files := maps.Clone(sound)
		maps.DeleteFunc(files, func(name string, _ []byte) bool { return match.is(name) })
		holdsAll(t, memoryOf(t, files), sound)
	}
}

// To go on with what is left is the operator's word: without the owner file, a
// store whose log is gone is opened.
func TestGoOnWithWhatIsLeft(t *testing.T) {
	files := leftKilled(t)
	without("*.log")(t, files)
	delete(files, ownerFile)
	l := fixtureOpen(t, Options{FS: memoryOf(t, files)})
	if th, err := l.Thread(t.Context(), eventlog.ThreadKey{Scope: "s", Thread: "t"}); err != nil || th.LastSeq != 5 {
		t.Errorf("what was in tables: %+v, %v", th, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A file is where the directory should be.
func TestOpenOverAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, Options{})
	var e *eventlog.Error
	if !errors.As(err, &e) || !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), path) || e.Hint == "" {
		t.Errorf("%v (%+v)", err, e)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// A disk that is full when the store is closed is told; what was acknowledged is
// there, and the directory is free.
func TestCloseFaults(t *testing.T) {
	for _, fault := range []struct {
		name  string
		fails injected
		is    error
		hint  string
	}{
		{"Full", noRoom, eventlog.ErrNoSpace, "make space"},
		{"ReadOnly", refuseWrites(syscall.EROFS), syscall.EROFS, "mount it for writing"},
		{"NotPermitted", refuseWrites(syscall.EACCES), fs.ErrPermission, "the right to read and write"},
		{"Broken", refuseWrites(syscall.EIO), eventlog.ErrUnavailable, "check the disk"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			disk := vfs.NewCrashableMem()
			var on atomic.Bool
			opts := Options{FS: errorfs.Wrap(disk, injected(func(kind errorfs.OpKind, base string) error {
				if !on.Load() {
					return nil
				}
				return fault.fails(kind, base)
			}))}
			l := fixtureOpen(t, opts)
			pile(t, l, "t", 5)
			on.Store(true)
			err := l.Close()
			var e *eventlog.Error
			if !errors.As(err, &e) || !errors.Is(err, fault.is) || !strings.Contains(e.Hint, fault.hint) || !strings.Contains(e.Hint, "acknowledged") {
				t.Errorf("close says %v, hint %q", err, e.Hint)
			}
			on.Store(false)
			l = fixtureOpen(t, opts)
			defer l.Close()
			if th, err := l.Thread(t.Context(), eventlog.ThreadKey{Scope: "s", Thread: "t"}); err != nil || th.LastSeq != 5 {
				t.Errorf("%+v, %v", th, err)
			}
			clean(t, l)
		})
	}
}

// A block that cannot be read ends the read where it is, with the seq, the cause
// and what to do; what came before was right, and what comes behind can be read
// from there once the disk reads again.
func TestReadFaults(t *testing.T) {
	const records = 200
	disk := vfs.NewMem()
	var reads atomic.Int64 // until one fails; negative: it and all behind it
	reads.Store(1 << 40)
	opts := Options{CacheBytes: 64 << 10, FS: errorfs.Wrap(disk, injected(func(kind errorfs.OpKind, base string) error {
		if kind == errorfs.OpFileReadAt && pattern("*.sst").is(base) && reads.Add(-1) < 0 {
			return syscall.EIO
		}
		return nil
	}))}
	l := fixtureOpen(t, opts)
	defer l.Close()
	pile(t, l, "t", records)
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	key := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	within := false
	for _, after := range []int64{0, 1, 5, 20} {
		reads.Store(after)
		last, failed := uint64(0), error(nil)
		for r, err := range l.Read(t.Context(), key, eventlog.ReadOptions{}) {
			if failed != nil {
				t.Error("it goes on behind an error")
			}
			if failed = err; err != nil {
				continue
			}
			if last++; r.Seq != last || len(r.Event) < 10000 {
				t.Errorf("seq %d where %d was due, %d bytes", r.Seq, last, len(r.Event))
			}
		}
		reads.Store(1 << 40)
		within = within || last > 0 && last < records
		var e *eventlog.Error
		if !errors.As(failed, &e) || !errors.Is(failed, eventlog.ErrUnavailable) || !errors.Is(failed, syscall.EIO) ||
			!strings.Contains(failed.Error(), ".sst") || e.Hint == "" || last > 0 && e.Seq != last+1 {
			t.Errorf("after %d reads and %d records: %v, %+v", after, last, failed, e)
		}
		for r, err := range l.Read(t.Context(), key, eventlog.ReadOptions{From: last + 1}) {
			if last++; err != nil || r.Seq != last {
				t.Fatalf("seq %d where %d was due: %v", r.Seq, last, err)
			}
		}
		if last != records {
			t.Errorf("%d of %d records", last, records)
		}
	}
	if !within {
		t.Error("no read failed in the middle")
	}
	if _, err := l.Append(t.Context(), key, eventlog.Batch{Events: [][]byte{custom(1)}}); err != nil {
		t.Errorf("a failed read keeps nobody from writing: %v", err)
	}
}

// A write-ahead log that an engine only believes to have created, since its disk
// has failed, is not asked for by the next open.
func TestNoticesNoLogOfAFailedEngine(t *testing.T) {
	disk := vfs.NewMem()
	l := fixtureOpen(t, Options{FS: disk})
	inUse := l.traffic.log()
	set := func(wal uint64, err error) {
		l.traffic.note(func() { l.traffic.wal = wal })
		l.gate.mu.Lock()
		defer l.gate.mu.Unlock()
		l.gate.err = err
	}
	set(99, syscall.EIO)
	l.notice()
	if got := readOwner("store", disk).Log; got != inUse {
		t.Errorf("the log in use is %d, and the owner file asks for %d", inUse, got)
	}
	set(inUse+1, nil)
	l.notice()
	if got := readOwner("store", disk).Log; got != inUse+1 {
		t.Errorf("the owner file asks for %d", got)
	}
	set(inUse, nil)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
