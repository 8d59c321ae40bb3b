package fold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// SnapshotVersion is the version of the snapshots that [Fold.Snapshot] writes,
// and the only one that [Restore] reads. It is a snapshot's first byte.
const SnapshotVersion = 2

// ErrSnapshot says that bytes are no snapshot that can be restored here. What it
// wraps is always a [*SnapshotError].
var ErrSnapshot = errors.New("no snapshot of a fold that can be restored")

// SnapshotError says why a snapshot cannot be restored: it has another version,
// it is of the other profile, or it is damaged. Whoever has the records can fold
// them from the beginning instead.
type SnapshotError struct {
	// Version is the first byte; 0 if there is none. If it is not
	// [SnapshotVersion], nothing else has been looked at.
	Version int
	Offset  int    // in bytes: where the fault was seen
	Reason  string // in words, without any of the content
}

func (e *SnapshotError) Error() string {
	return fmt.Sprintf("%v: version %d, byte %d: %s", ErrSnapshot, e.Version, e.Offset, e.Reason)
}

// Is reports that every SnapshotError is an [ErrSnapshot].
func (e *SnapshotError) Is(target error) bool { return target == ErrSnapshot }

// snapshotHead is what stands before a snapshot's body: the version, the head of
// a list of two, and the CRC-32C of all that follows.
const snapshotHead = 7

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot appends to dst everything that the fold remembers, as
// docs/fold-snapshot.md describes it: [Restore] makes a fold of it that goes on
// as this one does, whatever is open. Folds that have come to the same have the
// same snapshot, byte for byte.
//
// It changes nothing. Its cost and its size grow with the transcript, the state
// and the lists of a view.
func (f *Fold) Snapshot(dst []byte) []byte {
	from := len(dst)
	w := newSnapshotWriter(dst)
	w.begin()
	f.reducer.save(w)
	out := w.buf.Bytes()
	binary.BigEndian.PutUint32(out[from+3:], crc32.Checksum(out[from+snapshotHead:], castagnoli))
	return out
}

// Restore makes a fold of a snapshot, of which it keeps no hold. opts must name
// the profile that the snapshot is of, and the same NoVerify; its limits are those of the new fold, and
// may be others than before. What is there already is not measured by them, but
// for its nesting: no more levels than the larger of opts.Limits.Nesting and the
// default.
//
// The error is a [*SnapshotError]. No bytes make Restore panic, and the memory
// it takes is bounded by a multiple of their number.
func Restore(snapshot []byte, opts Options) (*Fold, error) {
	opts.Limits = opts.Limits.WithDefaults()
	r, err := newSnapshotReader(snapshot, opts)
	if err != nil {
		return nil, err
	}
	restored := restoreReducer(r, opts)
	if r.err == nil && r.in.Len() > 0 {
		r.fail("more behind its end")
	}
	if r.err != nil {
		return nil, r.err
	}
	return &Fold{reducer: restored}, nil
}

func restoreReducer(r *snapshotReader, opts Options) reducer {
	if opts.Profile == Reference {
		return restoreReference(r, opts)
	}
	return restoreDurable(r, opts)
}
