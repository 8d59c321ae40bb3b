package history

import (
	"context"
	"errors"

	"github.com/agstore/agstore/eventlog"
)

// Store is a log as it is read when all is over.
type Store struct {
	Threads map[eventlog.ThreadKey]*Thread
}

// Thread is one thread of a store.
type Thread struct {
	// First is the lowest seq that there should be a record of; what lies before
	// it was cleared or erased. 0 is 1.
	First   uint64
	Last    uint64 // the highest seq given; 0: that of the last record
	Erased  bool
	Records []eventlog.Record
	Runs    []eventlog.Run
}

func (t *Thread) first() uint64 { return max(1, t.First) }

// record finds the record with a seq.
func (t *Thread) record(seq uint64) *eventlog.Record {
	if t == nil || seq < t.first() || seq-t.first() >= uint64(len(t.Records)) {
		return nil
	}
	// Where seqs are dense the place is known; where not, that is a fault of its
	// own, and the record is looked for.
	if r := &t.Records[seq-t.first()]; r.Seq == seq {
		return r
	}
	for i := range t.Records {
		if t.Records[i].Seq == seq {
			return &t.Records[i]
		}
	}
	return nil
}

// gone reports whether what had this seq was removed on purpose.
func (t *Thread) gone(seq uint64) bool { return t != nil && (t.Erased || seq < t.first()) }

// ReadStore reads the threads of a history from a log.
func (h History) ReadStore(ctx context.Context, log eventlog.Log) (*Store, error) {
	s := &Store{Threads: make(map[eventlog.ThreadKey]*Thread)}
	for i := range h {
		k := h[i].place()
		if _, ok := s.Threads[k]; ok {
			continue
		}
		read := readThread
		if h[i].Stream != "" {
			read = readCompanion
		}
		t, err := read(ctx, log, h[i].ThreadKey())
		if err != nil {
			return nil, err
		}
		s.Threads[k] = t // nil: there is none
	}
	return s, nil
}

func readThread(ctx context.Context, log eventlog.Log, k eventlog.ThreadKey) (*Thread, error) {
	about, err := log.Thread(ctx, k)
	if errors.Is(err, eventlog.ErrThreadNotFound) {
		return nil, nil
	}
	if errors.Is(err, eventlog.ErrErased) {
		return &Thread{Erased: true}, nil
	}
	if err != nil {
		return nil, err
	}
	t := &Thread{First: about.FirstSeq, Last: about.LastSeq}
	if t.Runs, err = log.Runs(ctx, k); err != nil {
		return nil, err
	}
	for r, err := range log.Read(ctx, k, eventlog.ReadOptions{}) {
		if err != nil {
			return nil, err
		}
		t.Records = append(t.Records, r)
	}
	return t, nil
}

// readCompanion reads a companion stream as a thread of events.
func readCompanion(ctx context.Context, log eventlog.Log, k eventlog.ThreadKey) (*Thread, error) {
	t := &Thread{}
	for e, err := range log.Companion(ctx, k, 0, 0) {
		switch {
		case errors.Is(err, eventlog.ErrErased):
			return &Thread{Erased: true}, nil
		case errors.Is(err, eventlog.ErrThreadNotFound):
			return nil, nil
		case err != nil:
			return nil, err
		}
		t.Records = append(t.Records, eventlog.Record{Seq: e.Seq, Position: e.Position, Time: e.Time, Event: e.Body})
	}
	return t, nil
}
