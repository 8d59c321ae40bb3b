package pebblelog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

const (
	// backupFile lists the files of a backup. It is written last: a directory
	// without it is no backup.
	backupFile = "backup.json"
	// partSuffix is that of a directory that is being filled. It gets its name
	// when it is complete and durable; one that was left is begun again.
	partSuffix = ".agstore-part"
	// copyBytes are copied or read between two looks at the context.
	copyBytes = 1 << 20
)

// backupManifest is what backupFile holds.
type backupManifest struct {
	eventlog.Backup
	List []backupEntry `json:"list"`
}

type backupEntry struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hex digits
}

// Backup makes a copy of the log in a directory that does not exist yet, while
// the log is written. All that was acknowledged when it was called is in it. On
// the same file system it costs little room: tables, which never change, are
// linked and not copied.
//
// The log remembers its backups ([Log.Backups]), since erasing a thread does not
// reach them. A failed backup leaves no directory of that name.
func (l *Log) Backup(ctx context.Context, dir string) (eventlog.Backup, error) {
	b := eventlog.Backup{Dir: dir}
	fail := func(err error) (eventlog.Backup, error) {
		var e *eventlog.Error
		if errors.As(err, &e) && e.Op == "back up" {
			return eventlog.Backup{}, err
		}
		if errors.Is(err, eventlog.ErrInvalid) {
			return eventlog.Backup{}, &eventlog.Error{Op: "back up", Err: err}
		}
		return eventlog.Backup{}, &eventlog.Error{Op: "back up", Err: damage(err), Hint: "nothing was left there"}
	}
	if err := l.mayBackup(&b); err != nil {
		return fail(err)
	}
	defer l.backups.leave(b.Dir)
	if ctx.Err() != nil {
		return fail(ctx.Err())
	}
	row := backupRow{
		time: b.Time.UnixMicro(), position: b.Position, upTo: math.MaxUint64, dir: b.Dir,
		incarnation: b.Incarnation, format: uint64(b.Format),
	}
	// A note whose writing was broken off would name a backup that never was.
	key, err := l.noteBackup(context.WithoutCancel(ctx), nil, row)
	if err != nil {
		return fail(err)
	}
	err = l.fillBackup(ctx, &b, func() error {
		_, err := l.noteBackup(ctx, key, row)
		return err
	})
	if errors.Is(err, errUnsettled) {
		return fail(err) // it may be there, or come back, and is remembered
	}
	if err != nil {
		if _, left := l.opts.FS.Stat(b.Dir + partSuffix); !errors.Is(left, fs.ErrNotExist) {
			return fail(err)
		}
		// It is not there, so it holds nothing.
		return fail(errors.Join(err, l.writeRows(context.WithoutCancel(ctx), func(put func(key, value []byte)) error {
			put(key, nil)
			return nil
		})))
	}
	return b, nil
}

// backupsUnderWay are the directories in which backups are being made.
type backupsUnderWay struct {
	mu   sync.Mutex
	dirs map[string]bool
}

func (u *backupsUnderWay) enter(dir string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.dirs[dir] {
		return false
	}
	if u.dirs == nil {
		u.dirs = make(map[string]bool)
	}
	u.dirs[dir] = true
	return true
}

func (u *backupsUnderWay) leave(dir string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.dirs, dir)
}

// mayBackup checks where a backup is to be and describes it. If it may be made,
// nobody else makes one there.
func (l *Log) mayBackup(b *eventlog.Backup) error {
	if b.Dir == "" {
		return &eventlog.InvalidError{Reason: "the directory of the backup is empty"}
	}
	if l.opts.FS == vfs.Default {
		abs, err := filepath.Abs(b.Dir)
		if err != nil {
			return err
		}
		b.Dir = abs
	}
	if within, err := within(l.opts.FS, b.Dir, l.dir); err != nil {
		return err
	} else if within {
		return &eventlog.InvalidError{Reason: "a backup is not kept inside the data directory: " + b.Dir}
	}
	if _, err := l.opts.FS.Stat(b.Dir); err == nil {
		return &eventlog.InvalidError{Reason: b.Dir + " exists; a backup makes a new directory"}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return target("back up", b.Dir, err)
	}
	if !l.backups.enter(b.Dir) {
		return &eventlog.InvalidError{Reason: "another backup is being made in " + b.Dir}
	}
	b.Time, b.Incarnation, b.Format = moment(l.opts.Now().UnixMicro()), l.meta.incarnation, FormatVersion
	b.Position = l.mark.get()
	return nil
}

// target says that a fault is one of the place where a backup or a store is to
// be made, not of the store that is open or of the backup that is read.
func target(op, dir string, err error) error {
	hint := "nothing was left there"
	if errors.Is(err, errUnsettled) {
		hint = "what is in " + dir + ", if it is there, is complete"
	}
	cause := fmt.Errorf("in %s: %w", dir, err)
	switch {
	case isNoSpace(err):
		cause, hint = unavailable(cause), "make space on the disk that holds "+dir+"; "+hint
	case errors.Is(err, syscall.EROFS):
		cause, hint = unavailable(cause), "the file system that holds "+dir+" is read-only; "+hint
	case errors.Is(err, fs.ErrPermission):
		cause, hint = unavailable(cause), "give this process the right to write there; "+hint
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		cause, hint = &eventlog.InvalidError{Reason: fmt.Sprintf("%s cannot be made: %v", dir, err)}, ""
	case isDisk(err):
		cause = unavailable(cause)
	}
	return &eventlog.Error{Op: op, Err: cause, Hint: hint}
}

// onTarget reports whether a fault of copying is one of writing.
func onTarget(err error) bool { return isNoSpace(err) || errors.Is(err, syscall.EROFS) }

// fillBackup makes the copy and gives it its name. taken is called when it is
// known what is in it.
func (l *Log) fillBackup(ctx context.Context, b *eventlog.Backup, taken func() error) (err error) {
	disk, part := l.opts.FS, b.Dir+partSuffix
	if err := disk.MkdirAll(disk.PathDir(part), 0o700); err != nil {
		return target("back up", b.Dir, err)
	}
	if err := disk.RemoveAll(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return target("back up", b.Dir, err)
	}
	defer func() {
		if err != nil {
			_ = disk.RemoveAll(part)
		}
	}()
	// What was acknowledged is in the tables or, synced, in the write-ahead log.
	if err := l.reading("back up", eventlog.ThreadKey{}, func() error {
		err := l.checkpoint(part)
		if onTarget(err) || errors.Is(err, fs.ErrPermission) {
			return target("back up", b.Dir, err) // nothing else is written
		}
		return err
	}); err != nil {
		return err
	}
	if err := taken(); err != nil {
		return err
	}
	m := backupManifest{Backup: *b}
	if err := m.describe(ctx, disk, part); err != nil {
		return target("back up", b.Dir, err)
	}
	*b = m.Backup
	if err := publishDir(disk, part, b.Dir); err != nil {
		return target("back up", b.Dir, err)
	}
	return nil
}

// describe lists the files of a backup, in it.
func (m *backupManifest) describe(ctx context.Context, disk vfs.FS, part string) error {
	names, err := disk.List(part)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		entry := backupEntry{Name: name}
		entry.Bytes, entry.SHA256, err = copyFile(ctx, disk, disk.PathJoin(part, name), "")
		if err != nil {
			return err
		}
		m.List = append(m.List, entry)
		m.Files++
		m.Bytes += entry.Bytes
	}
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	return writeFile(disk, disk.PathJoin(part, backupFile), append(text, '\n'))
}

// checkpoint has the engine fill a directory. It panics where it cannot sync that,
// with none of its locks held.
func (l *Log) checkpoint(dir string) (err error) {
	defer func() {
		p := recover()
		cause, known := p.(error)
		switch {
		case known && isDisk(cause):
			err = named("sync", dir, cause)
		case p != nil:
			panic(p)
		}
	}()
	return l.db.Checkpoint(dir)
}

// copyFile reads a file, and writes it to another, synced, if that has a name. It
// gives the file's size and digest.
func copyFile(ctx context.Context, disk vfs.FS, from, to string) (size int64, digest string, err error) {
	in, err := disk.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return 0, "", err
	}
	defer in.Close()
	hash := sha256.New()
	w := io.Writer(hash)
	if to != "" {
		out, err := disk.Create(to, vfs.WriteCategoryUnspecified)
		if err != nil {
			return 0, "", err
		}
		defer func() { err = errors.Join(err, out.Sync(), out.Close()) }()
		w = io.MultiWriter(hash, out)
	}
	for {
		if err := ctx.Err(); err != nil {
			return 0, "", err
		}
		n, err := io.CopyN(w, in, copyBytes)
		size += n
		if err == io.EOF {
			return size, hex.EncodeToString(hash.Sum(nil)), nil
		}
		if err != nil {
			return 0, "", err
		}
	}
}

func writeFile(disk vfs.FS, name string, text []byte) error {
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// errUnsettled: a directory got its name, and it is not known whether that
// outlives a power cut.
var errUnsettled = errors.New("the name of the new directory could not be made durable")

// publishDir gives a complete directory its name, durably. If that fails it takes
// the name back; if even that fails the directory is there, and complete.
func publishDir(disk vfs.FS, part, dir string) error {
	if err := syncDir(disk, part); err != nil {
		return err
	}
	if err := disk.Rename(part, dir); err != nil {
		return err
	}
	err := syncDir(disk, disk.PathDir(dir))
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errUnsettled, errors.Join(err, disk.Rename(dir, part)))
}

func syncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// noteBackup makes the log remember a backup, before there is one: what a crash
// leaves half remembered can be looked for, a forgotten copy cannot. Until the
// copy is taken it may hold whatever is written; then, called again with the key,
// it notes up to where it may.
func (l *Log) noteBackup(ctx context.Context, key []byte, row backupRow) ([]byte, error) {
	err := l.writeRows(ctx, func(put func(key, value []byte)) error {
		if key != nil {
			row.upTo = l.position
		} else {
			number := uint64(1)
			if err := l.lastBackup(&number); err != nil {
				return err
			}
			key = backupKey(number)
		}
		put(key, l.enc.backup(row))
		return nil
	})
	return key, err
}

// lastBackup gives the number for the next backup.
func (l *Log) lastBackup(next *uint64) error {
	it, err := l.iterate(backupPrefix())
	if err != nil {
		return err
	}
	defer it.Close()
	if it.Last() {
		*next = binary.BigEndian.Uint64(it.Key()[2:]) + 1
	}
	return it.Error()
}

// writeRows has the committer write rows that belong to no commit, durably.
func (l *Log) writeRows(ctx context.Context, rows func(put func(key, value []byte)) error) error {
	c := newCall(callRows, "back up", eventlog.ThreadKey{})
	c.rows = rows
	if !l.queue.push(work{call: c}) {
		return c.fail(eventlog.ErrClosed)
	}
	_, err := c.wait(ctx)
	return err
}

// Backups lists the backups that were made of the log, the oldest first; those
// that a restored log brought are of the incarnation they were made of. Whether
// they still exist is not known to it; the number of files and bytes is not kept.
func (l *Log) Backups(ctx context.Context) (out []eventlog.Backup, err error) {
	err = l.reading("list backups", eventlog.ThreadKey{}, func() error {
		d := newDecoder()
		return l.scan(backupPrefix(), func(_, value []byte) error {
			row, err := d.backup(value)
			out = append(out, eventlog.Backup{
				Dir: row.dir, Time: moment(row.time), Position: row.position,
				Incarnation: row.incarnation, Format: int(row.format),
			})
			return errors.Join(err, ctx.Err())
		})
	})
	return out, err
}

// ReadBackup describes the backup in a directory; ErrNotFound if it holds none.
func ReadBackup(dir string, opts Options) (eventlog.Backup, error) {
	m, err := readBackup(dir, opts.withDefaults().FS)
	if err != nil {
		return eventlog.Backup{}, &eventlog.Error{Op: "read the backup in " + dir, Err: err}
	}
	return m.Backup, nil
}

func readBackup(dir string, disk vfs.FS) (m backupManifest, err error) {
	f, err := disk.Open(disk.PathJoin(dir, backupFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return m, fmt.Errorf("%w: no %s is there, so it is no complete backup", eventlog.ErrNotFound, backupFile)
	}
	if err != nil {
		return m, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%w: %s: %w", eventlog.ErrCorrupt, backupFile, err)
	}
	if m.Format > FormatVersion {
		return m, &eventlog.VersionError{What: "backup", Found: m.Format, Known: FormatVersion}
	}
	for _, e := range m.List {
		if e.Name == "" || e.Name != disk.PathBase(e.Name) {
			return m, fmt.Errorf("%w: %s names the file %q", eventlog.ErrCorrupt, backupFile, e.Name)
		}
	}
	return m, nil
}
