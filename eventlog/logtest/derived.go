package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/eventlog"
)

// RunDerived runs the suite of [eventlog.Derived]: for logs that are one.
func RunDerived(t *testing.T, factory func(t *testing.T) Factory) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, d *derived)
	}{
		{"Rows", testDerivedRows},
		{"Walls", testDerivedWalls},
		{"Refused", testDerivedRefused},
		{"ExactlyOnce", testDerivedExactlyOnce},
		{"ManyRows", testDerivedManyRows},
		{"Removed", testDerivedRemoved},
		{"RemovedMeanwhile", testDerivedRemovedMeanwhile},
		{"Crash", testDerivedCrash},
		{"Model", testDerivedModel},
		{"Forget", testDerivedForget},
		{"Close", testDerivedClose},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			t.Cleanup(cancel)
			p := &place{factory: factory(t), t: t, ctx: ctx}
			d := &derived{place: p}
			d.rows() // opens it
			test.run(t, d)
			if p.log != nil {
				p.sound()
				p.close()
			}
		})
	}
}

// derived is a place whose log keeps derived rows.
type derived struct{ *place }

// rows opens the log if need be.
func (d *derived) rows() eventlog.Derived {
	d.t.Helper()
	if d.log == nil {
		d.open()
	}
	rows, ok := d.log.(eventlog.Derived)
	if !ok {
		d.t.Fatalf("a %T keeps no derived rows", d.log)
	}
	return rows
}

func space(thread string) eventlog.Space {
	return eventlog.Space{Scope: "s", Thread: thread, Owner: "view"}
}

func put(key, value string) eventlog.DerivedChange {
	return eventlog.DerivedChange{Key: []byte(key), Value: []byte(value)}
}

// at is where the log is, for a thread of which something was removed so often.
func (d *derived) at(removals uint64) eventlog.At {
	return eventlog.At{Position: d.log.Watermark(), Removals: removals}
}

func (d *derived) put(s eventlog.Space, from, to eventlog.At, changes ...eventlog.DerivedChange) {
	d.t.Helper()
	if err := d.rows().DerivedWrite(d.ctx, s, eventlog.DerivedBatch{From: from, To: to, Changes: changes}); err != nil {
		d.t.Fatalf("write: %v", err)
	}
}

// scan gives rows as key=value.
func (d *derived) scan(s eventlog.Space, opts eventlog.ScanOptions) (out []string) {
	d.t.Helper()
	for row, err := range d.rows().DerivedScan(d.ctx, s, opts) {
		if err != nil {
			d.t.Fatalf("scan: %v", err)
		}
		out = append(out, fmt.Sprintf("%s=%s", row.Key, row.Value))
	}
	return out
}

// are fails unless a space has these rows, at that point.
func (d *derived) are(s eventlog.Space, at eventlog.At, want ...string) {
	d.t.Helper()
	if got := d.scan(s, eventlog.ScanOptions{}); !slices.Equal(got, want) {
		d.t.Errorf("%+v has the rows %q, want %q", s, got, want)
	}
	if got, err := d.rows().DerivedAt(d.ctx, s); err != nil || got != at {
		d.t.Errorf("%+v is at %+v, %v, want %+v", s, got, err, at)
	}
}

func (d *derived) some(thread string) eventlog.Appended {
	d.t.Helper()
	return d.append(key(thread), eventlog.Batch{Events: [][]byte{custom("x", 1)}})
}

// Rows are read as they were written, in order, forwards and backwards, in part,
// and are the caller's.
func testDerivedRows(t *testing.T, d *derived) {
	d.some("t")
	s, at := space("t"), d.at(0)
	d.are(s, eventlog.At{})
	mine := []eventlog.DerivedChange{put("b", "2"), put("a", "1"), put("c", ""), put("\x00", "zero"), put("\xff\xff", "last")}
	d.put(s, eventlog.At{}, at, mine...)
	mine[0].Key[0], mine[0].Value[0] = 'z', 'z'
	d.are(s, at, "\x00=zero", "a=1", "b=2", "c=", "\xff\xff=last")
	for _, test := range []struct {
		opts eventlog.ScanOptions
		want string
	}{
		{eventlog.ScanOptions{From: []byte("b")}, "[b=2 c= \xff\xff=last]"},
		{eventlog.ScanOptions{From: []byte("a"), To: []byte("c")}, "[a=1 b=2]"},
		{eventlog.ScanOptions{From: []byte("a"), To: []byte("c"), Reverse: true}, "[b=2 a=1]"},
		{eventlog.ScanOptions{Reverse: true, Limit: 2}, "[\xff\xff=last c=]"},
		{eventlog.ScanOptions{From: []byte("aa"), Limit: 1}, "[b=2]"},
		{eventlog.ScanOptions{From: []byte("c"), To: []byte("a")}, "[]"},
		{eventlog.ScanOptions{To: []byte{}}, "[]"},
	} {
		if got := fmt.Sprint(d.scan(s, test.opts)); got != test.want {
			t.Errorf("%+v: %q, want %q", test.opts, got, test.want)
		}
	}
	row, err := d.rows().DerivedGet(d.ctx, s, []byte("a"))
	if err != nil || string(row.Key) != "a" || string(row.Value) != "1" || row.At != at {
		t.Errorf("row %+v, %v", row, err)
	}
	row.Value[0] = 'z'
	for _, none := range []string{"", "aa", "z"} {
		if row, err := d.rows().DerivedGet(d.ctx, s, []byte(none)); !errors.Is(err, eventlog.ErrNotFound) {
			t.Errorf("row %q: %+v, %v", none, row, err)
		}
	}
	d.some("t")
	next := d.at(0)
	d.put(s, at, next, eventlog.DerivedChange{Key: []byte("a"), Delete: true}, eventlog.DerivedChange{Key: []byte("none"), Delete: true}, put("b", "3"))
	d.are(s, next, "\x00=zero", "b=3", "c=", "\xff\xff=last")
	if row, err := d.rows().DerivedGet(d.ctx, s, []byte("c")); err != nil || row.At != at || len(row.Value) != 0 {
		t.Errorf("a row that was not written again: %+v, %v", row, err)
	}
	d.put(s, next, next, put("d", "4")) // it need not go on
	d.reopen()
	d.are(s, next, "\x00=zero", "b=3", "c=", "d=4", "\xff\xff=last")
	if err := d.rows().DerivedDrop(d.ctx, s); err != nil {
		t.Error(err)
	}
	d.are(s, eventlog.At{})
	if err := d.rows().DerivedDrop(d.ctx, s); err != nil {
		t.Errorf("dropped again: %v", err)
	}
	d.put(s, eventlog.At{}, next, put("n", "new"))
	d.are(s, next, "n=new")
}

// Rows of different owners, threads and scopes never meet, whatever their names.
func testDerivedWalls(t *testing.T, d *derived) {
	owner := func(scope, thread, owner string) eventlog.Space {
		return eventlog.Space{Scope: scope, Thread: thread, Owner: owner}
	}
	spaces := []eventlog.Space{
		owner("s", "t", "a"), owner("s", "t", "ab"), owner("s", "t", "b"), owner("s", "t2", "a"), owner("s2", "t", "a"),
		owner("s", "", "a"), owner("s", "", "ab"), owner("s2", "", "a"), owner("s\x00", "", "a"), owner("s", "", "\x01a"), owner("", "", "a"),
	}
	for _, s := range spaces {
		if s.Thread != "" {
			d.append(eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread}, eventlog.Batch{Events: [][]byte{custom("x", 1)}})
		}
	}
	at := d.at(0)
	for i, s := range spaces {
		d.put(s, eventlog.At{}, at, put("b", fmt.Sprint(i)))
	}
	for i, s := range spaces {
		d.are(s, at, fmt.Sprintf("b=%d", i))
	}
	for _, test := range []struct{ scope, thread, want string }{
		{"s", "t", "[a ab b]"}, {"s", "t2", "[a]"}, {"s2", "t", "[a]"}, {"s", "", "[\x01a a ab]"}, {"s2", "", "[a]"}, {"s\x00", "", "[a]"}, {"none", "", "[]"}, {"", "", "[a]"},
	} {
		var got []string
		for s, err := range d.rows().DerivedSpaces(d.ctx, test.scope, test.thread) {
			if err != nil || s.At != at || s.Space.Scope != test.scope || s.Space.Thread != test.thread {
				t.Errorf("space %+v, %v", s, err)
			}
			got = append(got, s.Space.Owner)
		}
		slices.Sort(got)
		if fmt.Sprint(got) != test.want {
			t.Errorf("scope %q thread %q: the owners are %q, want %q", test.scope, test.thread, got, test.want)
		}
	}
	if err := d.rows().DerivedDrop(d.ctx, spaces[0]); err != nil {
		t.Fatal(err)
	}
	d.are(spaces[0], eventlog.At{})
	for i, s := range spaces[1:] {
		d.are(s, at, fmt.Sprintf("b=%d", i+1))
	}
	if err := d.rows().DerivedForget(d.ctx, "a"); err != nil {
		t.Fatal(err)
	}
	for i, s := range spaces {
		if s.Owner == "a" {
			d.are(s, eventlog.At{})
		} else {
			d.are(s, at, fmt.Sprintf("b=%d", i))
		}
	}
}

// An owner is forgotten everywhere, however much there is of it.
func testDerivedForget(t *testing.T, d *derived) {
	const threads = 600
	for i := range threads {
		s := space(fmt.Sprintf("t%04d", i))
		d.some(s.Thread)
		var changes []eventlog.DerivedChange
		for j := range 1 + i%3*100 {
			changes = append(changes, put(fmt.Sprint(j), "v"))
		}
		d.put(s, eventlog.At{}, d.at(0), changes...)
		if s.Owner = "viewer"; i%100 == 0 {
			d.put(s, eventlog.At{}, d.at(0), put("k", "v"))
		}
	}
	for range 2 {
		if err := d.rows().DerivedForget(d.ctx, "view"); err != nil {
			t.Fatal(err)
		}
		for i := range threads {
			owners := 0
			for range d.rows().DerivedSpaces(d.ctx, "s", fmt.Sprintf("t%04d", i)) {
				owners++
			}
			if want := map[bool]int{true: 1}[i%100 == 0]; owners != want {
				t.Fatalf("thread %d has %d owners, want %d", i, owners, want)
			}
		}
	}
	if err := d.rows().DerivedForget(d.ctx, ""); !errors.Is(err, eventlog.ErrInvalid) {
		t.Errorf("forget nobody: %v", err)
	}
}

// What cannot be written is refused with its reason, and nothing of it is there.
func testDerivedRefused(t *testing.T, d *derived) {
	d.some("t")
	at := d.at(0)
	ahead := eventlog.At{Position: at.Position + 1}
	long := string(bytes.Repeat([]byte("k"), eventlog.DerivedKeyBytes+1))
	big := make([]byte, eventlog.DerivedBatchBytes)
	d.put(space("t"), eventlog.At{}, at, put("k", "v"))
	for _, test := range []struct {
		name  string
		space eventlog.Space
		batch eventlog.DerivedBatch
		want  error
	}{
		{"ahead of the watermark", space("t"), eventlog.DerivedBatch{From: at, To: ahead}, eventlog.ErrInvalid},
		{"backwards", space("t"), eventlog.DerivedBatch{From: ahead, To: at}, eventlog.ErrInvalid},
		{"nowhere", space("t"), eventlog.DerivedBatch{From: at}, eventlog.ErrInvalid},
		{"no key", space("t"), eventlog.DerivedBatch{From: at, To: at, Changes: []eventlog.DerivedChange{put("ok", ""), put("", "v")}}, eventlog.ErrInvalid},
		{"long key", space("t"), eventlog.DerivedBatch{From: at, To: at, Changes: []eventlog.DerivedChange{put(long, "v")}}, eventlog.ErrTooLarge},
		{"too much", space("t"), eventlog.DerivedBatch{From: at, To: at, Changes: []eventlog.DerivedChange{{Key: []byte("k"), Value: big}}}, eventlog.ErrTooLarge},
		{"no thread", space("none"), eventlog.DerivedBatch{To: at}, eventlog.ErrThreadNotFound},
		{"no scope", eventlog.Space{Thread: "t", Owner: "o"}, eventlog.DerivedBatch{To: at}, eventlog.ErrInvalid},
		{"no owner", eventlog.Space{Scope: "s", Thread: "t"}, eventlog.DerivedBatch{To: at}, eventlog.ErrInvalid},
		{"long owner", eventlog.Space{Scope: "s", Thread: "t", Owner: long}, eventlog.DerivedBatch{To: at}, eventlog.ErrTooLarge},
		{"owner of bytes", eventlog.Space{Scope: "s", Thread: "t", Owner: "\xff"}, eventlog.DerivedBatch{To: at}, eventlog.ErrInvalid},
		{"removals of a scope", eventlog.Space{Scope: "s", Owner: "o"}, eventlog.DerivedBatch{To: d.at(1)}, eventlog.ErrStale},
	} {
		if err := d.rows().DerivedWrite(d.ctx, test.space, test.batch); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	d.are(space("t"), at, "k=v")
	ended, cancel := context.WithCancel(d.ctx)
	cancel()
	if err := d.rows().DerivedWrite(ended, space("t"), eventlog.DerivedBatch{From: at, To: at}); !errors.Is(err, context.Canceled) {
		t.Errorf("write of a call that was given up: %v", err)
	}
	for _, err := range d.rows().DerivedScan(ended, space("t"), eventlog.ScanOptions{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("scan of a call that was given up: %v", err)
		}
	}
	if _, err := d.rows().DerivedAt(d.ctx, space("none")); !errors.Is(err, eventlog.ErrThreadNotFound) {
		t.Errorf("rows of no thread: %v", err)
	}
}

// A write that does not go on from where the rows are is refused, and says where
// they are.
func testDerivedExactlyOnce(t *testing.T, d *derived) {
	d.some("t")
	first := d.at(0)
	s := space("t")
	d.put(s, eventlog.At{}, first, put("n", "1"))
	d.some("t")
	second := d.at(0)
	again := eventlog.DerivedBatch{From: first, To: second, Changes: []eventlog.DerivedChange{put("n", "2")}}
	d.put(s, again.From, again.To, again.Changes...)
	for _, from := range []eventlog.At{first, {}} {
		again.From = from
		err := d.rows().DerivedWrite(d.ctx, s, again)
		var stale *eventlog.StaleError
		if !errors.Is(err, eventlog.ErrStale) || !errors.As(err, &stale) || stale.Expected != from || stale.Actual != second {
			t.Errorf("from %+v: %v", from, err)
		}
	}
	d.are(s, second, "n=2")
	// Of writers that go on from the same point, one gets through.
	d.some("t")
	third := d.at(0)
	var all sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		all.Go(func() {
			results[i] = d.rows().DerivedWrite(d.ctx, s, eventlog.DerivedBatch{From: second, To: third, Changes: []eventlog.DerivedChange{put("n", fmt.Sprint("by ", i))}})
		})
	}
	all.Wait()
	won := -1
	for i, err := range results {
		switch {
		case err == nil && won < 0:
			won = i
		case !errors.Is(err, eventlog.ErrStale):
			t.Errorf("writer %d: %v", i, err)
		}
	}
	d.are(s, third, fmt.Sprint("n=by ", won))
	// Anew from wherever they are; what was there is gone.
	batch := eventlog.DerivedBatch{Anew: true, To: first, Changes: []eventlog.DerivedChange{put("m", "1")}}
	if err := d.rows().DerivedWrite(d.ctx, s, batch); err != nil {
		t.Fatal(err)
	}
	d.are(s, first, "m=1")
}

// Many rows are read whole, in both directions, and none twice.
func testDerivedManyRows(t *testing.T, d *derived) {
	d.some("t")
	s, at := space("t"), d.at(0)
	const n = 3000
	var changes []eventlog.DerivedChange
	var want []string
	for i := range n {
		k, v := fmt.Sprintf("%06d", i), string(bytes.Repeat([]byte{byte('a' + i%26)}, i%2000))
		changes = append(changes, put(k, v))
		want = append(want, k+"="+v)
	}
	d.put(s, eventlog.At{}, at, changes...)
	if got := d.scan(s, eventlog.ScanOptions{}); !slices.Equal(got, want) {
		t.Errorf("%d rows, not %d, or others", len(got), n)
	}
	if got := d.scan(s, eventlog.ScanOptions{From: []byte("000100"), To: []byte("002900")}); !slices.Equal(got, want[100:2900]) {
		t.Errorf("%d rows of a part, or others", len(got))
	}
	slices.Reverse(want)
	if got := d.scan(s, eventlog.ScanOptions{Reverse: true}); !slices.Equal(got, want) {
		t.Errorf("%d rows backwards, or others", len(got))
	}
	if got := d.scan(s, eventlog.ScanOptions{Reverse: true, Limit: 1234}); !slices.Equal(got, want[:1234]) {
		t.Errorf("%d rows with a limit, or others", len(got))
	}
	for range d.rows().DerivedScan(d.ctx, s, eventlog.ScanOptions{}) {
		break // nothing is left open
	}
}

// Rows are gone with what their thread has lost, and those made of it are taken no
// more; those of other threads and of the scope stay.
func testDerivedRemoved(t *testing.T, d *derived) {
	say := func(thread string) {
		d.append(key(thread), eventlog.Batch{Events: [][]byte{
			[]byte(`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"user"}`), []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hi"}`),
		}})
	}
	scope := eventlog.Space{Scope: "s", Owner: "view"}
	for _, thread := range []string{"erased", "cleared", "redacted", "other"} {
		say(thread)
		d.put(space(thread), eventlog.At{}, d.at(0), put("a", thread), put("b", thread))
	}
	at := d.at(0)
	d.put(scope, eventlog.At{}, at, put("a", "all"))
	other, err := d.rows().DerivedAt(d.ctx, space("other"))
	if err != nil {
		t.Fatal(err)
	}
	erased, err1 := d.log.Erase(d.ctx, key("erased"), eventlog.RemoveOptions{})
	cleared, err2 := d.log.Clear(d.ctx, key("cleared"), eventlog.RemoveOptions{})
	redacted, err3 := d.log.Redact(d.ctx, key("redacted"), eventlog.Redaction{Message: "m"}, eventlog.RemoveOptions{})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, r := range []eventlog.Receipt{erased, cleared, redacted} {
		if place := r.Place(eventlog.PlaceDerived); place.Count < 2 || place.Bytes == 0 {
			t.Errorf("receipt of the %v: %+v", r.Removal, place)
		}
		if !slices.ContainsFunc(r.Holders, func(h string) bool { return bytes.Contains([]byte(h), []byte(`"view"`)) }) {
			t.Errorf("the receipt of the %v does not name the rows of the scope: %q", r.Removal, r.Holders)
		}
	}
	check := func() {
		t.Helper()
		_, looked := d.rows().DerivedAt(d.ctx, space("erased"))
		_, got := d.rows().DerivedGet(d.ctx, space("erased"), []byte("a"))
		written := d.rows().DerivedWrite(d.ctx, space("erased"), eventlog.DerivedBatch{To: at})
		var scanned, listed error
		for _, scanned = range d.rows().DerivedScan(d.ctx, space("erased"), eventlog.ScanOptions{}) {
		}
		for _, listed = range d.rows().DerivedSpaces(d.ctx, "s", "erased") {
		}
		for i, err := range []error{looked, got, written, scanned, listed} {
			if !errors.Is(err, eventlog.ErrErased) {
				t.Errorf("call %d for the erased thread: %v", i, err)
			}
		}
		d.are(space("other"), other, "a=other", "b=other")
		d.are(scope, at, "a=all")
	}
	check()
	for _, thread := range []string{"cleared", "redacted"} {
		d.are(space(thread), eventlog.At{})
		err := d.rows().DerivedWrite(d.ctx, space(thread), eventlog.DerivedBatch{To: d.at(0), Changes: []eventlog.DerivedChange{put("a", "old")}})
		var stale *eventlog.StaleError
		if !errors.Is(err, eventlog.ErrStale) || !errors.As(err, &stale) || stale.Removals != 1 {
			t.Errorf("a write of what was before: %v", err)
		}
		d.are(space(thread), eventlog.At{})
		d.put(space(thread), eventlog.At{}, d.at(1), put("c", "new"))
	}
	after := d.at(1)
	d.reopen()
	check()
	d.are(space("cleared"), after, "c=new")
	d.are(space("redacted"), after, "c=new")
}

// While a thread is removed from, what was derived before never shows again,
// however many write.
func testDerivedRemovedMeanwhile(t *testing.T, d *derived) {
	for round := range 6 {
		thread := fmt.Sprint("t", round)
		d.some(thread)
		s := space(thread)
		var all sync.WaitGroup
		stop := make(chan struct{})
		for w := range 3 {
			own := s
			own.Owner = fmt.Sprint("o", w)
			all.Go(func() {
				from := eventlog.At{}
				for {
					select {
					case <-stop:
						return
					default:
					}
					to := d.at(0)
					err := d.rows().DerivedWrite(d.ctx, own, eventlog.DerivedBatch{From: from, To: to, Changes: []eventlog.DerivedChange{put("k", "before")}})
					if from = to; err != nil {
						return
					}
				}
			})
		}
		var err error
		if round%2 == 0 {
			_, err = d.log.Erase(d.ctx, key(thread), eventlog.RemoveOptions{})
		} else {
			_, err = d.log.Clear(d.ctx, key(thread), eventlog.RemoveOptions{})
		}
		close(stop)
		all.Wait()
		if err != nil {
			t.Fatal(err)
		}
		for space, err := range d.rows().DerivedSpaces(d.ctx, "s", thread) {
			if round%2 == 0 && errors.Is(err, eventlog.ErrErased) {
				break
			}
			t.Errorf("round %d: %+v, %v", round, space, err)
		}
	}
}

// After a crash rows are those of some write, whole, and a writer that goes on
// from a write that was lost is told.
func testDerivedCrash(t *testing.T, d *derived) {
	d.some("t")
	s := space("t")
	var points []eventlog.At
	from := eventlog.At{}
	for i := range 20 {
		d.some("t")
		to := d.at(0)
		d.put(s, from, to, put("a", fmt.Sprint(i)), put("b", fmt.Sprint(i)))
		points = append(points, to)
		from = to
	}
	d.crash()
	at, err := d.rows().DerivedAt(d.ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	n := slices.Index(points, at)
	if n < 0 && at != (eventlog.At{}) {
		t.Fatalf("the rows are at %+v, where nobody has written them", at)
	}
	var want []string
	if n >= 0 {
		want = []string{fmt.Sprint("a=", n), fmt.Sprint("b=", n)}
	}
	d.are(s, at, want...)
	if at != from {
		if err := d.rows().DerivedWrite(d.ctx, s, eventlog.DerivedBatch{From: from, To: from}); !errors.Is(err, eventlog.ErrStale) {
			t.Errorf("a write that goes on from what was lost: %v", err)
		}
	}
	d.put(s, at, from, put("a", "on"), put("b", "on"))
	d.are(s, from, "a=on", "b=on")
}

// A closed log says so.
func testDerivedClose(t *testing.T, d *derived) {
	d.some("t")
	rows, at := d.rows(), d.at(0)
	d.close()
	_, looked := rows.DerivedAt(d.ctx, space("t"))
	written := rows.DerivedWrite(d.ctx, space("t"), eventlog.DerivedBatch{To: at})
	dropped := rows.DerivedDrop(d.ctx, space("t"))
	for i, err := range []error{looked, written, dropped} {
		if !errors.Is(err, eventlog.ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	d.open()
}

// Whatever is done, the rows are what a map would hold.
func testDerivedModel(t *testing.T, d *derived) {
	type kept struct {
		at   eventlog.At
		rows map[string]string
	}
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		thread := fmt.Sprint("t", round)
		d.some(thread)
		spaces := []eventlog.Space{space(thread), {Scope: "s", Thread: thread, Owner: "v"}, {Scope: "s", Owner: thread}}
		model := make([]kept, len(spaces))
		removals := uint64(0)
		pick := rapid.SampledFrom([]string{"a", "b", "bb", "c", "\x00", "\xff"})
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(spaces)-1).Draw(rt, "space")
			m, s := &model[i], spaces[i]
			switch op := rapid.IntRange(0, 9).Draw(rt, "op"); {
			case op == 0:
				if err := d.rows().DerivedDrop(d.ctx, s); err != nil {
					rt.Fatal(err)
				}
				*m = kept{}
			case op == 1:
				if _, err := d.log.Clear(d.ctx, key(thread), eventlog.RemoveOptions{}); err != nil {
					rt.Fatal(err)
				}
				removals++
				model[0], model[1] = kept{}, kept{}
			case op == 2:
				d.reopen()
			default:
				d.some(thread)
				b := eventlog.DerivedBatch{From: m.at, To: d.at(removals), Anew: rapid.IntRange(0, 5).Draw(rt, "anew") == 0}
				if s.Thread == "" {
					b.To.Removals = 0
				}
				next := maps.Clone(m.rows)
				if next == nil || b.Anew {
					next = make(map[string]string)
				}
				for range rapid.IntRange(0, 4).Draw(rt, "changes") {
					k, v := pick.Draw(rt, "key"), rapid.StringN(0, 5, -1).Draw(rt, "value")
					if rapid.Bool().Draw(rt, "delete") {
						b.Changes = append(b.Changes, eventlog.DerivedChange{Key: []byte(k), Delete: true})
						delete(next, k)
					} else {
						b.Changes = append(b.Changes, put(k, v))
						next[k] = v
					}
				}
				if err := d.rows().DerivedWrite(d.ctx, s, b); err != nil {
					rt.Fatal(err)
				}
				*m = kept{at: b.To, rows: next}
			}
			for i, m := range model {
				var want []string
				for _, k := range slices.Sorted(maps.Keys(m.rows)) {
					want = append(want, k+"="+m.rows[k])
				}
				if got := d.scan(spaces[i], eventlog.ScanOptions{}); !slices.Equal(got, want) {
					rt.Fatalf("%+v has %q, want %q", spaces[i], got, want)
				}
				if at, err := d.rows().DerivedAt(d.ctx, spaces[i]); err != nil || at != m.at {
					rt.Fatalf("%+v is at %+v, %v, want %+v", spaces[i], at, err, m.at)
				}
			}
		}
	})
}
