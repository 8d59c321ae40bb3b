package pebblelog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// The lines of what a store reads as.
type (
	threadLine struct {
		Thread  string      `json:"thread"`
		Scope   string      `json:"scope"`
		Created time.Time   `json:"created"`
		Updated time.Time   `json:"updated"`
		LastSeq uint64      `json:"lastSeq"`
		Head    agui.RunKey `json:"head"`
		fixtureCleared
	}
	fixtureCleared struct {
		Generation uint64 `json:"generation,omitempty"`
		Begins     uint64 `json:"begins,omitempty"` // the first seq of its generation
		Removals   uint64 `json:"removals,omitempty"`
		Companion  uint64 `json:"companion,omitempty"`
	}
	goneLine struct {
		Gone   string    `json:"gone"`
		Erased time.Time `json:"erased"`
		Reason string    `json:"reason"`
	}
	entryLine struct {
		Entry    uint64    `json:"entry"`
		Position uint64    `json:"position"`
		Time     time.Time `json:"time"`
		Kind     string    `json:"kind"`
		Body     string    `json:"body"`
	}
	receiptLine struct {
		Receipt eventlog.Receipt `json:"receipt"`
	}
	backupLine struct {
		Backup eventlog.Backup `json:"backup"`
	}
	runLine struct {
		Run     agui.RunKey     `json:"run"`
		Parent  agui.RunKey     `json:"parent"`
		Seqs    [4]uint64       `json:"seqs"` // parent, first, last, end
		Events  uint64          `json:"events"`
		Status  agui.RunStatus  `json:"status"`
		Started time.Time       `json:"started"`
		Ended   time.Time       `json:"ended"`
		Origin  eventlog.Origin `json:"origin"`
		Held    bool            `json:"held"`
		Epoch   uint64          `json:"epoch"`
		Owner   string          `json:"owner"`
		Digest  []byte          `json:"digest"`
	}
	recordLine struct {
		Seq      uint64          `json:"seq"`
		Position uint64          `json:"position"`
		Time     time.Time       `json:"time"`
		Run      agui.RunKey     `json:"run"`
		Type     agui.Type       `json:"type"`
		Origin   eventlog.Origin `json:"origin"`
		Echo     bool            `json:"echo"`
		Unknown  bool            `json:"unknownParent"`
		Event    string          `json:"event"`
		Redacted bool            `json:"redacted,omitempty"`
	}
	commitLine struct {
		Commit uint64    `json:"commit"`
		Scope  string    `json:"scope"`
		Thread string    `json:"thread"`
		First  uint64    `json:"first"`
		Count  int       `json:"count"`
		Time   time.Time `json:"time"`
	}
)

// describeStore is all that a reader sees of a store of the fixture's scopes,
// as JSON lines.
func describeStore(t *testing.T, l *Log) []byte {
	t.Helper()
	ctx := context.Background()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	line := func(v any, err error) {
		t.Helper()
		if err == nil {
			err = enc.Encode(v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, scope := range fixtureScopes {
		for th, err := range l.Threads(ctx, scope, "") {
			describeThread(t, l, &th, err, line)
		}
	}
	for c, err := range l.Commits(ctx, 1) {
		line(commitLine{c.Position, c.Thread.Scope, c.Thread.Thread, c.First, c.Count, c.Time}, err)
	}
	for _, scope := range fixtureScopes {
		for r, err := range l.Receipts(ctx, scope, "") {
			line(receiptLine{r}, err)
		}
	}
	describeDerived(t, l, line)
	made, err := l.Backups(ctx)
	for _, b := range made {
		if b.Incarnation == "" {
			// Noted before version 3 of its row: then the list had that of the build
			// and of the store.
			b.Format, b.Incarnation = FormatLifecycle, l.meta.incarnation
		}
		line(backupLine{b}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// describeThread is what a reader sees of a thread.
func describeThread(t *testing.T, l *Log, th *eventlog.Thread, err error, line func(any, error)) {
	t.Helper()
	ctx := context.Background()
	more := fixtureCleared{Generation: th.Generation, Removals: th.Removals, Companion: th.CompanionSeq}
	if th.Generation > 0 {
		more.Begins = th.FirstSeq
	}
	line(threadLine{th.Key.Thread, th.Key.Scope, th.Created, th.Updated, th.LastSeq, th.Head, more}, err)
	runs, err := l.Runs(ctx, th.Key)
	if erased := (*eventlog.ErasedError)(nil); errors.As(err, &erased) {
		line(goneLine{th.Key.Thread, erased.Time, erased.Reason}, nil)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		line(runLine{
			r.Key, r.Parent, [4]uint64{r.ParentSeq, r.FirstSeq, r.LastSeq, r.EndSeq}, r.Events, r.Status, r.Started, r.Ended,
			r.Origin, r.Held, r.Epoch, r.Owner, r.InputDigest[:],
		}, nil)
	}
	for r, err := range l.Read(ctx, th.Key, eventlog.ReadOptions{}) {
		line(recordLine{r.Seq, r.Position, r.Time, r.Run, r.Type, r.Origin, r.Echo, r.UnknownParent, string(r.Event), r.Redacted}, err)
	}
	for e, err := range l.Companion(ctx, th.Key, 0, 0) {
		line(entryLine{e.Seq, e.Position, e.Time, e.Kind, string(e.Body)}, err)
	}
}
