package projection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/projection"
)

// What the reducers of these tests make of records can be compared with what a
// look at the log gives: every record of a thread, in order, as seq:event.

func line(r eventlog.Record) string { return fmt.Sprintf("%d:%s\n", r.Seq, r.Event) }

func masked(r eventlog.Record) string {
	if r.Redacted {
		return "redacted"
	}
	return line(r)
}

// listing is the state of a thread: all of its records.
func listing(version int) projection.Reducer {
	return projection.Reducer{Name: "list", Version: version, Reduce: func(state []byte, in projection.Input) ([]byte, error) {
		return append(state, line(in.Record)...), nil
	}}
}

// totals is the state of a scope: all of its records, in the order of commits.
func totals() projection.Reducer {
	return projection.Reducer{Name: "totals", Version: 1, Global: true, Reduce: func(state []byte, in projection.Input) ([]byte, error) {
		return append(state, in.Thread.Thread+" "+line(in.Record)...), nil
	}}
}

// told has a row for each record of a scope, and takes out what was removed.
func told() projection.Reducer {
	return projection.Reducer{Name: "told", Version: 1, Global: true, Removals: projection.RemovalsTold, Rows: func(rows *projection.Rows, in projection.Input) error {
		key := func(seq uint64) string { return fmt.Sprintf("%s/%06d", in.Thread.Thread, seq) }
		if in.Removed == nil {
			old, _ := rows.Get(key(in.Seq))
			rows.Put(key(in.Seq), append(old, masked(in.Record)...)) // twice is seen
			return nil
		}
		for k, value := range rows.Scan(in.Thread.Thread + "/") {
			switch {
			case in.Removed.Removal != eventlog.RemovalRedact:
				if k <= key(in.Removed.Last) {
					rows.Delete(k)
				}
			case k >= key(in.Removed.First) && k <= key(in.Removed.Last) && strings.Contains(string(value), `"delta"`):
				rows.Put(k, []byte("redacted"))
			}
		}
		return nil
	}}
}

func all() []projection.Reducer { return []projection.Reducer{listing(1), totals(), told()} }

// kit is a log with projections.
type kit struct {
	t        *testing.T
	ctx      context.Context
	fs       vfs.FS
	log      *pebblelog.Log
	reducers *projection.Reducers
}

func (k *kit) open(reducers ...projection.Reducer) {
	k.t.Helper()
	if k.ctx == nil {
		k.ctx = context.Background()
	}
	var err error
	if k.log, err = pebblelog.Open("store", pebblelog.Options{FS: k.fs}); err != nil {
		k.t.Fatal(err)
	}
	k.keep(reducers...)
}

func (k *kit) keep(reducers ...projection.Reducer) {
	k.t.Helper()
	var err error
	if k.reducers, err = projection.Keep(k.log, reducers, projection.ReducersOptions{}); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) close() {
	k.t.Helper()
	k.reducers.Close()
	if err := k.log.Close(); err != nil {
		k.t.Fatal(err)
	}
}

func newKit(t *testing.T, reducers ...projection.Reducer) *kit {
	k := &kit{t: t, fs: vfs.NewMem()}
	k.open(reducers...)
	t.Cleanup(k.close)
	return k
}

func key(scope, thread string) eventlog.ThreadKey {
	return eventlog.ThreadKey{Scope: scope, Thread: thread}
}

func (k *kit) append(scope, thread string, events ...string) eventlog.Appended {
	k.t.Helper()
	b := eventlog.Batch{}
	for _, e := range events {
		b.Events = append(b.Events, []byte(e))
	}
	done, err := k.log.Append(k.ctx, key(scope, thread), b)
	if err != nil {
		k.t.Fatal(err)
	}
	return done
}

func (k *kit) say(scope, thread, text string) eventlog.Appended {
	k.t.Helper()
	return k.append(scope, thread, `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`,
		fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%s"}`, text), `{"type":"TEXT_MESSAGE_END","messageId":"m"}`)
}

func (k *kit) projection(name string) *projection.Reduced {
	k.t.Helper()
	p, err := k.reducers.Get(name)
	if err != nil {
		k.t.Fatal(err)
	}
	return p
}

// catchUp waits until all projections have all that the log has.
func (k *kit) catchUp() {
	k.t.Helper()
	for _, p := range k.reducers.All() {
		if err := p.WaitFor(k.ctx, k.log.Watermark()); err != nil {
			k.t.Fatal(err)
		}
	}
}

// records are those of a thread, by a look at the log.
func (k *kit) records(thread eventlog.ThreadKey) (out []eventlog.Record) {
	k.t.Helper()
	for r, err := range k.log.Read(k.ctx, thread, eventlog.ReadOptions{}) {
		if err != nil {
			k.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// faults compares all states of a scope with the log. The projections have caught
// up.
func (k *kit) faults(scope string) (faults []string) {
	k.t.Helper()
	type placed struct {
		thread string
		r      eventlog.Record
	}
	var everything []placed
	var rows []string
	for th, err := range k.log.Threads(k.ctx, scope, "") {
		if err != nil {
			k.t.Fatal(err)
		}
		want := ""
		for _, r := range k.records(th.Key) {
			want += line(r)
			everything = append(everything, placed{th.Key.Thread, r})
			rows = append(rows, fmt.Sprintf("%s/%06d=%s", th.Key.Thread, r.Seq, masked(r)))
		}
		if p, err := k.reducers.Get("list"); err == nil {
			got, err := p.State(k.ctx, scope, th.Key.Thread)
			if err != nil || string(got.Value) != want {
				faults = append(faults, fmt.Sprintf("the state of %s/%s is\n%s%v, want\n%s", scope, th.Key.Thread, got.Value, err, want))
			}
		}
	}
	slices.SortStableFunc(everything, func(a, b placed) int { return int(a.r.Position) - int(b.r.Position) })
	want := ""
	for _, p := range everything {
		want += p.thread + " " + line(p.r)
	}
	if p, err := k.reducers.Get("totals"); err == nil {
		if got, err := p.State(k.ctx, scope, ""); err != nil || string(got.Value) != want {
			faults = append(faults, fmt.Sprintf("the state of scope %s is\n%s%v, want\n%s", scope, got.Value, err, want))
		}
	}
	if p, err := k.reducers.Get("told"); err == nil {
		var got []string
		for row, err := range p.Rows(k.ctx, scope, "", "") {
			if err != nil {
				faults = append(faults, err.Error())
			}
			got = append(got, row.Key+"="+string(row.Value))
		}
		slices.Sort(rows)
		if !slices.Equal(got, rows) {
			faults = append(faults, fmt.Sprintf("the rows of scope %s are\n%q, want\n%q", scope, got, rows))
		}
	}
	return faults
}

func (k *kit) check(scopes ...string) {
	k.t.Helper()
	k.catchUp()
	for _, scope := range scopes {
		for _, fault := range k.faults(scope) {
			k.t.Error(fault)
		}
	}
}

func (k *kit) remove(kind eventlog.Removal, scope, thread string) {
	k.t.Helper()
	var r eventlog.Receipt
	var err error
	switch kind {
	case eventlog.RemovalErase:
		r, err = k.log.Erase(k.ctx, key(scope, thread), eventlog.RemoveOptions{})
	case eventlog.RemovalClear:
		r, err = k.log.Clear(k.ctx, key(scope, thread), eventlog.RemoveOptions{})
	default:
		r, err = k.log.Redact(k.ctx, key(scope, thread), eventlog.Redaction{Message: "m"}, eventlog.RemoveOptions{})
	}
	if errors.Is(err, eventlog.ErrNotFound) || errors.Is(err, eventlog.ErrErased) {
		return
	}
	if err == nil {
		err = k.reducers.Removed(k.ctx, r)
	}
	if err != nil {
		k.t.Fatal(err)
	}
}
