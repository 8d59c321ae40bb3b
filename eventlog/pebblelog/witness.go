package pebblelog

import (
	"fmt"

	"github.com/agstore/agstore/eventlog"
)

// witness is what the owner file says of the store, beside the engine's files:
// so that a log of which the engine has lost the end, or everything, is not taken
// for a shorter one or a new one.
type witness struct {
	Store    string `json:"store,omitempty"`    // its incarnation
	Closed   bool   `json:"closed,omitempty"`   // in order
	Position uint64 `json:"position,omitempty"` // of the latest commit when this was written
	// While it is open: the position when it was opened, up to which all is in
	// tables, and the number of the write-ahead log that is written.
	Opened uint64 `json:"opened,omitempty"`
	Log    uint64 `json:"log,omitempty"`
}

var (
	errNoStoreRow = fmt.Errorf("%w: there was a store, and the engine has lost it", errDamaged)
	errShort      = fmt.Errorf("%w: the log ends before what it was closed with", errDamaged)
	errNoLog      = fmt.Errorf("%w: a write-ahead log is gone", errDamaged)
	errHole       = fmt.Errorf("%w: a write-ahead log has lost its end", errDamaged)
)

// hintLost is what to do about them.
const hintLost = "restore a backup; to go on with what is left, remove " + ownerFile + " from the directory"

// witnessed compares the log with what the owner file says of it, and notes
// there what is to be found when it is opened next.
func (l *Log) witnessed() error {
	if l.witness.Store == l.meta.incarnation {
		if l.witness.Position > l.position {
			return fmt.Errorf("%w: position %d, and there was %d", errShort, l.position, l.witness.Position)
		}
		if l.witness.Log != 0 {
			if err := l.replayed(); err != nil {
				return err
			}
		}
	}
	w := witness{Store: l.meta.incarnation, Position: l.position, Opened: l.position, Log: l.traffic.log()}
	if l.gate.stopped() {
		w.Log = 0
	}
	return l.testify(w)
}

// notice notes in the owner file that there is a new write-ahead log, which
// holds what was written last. Missing it is no fault: the file of before then
// asks for an older one. An engine that has met an error may only believe that it
// has created a log. It is called by the one who settles.
func (l *Log) notice() {
	if wal := l.traffic.log(); wal != l.witness.Log && !l.gate.stopped() {
		w := l.witness
		w.Position, w.Log = l.mark.get(), wal
		_ = l.testify(w)
	}
}

// sign notes in the owner file how far the log goes. It is not part of closing:
// a file of before is right too.
func (l *Log) sign() {
	_ = l.testify(witness{Store: l.witness.Store, Closed: true, Position: l.mark.get()})
}

// testify is called by one at a time; others may look meanwhile.
func (l *Log) testify(w witness) error {
	l.witnessing.Lock()
	l.witness = w
	l.witnessing.Unlock()
	who := readOwner(l.dir, l.opts.FS)
	who.witness = w
	return writeOwner(l.dir, l.opts.FS, who)
}

// testimony is what the owner file says now.
func (l *Log) testimony() witness {
	l.witnessing.Lock()
	defer l.witnessing.Unlock()
	return l.witness
}

// short is the fault of a log that is shorter than the owner file says; nil: it
// is not.
func (w witness) short(store string, position uint64) *eventlog.Fault {
	if w.Store != store || w.Position <= position {
		return nil
	}
	return &eventlog.Fault{
		Kind: eventlog.FaultShort, Position: position + 1, PositionTo: w.Position, Place: ownerFile,
		Detail: "the log was longer when it was closed",
	}
}
