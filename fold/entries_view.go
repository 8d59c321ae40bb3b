package fold

import (
	"slices"

	"github.com/agstore/agstore/agui"
)

// Rest is what the entry of ListRest says of the other lists.
type Rest struct {
	Seq        uint64 // of the last record
	Messages   int    // how many there are
	Interrupts []int  // which of ListInterrupts are pending

	pendingCalls []string
}

// RestOf reads the beginning of the entry of ListRest of a fold of the profile
// [Durable]. The error is a [*SnapshotError].
func RestOf(entry []byte) (Rest, error) {
	r := &entriesReader{durableReader: durableReader{snapshotReader: newEntryReader(Options{})}}
	r.body = entry
	r.in.Reset(entry)
	r.fields(restFields)
	rest := r.restHead()
	return rest, r.err
}

func (r *entriesReader) restHead() Rest {
	rest := Rest{Seq: r.uint(), Messages: r.int()}
	for range r.list(1) {
		rest.Interrupts = append(rest.Interrupts, r.int())
	}
	rest.pendingCalls = r.texts()
	return rest
}

// ViewOf makes part of a view from some entries of a fold of the profile
// [Durable], without a fold: of ListRest the one there is, all of ListState, any
// of ListMessages and ListInterrupts, in their order, and of ListRuns the last.
// The view has what these say: Seq, Run, Status, Messages, State,
// PendingInterrupts and PendingToolCalls. Errors as those of [RestoreEntries].
func ViewOf(e *Entries, opts Options) (*View, error) {
	opts.Limits = opts.Limits.WithDefaults()
	d := newDurable(opts)
	d.saved = &saved{}
	r := &entriesReader{durableReader: durableReader{snapshotReader: newEntryReader(opts), d: d}}
	v := new(View)
	r.read(ListRest, e[ListRest], func(int) {
		r.fields(restFields)
		rest := r.restHead()
		v.Seq, v.PendingToolCalls = rest.Seq, rest.pendingCalls
		r.skip()
	})
	r.read(ListRuns, e[ListRuns], func(int) {
		r.fields(runFields + 1)
		var last Run
		r.run(&last)
		r.opt()
		v.Run, v.Status = last.Key, last.Status
	})
	t := &d.transcript
	r.read(ListMessages, e[ListMessages], func(i int) { r.messageEntry(t, i, e[ListMessages][i]) })
	r.stateEntries(e[ListState])
	r.read(ListInterrupts, e[ListInterrupts], func(int) {
		if in := r.pendingEntry(); !in.Answered {
			v.PendingInterrupts = append(v.PendingInterrupts, in)
		}
	})
	if r.err != nil {
		return nil, r.err
	}
	v.Messages = make([]agui.Message, 0, t.count)
	for m := t.first; m != nil; m = m.next {
		v.Messages = append(v.Messages, *m.show())
	}
	if d.state.Present() {
		v.State = slices.Clip(d.state.AppendJSON(nil))
	}
	return v, nil
}

// skip passes over what is left of an entry.
func (r *entriesReader) skip() { _, _ = r.in.Seek(0, 2) }

// pendingEntry reads an interrupt whose runs are not known.
func (r *entriesReader) pendingEntry() Interrupt {
	r.fields(askedFields)
	var in interrupt
	r.interrupt(&in.Interrupt.Interrupt)
	in.Run, in.Seq, in.Answered = r.runKey(nil), r.uint(), r.bool()
	in.Answers = readList(r.snapshotReader, answerFields, r.answer)
	by := r.list(1)
	r.skip()
	out := in.show()
	if by > 0 && !in.Answered {
		out.Status = InterruptAnswering
	}
	return out
}
