package pebblelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gate is the file system as one engine handle sees it. It keeps the engine
// from meeting an error of its directory in a place where it would end the
// process (a write-ahead log that cannot be closed or created, a directory that
// cannot be synced), retry for ever (a flush), or remove what it takes for
// unused (the tables of a compaction whose MANIFEST entry may have been
// written). From the first such error on nothing that this handle does changes
// the disk:
//
//   - Its write-ahead log takes everything and keeps nothing. So it never says
//     that a sync failed: who waits for one must ask lost afterwards.
//   - A flush or compaction waits where it is until the handle is to be closed,
//     and then gets the error.
//   - What it removes stays; the next open finds what is in no use.
//
// While a handle is being opened everything is taken and kept nowhere after an
// error, so that opening ends: the engine repeats a flush without end there.
// The opener asks arm.
type gate struct {
	vfs.FS
	dir  string
	tell func(error) // of the first error after opening; must not block

	mu       sync.Mutex
	phase    gatePhase
	err      error // the first
	wal      bool  // the write-ahead log is one of its victims
	waiting  int   // calls that wait for the handle to be closed
	released chan struct{}
	holding  bool     // nothing is removed until letGo
	left     []string // files that could not be removed, or were not yet
}

type gatePhase uint8

const (
	gateOpening gatePhase = iota
	gateRunning
	gateReleased // the handle is about to be closed
	gateReadOnly
)

var errReadOnlyHandle = errors.New("the store is open for reading only")

func newGate(fs vfs.FS, dir string, tell func(error)) *gate {
	// As the engine spells it: the directory of what is in it.
	dir = fs.PathDir(fs.PathJoin(dir, "x"))
	return &gate{FS: fs, dir: dir, tell: tell, holding: true, released: make(chan struct{})}
}

// arm ends the opening of a handle: it gives the error that was kept from it.
func (g *gate) arm() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil && g.phase == gateOpening {
		g.phase = gateRunning
	}
	return g.err
}

// release lets what waits go on with its error. The handle must be closed next.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase == gateOpening || g.phase == gateRunning {
		g.phase = gateReleased
		close(g.released)
	}
}

// lost is why what was written to the write-ahead log may not be durable,
// whatever the engine says of its syncs.
func (g *gate) lost() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wal {
		return g.err
	}
	return nil
}

// note takes an error in. The first is told.
func (g *gate) note(op, path string, err error, wal bool) error {
	g.mu.Lock()
	first := g.err == nil
	if first {
		g.err = named(op, path, err)
	}
	g.wal = g.wal || wal || g.phase == gateOpening
	err = g.err
	tell := first && g.phase != gateOpening
	g.mu.Unlock()
	if tell {
		g.tell(err)
	}
	return err
}

// named says which file it was, unless the error does.
func named(op, path string, err error) error {
	var known *fs.PathError
	if errors.As(err, &known) && known.Path == path {
		return err
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}

// verdict is what becomes of a change of the directory.
type verdict uint8

const (
	do     verdict = iota
	sink           // it is to look as if it were done
	refuse         // it is to fail
)

func (g *gate) judge(wal bool) (verdict, error) {
	g.mu.Lock()
	phase, err, lost := g.phase, g.err, g.wal
	g.mu.Unlock()
	switch {
	case phase == gateReadOnly:
		return refuse, errReadOnlyHandle
	case err == nil:
		return do, nil
	case phase == gateOpening, wal && lost:
		return sink, nil
	case wal:
		return do, nil
	}
	g.wait()
	return refuse, err
}

// wait waits for the release.
func (g *gate) wait() {
	count := func(n int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting += n
	}
	count(1)
	<-g.released
	count(-1)
}

// restless reports whether something in the engine waits for the disk, or would
// be repeated without end.
func (g *gate) restless() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.phase == gateRunning && (g.waiting > 0 || !g.wal)
}

// change does a change of the directory, or not.
func (g *gate) change(op, path string, wal bool, change func() error) error {
	what, err := g.judge(wal)
	if what != do {
		return err
	}
	if err = change(); err == nil {
		return nil
	}
	err = g.note(op, path, err, wal)
	if what, _ = g.judge(wal); what == sink {
		return nil
	}
	return err
}

// ours reports whether a path is of the store's directory, and whether it is a
// write-ahead log.
func (g *gate) ours(path string) (ours, wal bool) {
	return g.FS.PathDir(path) == g.dir, strings.HasSuffix(path, ".log")
}

func (g *gate) Unwrap() vfs.FS { return g.FS }

// create makes a file with one of the calls that do.
func (g *gate) create(op, path string, create func() (vfs.File, error)) (vfs.File, error) {
	ours, wal := g.ours(path)
	if !ours {
		return create()
	}
	var f vfs.File
	err := g.change(op, path, wal, func() (err error) {
		f, err = create()
		return err
	})
	if err != nil {
		return nil, err
	}
	if f == nil {
		f = sunk{name: path}
	}
	return &gateFile{File: f, gate: g, path: path, wal: wal}, nil
}

func (g *gate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.create("create", name, func() (vfs.File, error) { return g.FS.Create(name, c) })
}

func (g *gate) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.create("open", name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, opts...) })
}

func (g *gate) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.create("reuse", newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, c) })
}

// OpenDir opens a directory, which is all that one syncs it with. What a sync of
// the store's directory makes durable is the name of a log or of a marker.
func (g *gate) OpenDir(name string) (vfs.File, error) {
	if g.FS.PathDir(g.FS.PathJoin(name, "x")) != g.dir {
		return g.FS.OpenDir(name)
	}
	f, err := g.FS.OpenDir(name)
	if err != nil {
		if err = g.taken("open", name, err); err != nil {
			return nil, err
		}
		f = sunk{name: name}
	}
	return &gateFile{File: f, gate: g, path: name, wal: true}, nil
}

// List lists a directory. An engine that is being opened must not be told that
// it cannot: it would give up with its compactions running.
func (g *gate) List(dir string) ([]string, error) {
	names, err := g.FS.List(dir)
	if err != nil && g.FS.PathDir(g.FS.PathJoin(dir, "x")) == g.dir {
		return nil, g.taken("list", dir, err)
	}
	return names, err
}

// taken notes an error of looking at the directory; nil: the engine is not to
// hear of it.
func (g *gate) taken(op, path string, err error) error {
	err = g.note(op, path, err, true)
	if what, _ := g.judge(true); what == sink {
		return nil
	}
	return err
}

// kill ends all that an engine does that could not be opened, and gives the
// first error of it.
func (g *gate) kill(err error) error {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
	}
	g.wal = true
	err = g.err
	g.mu.Unlock()
	g.release()
	return err
}

func (g *gate) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := g.FS.Open(name, opts...)
	if err != nil {
		return nil, named("open", name, err)
	}
	return &namedFile{File: f, path: name}, nil
}

func (g *gate) Rename(oldname, newname string) error {
	if ours, wal := g.ours(newname); ours {
		return g.change("rename", newname, wal, func() error { return g.FS.Rename(oldname, newname) })
	}
	return g.FS.Rename(oldname, newname)
}

func (g *gate) Link(oldname, newname string) error {
	if ours, wal := g.ours(newname); ours {
		return g.change("link", newname, wal, func() error { return g.FS.Link(oldname, newname) })
	}
	return g.FS.Link(oldname, newname)
}

// Remove removes a file. That it cannot is no harm: the next open tries again, as
// the engine does not, or who needs it gone calls removeLeft.
func (g *gate) Remove(name string) error {
	ours, _ := g.ours(name)
	if ours && (g.stopped() || g.held(name)) {
		return nil
	}
	err := g.FS.Remove(name)
	if ours && err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.left = append(g.left, name)
	}
	return err
}

// held takes note of a file that is not to be removed yet. An engine that was
// opened on damaged files may take for unused what is not: nothing is removed
// before the log has looked at what it found.
func (g *gate) held(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holding {
		g.left = append(g.left, name)
	}
	return g.holding
}

// letGo has the engine remove what it wants to be rid of. What cannot be removed
// stays until the next open.
func (g *gate) letGo() {
	g.mu.Lock()
	g.holding = false
	g.mu.Unlock()
	_ = g.removeLeft()
}

// removeLeft removes the files that the engine wanted to be rid of and could not
// remove.
func (g *gate) removeLeft() error {
	g.mu.Lock()
	left := g.left
	g.left = nil
	g.mu.Unlock()
	var errs error
	for _, name := range left {
		if err := g.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, named("remove", name, err))
		}
	}
	return errs
}

func (g *gate) RemoveAll(name string) error {
	if ours, _ := g.ours(name); ours && g.stopped() {
		return nil
	}
	return g.FS.RemoveAll(name)
}

func (g *gate) stopped() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err != nil || g.phase == gateReadOnly
}

// gateFile is a file of the directory that is written, or the directory.
type gateFile struct {
	vfs.File
	gate *gate
	path string
	wal  bool
}

func (f *gateFile) change(op string, change func() error) error {
	return f.gate.change(op, f.path, f.wal, change)
}

func (f *gateFile) Write(p []byte) (int, error) {
	if err := f.change("write", func() error {
		_, err := f.File.Write(p)
		return err
	}); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *gateFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.change("write", func() error {
		_, err := f.File.WriteAt(p, at)
		return err
	}); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *gateFile) Sync() error { return f.change("sync", f.File.Sync) }

func (f *gateFile) SyncData() error { return f.change("sync", f.File.SyncData) }

func (f *gateFile) SyncTo(length int64) (full bool, err error) {
	err = f.change("sync", func() error {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Preallocate is a wish; what it lacks the writes will say.
func (f *gateFile) Preallocate(offset, length int64) error {
	if f.gate.stopped() {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

// Stat asks how long a file is, as the engine does of a write-ahead log that it
// reuses; it ends the process if that cannot be told.
func (f *gateFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err == nil || !f.wal {
		return info, err
	}
	f.gate.note("stat", f.path, err, f.wal)
	return sunk{name: f.path}.Stat()
}

// Close closes the file whatever has happened. Where it must have been synced,
// that was done before; an error is taken in all the same.
func (f *gateFile) Close() error {
	if err := f.File.Close(); err != nil && !f.gate.stopped() {
		f.gate.note("close", f.path, err, f.wal)
	}
	return nil
}

// namedFile is a file that is read: its errors say which it is.
type namedFile struct {
	vfs.File
	path string
}

func (f *namedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, f.fault(err)
}

func (f *namedFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	return n, f.fault(err)
}

// fault leaves what says how far a file goes as it is.
func (f *namedFile) fault(err error) error {
	if err == nil || isEnd(err) {
		return err
	}
	return named("read", f.path, err)
}

// sunk is a file that was never made.
type sunk struct{ name string }

var errSunk = errors.New("the file was not made, because of an earlier error")

func (sunk) Close() error                           { return nil }
func (sunk) Read([]byte) (int, error)               { return 0, errSunk }
func (sunk) ReadAt([]byte, int64) (int, error)      { return 0, errSunk }
func (sunk) Write(p []byte) (int, error)            { return len(p), nil }
func (sunk) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (sunk) Preallocate(int64, int64) error         { return nil }
func (sunk) Sync() error                            { return nil }
func (sunk) SyncTo(int64) (bool, error)             { return false, nil }
func (sunk) SyncData() error                        { return nil }
func (sunk) Prefetch(int64, int64) error            { return nil }
func (sunk) Fd() uintptr                            { return vfs.InvalidFd }
func (s sunk) Stat() (vfs.FileInfo, error)          { return sunkInfo{name: filepath.Base(s.name)}, nil }

type sunkInfo struct {
	os.FileInfo
	name string
}

func (i sunkInfo) Name() string         { return i.name }
func (sunkInfo) Size() int64            { return 0 }
func (sunkInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
