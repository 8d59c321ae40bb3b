package logtest

import (
	"errors"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/eventlog"
)

// holder draws who holds a lease, and for how long.
func (c *modelCheck) holder(rt *rapid.T) eventlog.Holder {
	return eventlog.Holder{
		Owner: draw(rt, "owner", []string{"x", "y"}),
		TTL:   draw(rt, "ttl", []time.Duration{0, 0, time.Minute, 20 * time.Minute}),
	}
}

// given takes note of a writer and its lease.
func (c *modelCheck) given(w eventlog.Writer, m modelWriter) {
	m.generation = c.model.find(m.key).generation
	c.writers = append(c.writers, heldModel{writer: w, model: m})
	c.leases = append(c.leases, m)
}

// told is what a writer should have answered: one that has been refused says so
// for good, in the words of then.
func (w *heldModel) told(err, want error) error {
	if w.over && errors.Is(err, eventlog.ErrFenced) && (errors.Is(want, eventlog.ErrErased) || errors.Is(want, eventlog.ErrFenced)) {
		return eventlog.ErrFenced
	}
	w.over = w.over || errors.Is(want, eventlog.ErrFenced)
	return want
}

// attach makes a writer of any lease that was ever given.
func (c *modelCheck) attach(rt *rapid.T) {
	if len(c.leases) == 0 {
		return
	}
	m := draw(rt, "lease", c.leases)
	model, wantErr := c.model.attach(m)
	w, err := c.place.log.Attach(c.ctx, eventlog.Lease{Thread: m.key, Run: m.run, Epoch: m.epoch})
	c.answers(rt, "attach", nil, nil, err, wantErr)
	if err == nil {
		c.writers = append(c.writers, heldModel{writer: w, model: model})
	}
}

// appendLeased appends under any lease that was ever given.
func (c *modelCheck) appendLeased(rt *rapid.T) {
	if len(c.leases) == 0 {
		return
	}
	m := draw(rt, "lease", c.leases)
	var b modelBatch
	var events [][]byte
	b.events, events = c.events(rt, 0)
	var expect eventlog.Expect
	b.expect, expect = c.expect(rt, c.model.find(m.key).lastSeq())
	if maybe(rt, "with a key", 2) {
		b.key = draw(rt, "key", []string{"k", "l"})
	}
	lease := eventlog.Lease{Thread: m.key, Run: m.run, Epoch: m.epoch}
	for again := true; again; again = b.key != "" && maybe(rt, "again", 2) {
		want, wantErr := c.model.appendLeased(m, b)
		got, err := c.place.log.Append(c.ctx, m.key, eventlog.Batch{Events: events, Expect: expect, Key: b.key, Lease: &lease})
		c.answers(rt, fmt.Sprintf("append under a lease %q", events), got, want, err, wantErr)
	}
}

func (c *modelCheck) renew(rt *rapid.T) {
	if len(c.writers) == 0 {
		return
	}
	w := &c.writers[rapid.IntRange(0, len(c.writers)-1).Draw(rt, "writer")]
	least, most, wantErr := c.model.renew(w.model)
	lease, err := w.writer.Renew(c.ctx)
	c.answers(rt, "renew", nil, nil, err, wantErr)
	w.over = w.over || err != nil
	if err == nil && lease.TTL != 0 && (lease.Expires.Before(least) || lease.Expires.After(most)) {
		rt.Fatalf("renewed until %v, want %v to %v", lease.Expires, least, most)
	}
}

// removal compares the answers to a removal, and takes over into the model the
// commits by which the log has gone on with it, of which it may need any number.
func (c *modelCheck) removal(rt *rapid.T, what string, k eventlog.ThreadKey, got, want eventlog.Receipt, err, wantErr error, reason string) {
	rt.Helper()
	c.answers(rt, what, nil, nil, err, wantErr)
	if err != nil {
		return
	}
	t := c.model.find(k)
	known := int(want.Number) <= len(t.receipts)
	if known {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("%s again: receipt %+v\nwas %+v", what, got, want)
		}
		return
	}
	want.Reason, want.Actor = reason, "who"
	c.sameReceipt(rt, t, got, want)
	t.receipts = append(t.receipts, got)
	for commit, err := range c.place.log.Commits(c.ctx, c.model.position()+1) {
		if err != nil || commit.Thread != k || commit.Stream != eventlog.StreamControl || commit.First != 0 || commit.Count != 0 {
			rt.Fatalf("%s is gone on with by %+v, %v", what, commit, err)
		}
		c.model.commits = append(c.model.commits, commit)
	}
}

// sameReceipt compares what the model knows of a new receipt.
func (c *modelCheck) sameReceipt(rt *rapid.T, t *modelThread, got, want eventlog.Receipt) {
	rt.Helper()
	if !got.Removed || got.Gone.IsZero() || got.Gone.Before(got.Time) {
		rt.Fatalf("the receipt of what is removed is %+v", got)
	}
	for _, p := range want.Places {
		if g := got.Place(p.Name); g.Count != p.Count || (g.Bytes > 0) != (p.Count > 0) {
			rt.Fatalf("%d %s (%d bytes) in the receipt, want %d", g.Count, p.Name, g.Bytes, p.Count)
		}
	}
	if n := got.Place(eventlog.PlaceKeys).Count; n > uint64(len(t.keys)) {
		rt.Fatalf("%d keys in the receipt, %d were used", n, len(t.keys))
	}
	got.Places, got.Removed, got.Gone, got.DiskBytes, got.Holders = nil, false, time.Time{}, 0, nil
	want.Places = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		rt.Fatalf("receipt %+v\nwant    %+v", got, want)
	}
}

func (c *modelCheck) options(rt *rapid.T, k eventlog.ThreadKey) (*uint64, eventlog.RemoveOptions) {
	c.n++
	opts := eventlog.RemoveOptions{Reason: fmt.Sprint("reason ", c.n), Actor: "who", TakeOver: maybe(rt, "take over", 3)}
	limit, expect := c.expect(rt, c.model.find(k).lastSeq())
	opts.Expect = expect
	return limit, opts
}

func (c *modelCheck) clear(rt *rapid.T) {
	k := draw(rt, "thread", modelKeys)
	limit, opts := c.options(rt, k)
	want, wantErr := c.model.clear(k, limit, opts.TakeOver)
	got, err := c.place.log.Clear(c.ctx, k, opts)
	c.removal(rt, "clear", k, got, want, err, wantErr, opts.Reason)
}

// erase erases now and then: a thread is erased once.
func (c *modelCheck) erase(rt *rapid.T) {
	k := draw(rt, "thread", modelKeys)
	if !maybe(rt, "really", 3) {
		return
	}
	limit, opts := c.options(rt, k)
	want, wantErr := c.model.erase(k, limit, opts.Reason)
	got, err := c.place.log.Erase(c.ctx, k, opts)
	c.removal(rt, "erase", k, got, want, err, wantErr, opts.Reason)
}

func (c *modelCheck) redact(rt *rapid.T) {
	k := draw(rt, "thread", modelKeys)
	limit, opts := c.options(rt, k)
	message := draw(rt, "message", []string{"m", "n"})
	want, wantErr := c.model.redact(k, message, limit, opts.TakeOver)
	got, err := c.place.log.Redact(c.ctx, k, eventlog.Redaction{Message: message}, opts)
	c.removal(rt, "redact "+message, k, got, want, err, wantErr, opts.Reason)
}

// plan asks what a removal would remove, which removes nothing.
func (c *modelCheck) plan(rt *rapid.T) {
	k := draw(rt, "thread", modelKeys)
	t := c.model.find(k)
	var wantErr error
	switch {
	case t == nil:
		wantErr = eventlog.ErrThreadNotFound
	case t.erased != nil:
		wantErr = t.erased
	}
	got, err := c.place.log.Clear(c.ctx, k, eventlog.RemoveOptions{DryRun: true})
	c.answers(rt, "plan", nil, nil, err, wantErr)
	if err != nil {
		return
	}
	want := t.all(eventlog.RemovalClear)
	if got.Number != 0 || got.Removed || got.First != want.First || got.Last != want.Last {
		rt.Fatalf("planned %+v, want %+v", got, want)
	}
	for _, p := range want.Places {
		if n := got.Place(p.Name).Count; n != p.Count {
			rt.Fatalf("planned to remove %d %s, there are %d", n, p.Name, p.Count)
		}
	}
}

// sameReceipts compares all receipts of a thread with those that were given.
func (c *modelCheck) sameReceipts(rt *rapid.T, t *modelThread) {
	rt.Helper()
	n := 0
	for r, err := range c.place.log.Receipts(c.ctx, t.key.Scope, t.key.Thread) {
		if err != nil || n == len(t.receipts) || fmt.Sprint(r) != fmt.Sprint(t.receipts[n]) {
			rt.Fatalf("receipt %d of %d is %+v, %v", n+1, len(t.receipts), r, err)
		}
		n++
	}
	if n != len(t.receipts) {
		rt.Fatalf("%d receipts, want %d", n, len(t.receipts))
	}
}

// sameErased wants every reading call to say that the thread was erased.
func (c *modelCheck) sameErased(rt *rapid.T, t *modelThread) {
	rt.Helper()
	log := c.place.log
	_, thread := log.Thread(c.ctx, t.key)
	_, runs := log.Runs(c.ctx, t.key)
	_, read := c.records(rt, t.key, eventlog.ReadOptions{})
	var companion error
	for _, err := range log.Companion(c.ctx, t.key, 0, 0) {
		companion = err
	}
	for _, err := range []error{thread, runs, read, companion} {
		if !sameError(err, t.erased) {
			rt.Fatalf("erased thread %v: %v, want %v", t.key, err, t.erased)
		}
	}
}
