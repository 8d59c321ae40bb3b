package pebblelog

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
)

// tables reads every block of every file of the engine, also those that no key
// leads to.
func (v *verifier) tables() error {
	err := v.files(func(name string, err error, of *pebble.SSTableInfo) {
		if v.ctx.Err() != nil || err == nil {
			return
		}
		v.blocks[err.Error()] = true
		v.fault(eventlog.Fault{
			Kind: eventlog.FaultBlock, Detail: wording(err),
			Place: fmt.Sprintf("%s, keys %s to %s", name, hex.EncodeToString(of.Smallest.UserKey), hex.EncodeToString(of.Largest.UserKey)),
		})
	})
	if err != nil {
		return err
	}
	if err := v.ctx.Err(); err != nil {
		return err
	}
	return v.hand()
}

// checkTables reads the tables that the engine has now.
func checkTables(db *pebble.DB, fs vfs.FS, dir string, each func(name string, err error, of *pebble.SSTableInfo)) error {
	levels, err := db.SSTables()
	if err != nil {
		return err
	}
	for _, level := range levels {
		for i := range level {
			name := fmt.Sprintf("%s.sst", level[i].BackingSSTNum)
			err := checkTable(fs, fs.PathJoin(dir, name))
			if err != nil && !stillThere(db, level[i].BackingSSTNum) {
				continue // it was compacted away meanwhile
			}
			each(name, err, &level[i])
		}
	}
	return nil
}

func stillThere[N comparable](db *pebble.DB, number N) bool {
	levels, err := db.SSTables()
	if err != nil {
		return true
	}
	for _, level := range levels {
		for i := range level {
			if any(level[i].BackingSSTNum) == any(number) {
				return true
			}
		}
	}
	return false
}

// checkTable compares the checksums of all blocks of a table. A table whose
// footer leads nowhere can make the engine's reader panic.
func checkTable(fs vfs.FS, path string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return err
	}
	o := pebble.Options{FS: fs}
	o.EnsureDefaults()
	r, err := sstable.NewReader(context.Background(), readable, o.MakeReaderOptions())
	if err != nil {
		_ = readable.Close()
		return err
	}
	defer r.Close()
	return r.ValidateBlockChecksums()
}
