package pebblelog

import (
	"context"
	"errors"
	"testing"

	"github.com/agstore/agstore/eventlog"
)

// derivedLine is a derived row of what a store reads as.
type derivedLine struct {
	Derived eventlog.Space `json:"derived"`
	At      eventlog.At    `json:"at"` // of the row
	Key     string         `json:"key"`
	Value   string         `json:"value"`
}

// fixtureSpaces are the spaces in which the fixture has derived rows, or had.
var fixtureSpaces = []eventlog.Space{
	{Scope: "life", Thread: "companion", Owner: "view"},
	{Scope: "life", Thread: "redacted", Owner: "view"},
	{Scope: "life", Owner: "p:totals"},
}

// fixtureDerived writes what stores have since format 3: rows derived from
// threads, one of which then loses them, and rows of a scope.
func fixtureDerived(t *testing.T, l *Log) {
	ctx := context.Background()
	for _, s := range fixtureSpaces {
		to := eventlog.At{Position: l.Watermark()}
		if s.Thread != "" {
			info, err := l.Thread(ctx, eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread})
			if err != nil {
				t.Fatal(err)
			}
			to.Removals = info.Removals
		}
		for i, change := range []eventlog.DerivedChange{
			{Key: []byte("text"), Value: []byte("of " + s.Owner)},
			{Key: []byte{0, 0xff}, Value: nil},
			{Key: []byte("text"), Value: []byte("later")},
		} {
			batch := eventlog.DerivedBatch{To: to, Changes: []eventlog.DerivedChange{change}}
			if i > 0 {
				batch.From = to
			}
			if err := l.DerivedWrite(ctx, s, batch); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// describeDerived is what a reader sees of derived rows.
func describeDerived(t *testing.T, l *Log, line func(any, error)) {
	t.Helper()
	for _, s := range fixtureSpaces {
		for row, err := range l.DerivedScan(context.Background(), s, eventlog.ScanOptions{}) {
			if errors.Is(err, eventlog.ErrThreadNotFound) {
				break // of an older format
			}
			line(derivedLine{s, row.At, string(row.Key), string(row.Value)}, err)
		}
	}
}

// fixtureDerivedGoesOn writes to a fixture what depends on fixtureDerived.
func fixtureDerivedGoesOn(t *testing.T, l *Log) {
	t.Helper()
	ctx := context.Background()
	for _, s := range fixtureSpaces {
		from, err := l.DerivedAt(ctx, s)
		if gone := s.Thread == "redacted"; err != nil || gone != (from == eventlog.At{}) {
			t.Errorf("%+v is at %+v, %v", s, from, err)
		}
		to := from
		if s.Thread == "redacted" {
			to = eventlog.At{Position: 1, Removals: 1}
		}
		err = l.DerivedWrite(ctx, s, eventlog.DerivedBatch{From: from, To: to, Changes: []eventlog.DerivedChange{{Key: []byte("text"), Delete: true}}})
		if err != nil {
			t.Errorf("%+v goes on: %v", s, err)
		}
	}
}
