package projection

import (
	"context"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

// PageOptions say which messages of a transcript a page has.
type PageOptions struct {
	// Before is the place behind its last message, as the From of the page behind
	// it; 0: the end of the transcript.
	Before int
	// Count is how many it should have; 0 is 50.
	Count int
}

// Page is a part of the view at the head of a thread: some messages in a row, the
// state, and the questions that are pending.
type Page struct {
	// View has Thread, Seq, Run, Status, Messages, State, PendingInterrupts and
	// PendingToolCalls; nothing else.
	View *fold.View
	// From is the place of the first message in the transcript, from 0, and Total
	// how many there are. Places stay, but for a MESSAGES_SNAPSHOT and results of
	// earlier calls.
	From, Total int
	// Parted: the page begins with a result whose call is further in front. A page
	// is up to 100 messages longer than asked for to avoid that.
	Parted bool
	// Rows is how many stored rows were read for it; 0: the view was in memory, or
	// had to be folded.
	Rows int
}

// joined is how much longer than asked for a page may be.
const joined = 100

// Page gives a page of the transcript at the head of a thread. If the view is
// stored as it is now, it reads the rows of the page and not those of the
// rest; else it takes the page from the whole view. ErrThreadNotFound if there is
// no such thread.
func (v *Views) Page(ctx context.Context, thread eventlog.ThreadKey, opts PageOptions) (*Page, error) {
	if opts.Count <= 0 {
		opts.Count = 50
	}
	if v.rows != nil && v.opts.Fold.Profile == fold.Durable && !v.has(thread) {
		page, err := v.stored(ctx, thread, opts)
		if page != nil || err != nil && !unusable(err) {
			return page, err
		}
	}
	view, err := v.Head(ctx, thread)
	if err != nil {
		return nil, err
	}
	page := &Page{Total: len(view.Messages)}
	from, to := opts.window(page.Total)
	page.From = from
	for from-page.From < joined && parted(view.Messages[page.From:to]) && page.From > 0 {
		page.From--
	}
	page.View = &fold.View{
		Thread: view.Thread, Seq: view.Seq, Run: view.Run, Status: view.Status, State: view.State,
		Messages: view.Messages[page.From:to], PendingInterrupts: view.PendingInterrupts, PendingToolCalls: view.PendingToolCalls,
	}
	page.Parted = parted(page.View.Messages)
	return page, nil
}

// window is what is asked for of a transcript of so many messages.
func (o PageOptions) window(total int) (from, to int) {
	to = total
	if o.Before > 0 {
		to = min(o.Before, total)
	}
	return max(0, to-o.Count), to
}

// parted reports whether messages begin with a result.
func parted(messages []agui.Message) bool {
	return len(messages) > 0 && messages[0].Role == agui.RoleTool
}

// stored gives a page of a checkpoint that is true at the end of the thread; nil
// if there is none.
func (v *Views) stored(ctx context.Context, thread eventlog.ThreadKey, opts PageOptions) (*Page, error) {
	info, err := v.log.Thread(ctx, thread)
	if err != nil {
		return nil, err
	}
	runs, err := v.log.Runs(ctx, thread)
	if err != nil {
		return nil, err
	}
	tree := eventlog.Tree(runs)
	r := newReader(ctx, v.rows, thread, info.Removals, v.opts.Fold)
	c, err := r.find(agui.Lineage(tree, info.Head), tree, info.LastSeq)
	if c == nil || err != nil {
		return nil, err
	}
	if c.seq < info.LastSeq {
		behind := eventlog.ReadOptions{From: c.seq + 1, To: info.LastSeq, Lineage: &info.Head}
		for _, err := range v.log.Read(ctx, thread, behind) {
			return nil, err // there is more in the lineage
		}
	}
	rest, err := fold.RestOf(c.rest)
	if err != nil {
		return nil, err
	}
	e := &fold.Entries{fold.ListRest: {c.rest}}
	read := func(l fold.List, from, to int) ([][]byte, error) { return r.entries(c, l, from, to) }
	if e[fold.ListState], err = read(fold.ListState, 0, c.count(fold.ListState)); err != nil {
		return nil, err
	}
	if n := c.count(fold.ListRuns); n > 0 {
		if e[fold.ListRuns], err = read(fold.ListRuns, n-1, n); err != nil {
			return nil, err
		}
	}
	for _, i := range rest.Interrupts {
		in, err := read(fold.ListInterrupts, i, i+1)
		if err != nil {
			return nil, err
		}
		e[fold.ListInterrupts] = append(e[fold.ListInterrupts], in...)
	}
	page := &Page{Total: rest.Messages}
	from, to := opts.window(page.Total)
	for page.From = from; ; page.From = max(0, page.From-10) {
		if e[fold.ListMessages], err = read(fold.ListMessages, page.From, to); err != nil {
			return nil, err
		}
		if page.View, err = fold.ViewOf(e, v.opts.Fold); err != nil {
			return nil, err
		}
		if !parted(page.View.Messages) || page.From == 0 || from-page.From >= joined {
			break
		}
	}
	// No more in front than it takes.
	messages := page.View.Messages
	for i := from - page.From; i > 0; i-- {
		if !parted(messages[i:]) {
			messages, page.From = messages[i:], page.From+i
			break
		}
	}
	page.View.Messages, page.Parted, page.Rows = messages, parted(messages), r.read
	page.View.Thread, page.View.Seq = thread.Thread, info.LastSeq
	return page, nil
}

// has reports whether a thread's view is in memory.
func (v *Views) has(thread eventlog.ThreadKey) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.open[thread]
	return ok
}
