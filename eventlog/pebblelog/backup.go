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
	"path/filepath"
	"slices"
	"strings"
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
		hint := "nothing was left there"
		if isNoSpace(err) {
			err = fmt.Errorf("%w: %w", eventlog.ErrNoSpace, err)
		}
		return eventlog.Backup{}, &eventlog.Error{Op: "back up", Err: damage(err), Hint: hint}
	}
	if err := l.mayBackup(&b); err != nil {
		return fail(err)
	}
	if ctx.Err() != nil {
		return fail(ctx.Err())
	}
	// A note whose writing was broken off would name a backup that never was.
	key, err := l.noteBackup(context.WithoutCancel(ctx), b)
	if err != nil {
		return fail(err)
	}
	err = l.reading("back up", eventlog.ThreadKey{}, func() error { return l.fillBackup(ctx, &b) })
	if err != nil {
		// It is not there, so it holds nothing.
		return fail(errors.Join(err, l.writeRows(context.WithoutCancel(ctx), func(put func(key, value []byte)) error {
			put(key, nil)
			return nil
		})))
	}
	return b, nil
}

// mayBackup checks where a backup is to be and describes it.
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
		if rel, err := filepath.Rel(l.dir, abs); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return &eventlog.InvalidError{Reason: "a backup is not kept inside the data directory: " + abs}
		}
	}
	if _, err := l.opts.FS.Stat(b.Dir); err == nil {
		return &eventlog.InvalidError{Reason: b.Dir + " exists; a backup makes a new directory"}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.Time, b.Incarnation, b.Format = moment(l.opts.Now().UnixMicro()), l.meta.incarnation, FormatVersion
	b.Position = l.mark.get()
	return nil
}

// fillBackup makes the copy and gives it its name.
func (l *Log) fillBackup(ctx context.Context, b *eventlog.Backup) (err error) {
	disk, part := l.opts.FS, b.Dir+partSuffix
	if err := disk.RemoveAll(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			_ = disk.RemoveAll(part)
		}
	}()
	// What was acknowledged is in the tables or, synced, in the write-ahead log.
	if err := l.db.Checkpoint(part); err != nil {
		return err
	}
	m := backupManifest{Backup: *b}
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
	if err := writeFile(disk, disk.PathJoin(part, backupFile), append(text, '\n')); err != nil {
		return err
	}
	*b = m.Backup
	return publishDir(disk, part, b.Dir)
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

// publishDir gives a complete directory its name, durably.
func publishDir(disk vfs.FS, part, dir string) error {
	if err := syncDir(disk, part); err != nil {
		return err
	}
	if err := disk.Rename(part, dir); err != nil {
		return err
	}
	return syncDir(disk, disk.PathDir(dir))
}

func syncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// noteBackup makes the log remember a backup, before there is one: what a crash
// leaves half remembered can be looked for, a forgotten copy cannot.
func (l *Log) noteBackup(ctx context.Context, b eventlog.Backup) (key []byte, err error) {
	err = l.writeRows(ctx, func(put func(key, value []byte)) error {
		number := uint64(1)
		if err := l.lastBackup(&number); err != nil {
			return err
		}
		key = backupKey(number)
		put(key, l.enc.backup(backupRow{time: b.Time.UnixMicro(), position: b.Position, dir: b.Dir}))
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

// Backups lists the backups that were made of the log, the oldest first. Whether
// they still exist is not known to it; the number of files and bytes is not kept.
func (l *Log) Backups(ctx context.Context) (out []eventlog.Backup, err error) {
	err = l.reading("list backups", eventlog.ThreadKey{}, func() error {
		d := newDecoder()
		return l.scan(backupPrefix(), func(_, value []byte) error {
			row, err := d.backup(value)
			out = append(out, eventlog.Backup{
				Dir: row.dir, Time: moment(row.time), Position: row.position,
				Incarnation: l.meta.incarnation, Format: FormatVersion,
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
