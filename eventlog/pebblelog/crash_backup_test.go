package pebblelog_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/history"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// backup is a backup that was begun, and the moments it lies between.
type backup struct {
	dir          string
	begun, ended int64
	done         bool // it was acknowledged
}

// backup makes a backup of a log that others write to.
func (m *matrix) backup(l *pebblelog.Log, rec *history.Recorder, dir string) {
	b := backup{dir: dir, begun: rec.Mark()}
	if _, err := l.Backup(context.Background(), dir); err != nil {
		m.t.Errorf("back up: %v", err)
		return
	}
	b.ended, b.done = rec.Mark(), true
	m.backups = append(m.backups, b)
}

// atCut is what can be said of backups at a cut.
func atCut(all []backup, c *cut) (out []backup) {
	for _, b := range all {
		if b.begun > c.after {
			continue
		}
		b.done = b.done && b.ended < c.before
		if b.ended > c.after {
			b.ended = c.after
		}
		out = append(out, b)
	}
	return out
}

// judgeBackups looks at the backups that a cut has left. One that says that it is
// one is restored and judged by what had been told when it was begun; one that was
// acknowledged says so; and of the others nothing is taken for a backup. Of those
// that are whole without a doubt, one of eight is restored.
func (m *matrix) judgeBackups(c *cut, h history.History, backups []backup) (faults []error) {
	opts := pebblelog.Options{FS: c.fs, Now: lifetime(lives)}
	for i, b := range atCut(backups, c) {
		_, err := pebblelog.ReadBackup(b.dir, opts)
		switch {
		case err == nil && b.done && (c.n+i)%8 != 0:
			continue
		case err == nil:
			m.restored.Add(1)
			for _, fault := range restoredFaults(c.fs, b, h) {
				faults = append(faults, fmt.Errorf("%s: %w", b.dir, fault))
			}
		case b.done:
			faults = append(faults, fmt.Errorf("%s, which was acknowledged: %w", b.dir, err))
		case !errors.Is(err, eventlog.ErrNotFound):
			faults = append(faults, fmt.Errorf("%s, which was not finished: %w", b.dir, err))
		default:
			m.unfinished.Add(1)
			if (c.n+i)%8 != 0 {
				continue
			}
			if err := again(c.fs, b.dir, opts); err != nil {
				faults = append(faults, fmt.Errorf("%s, once more: %w", b.dir, err))
			}
		}
	}
	return faults
}

// again makes a backup of a copy of the disk where one was not finished.
func again(fs *vfs.MemFS, dir string, opts pebblelog.Options) error {
	opts.FS = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	l, err := pebblelog.Open("d", opts)
	if err != nil {
		return err
	}
	_, err = l.Backup(context.Background(), dir)
	if err == nil {
		_, err = pebblelog.ReadBackup(dir, opts)
	}
	return errors.Join(err, l.Close())
}

// restoredFaults restores a backup and judges it: all that had been acknowledged
// when it was begun is there, and nothing that was begun when it had ended.
func restoredFaults(fs *vfs.MemFS, b backup, h history.History) []error {
	ctx := context.Background()
	opts := pebblelog.Options{FS: fs.CrashClone(vfs.CrashCloneCfg{}), Now: lifetime(lives)}
	if _, err := pebblelog.Restore(ctx, b.dir, "restored", eventlog.RestoreOptions{}, opts); err != nil {
		return []error{err}
	}
	l, err := pebblelog.Open("restored", opts)
	if err != nil {
		return []error{fmt.Errorf("open what was restored: %w", err)}
	}
	known := h.Cut(b.begun, b.ended)
	s, faults := logtest.Judge(ctx, l, known)
	if len(faults) == 0 {
		faults = logtest.GoOn(ctx, l, known, s, history.NewLogical(b.ended), "restored")
	}
	if err := l.Close(); err != nil {
		faults = append(faults, err)
	}
	return faults
}
