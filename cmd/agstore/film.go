package main

import (
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

// film is the views of a list of records, one behind each.
type film struct {
	records []eventlog.Record
	fold    *fold.Fold
	next    int // the first record that is not in fold
	saved   map[int][]byte
	views   map[int]*fold.View // the latest looked at
}

// keyFrame is how many records lie between folds that are saved, to go back to.
const keyFrame = 256

func newFilm(records []eventlog.Record) *film {
	return &film{records: records, fold: fold.New(fold.Options{}), saved: make(map[int][]byte), views: make(map[int]*fold.View)}
}

// view is the view behind record i; -1: before the first.
func (f *film) view(i int) (*fold.View, error) {
	if v := f.views[i]; v != nil {
		return v, nil
	}
	if f.next > i+1 {
		if err := f.back(i + 1); err != nil {
			return nil, err
		}
	}
	for ; f.next <= i; f.next++ {
		if f.next%keyFrame == 0 && f.saved[f.next] == nil {
			f.saved[f.next] = f.fold.Snapshot(nil)
		}
		r := f.records[f.next]
		f.fold.Apply(fold.Record{Seq: r.Seq, Run: r.Run, Echo: r.Echo, UnknownParent: r.UnknownParent, Raw: r.Event})
	}
	if len(f.views) >= 64 {
		clear(f.views)
	}
	v := f.fold.View()
	f.views[i] = v
	return v, nil
}

// back goes to a fold of at most n records.
func (f *film) back(n int) error {
	at := n / keyFrame * keyFrame
	saved := f.saved[at]
	if saved == nil {
		f.fold, f.next = fold.New(fold.Options{}), 0
		return nil
	}
	var err error
	f.fold, err = fold.Restore(saved, fold.Options{})
	f.next = at
	return err
}
