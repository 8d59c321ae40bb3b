package fold

import (
	"slices"
	"strings"

	"github.com/agstore/agstore/agui"
)

// interrupt is a question and what became of it (R18, R19).
type interrupt struct {
	Interrupt
	by     map[*run]bool // the runs that answer it and have not ended
	number int           // among the fold's interrupts, from 0
	saved  bool          // what the last Changes said of it is still so
}

// changed takes note that it is no longer what it was.
func (d *durable) changed(in *interrupt) {
	if in.saved {
		in.saved = false
		d.changedInterrupts = append(d.changedInterrupts, in.number)
	}
}

// resume notes the answers a run starts with.
func (d *durable) resume(r *run, entries []agui.Resume) {
	for _, e := range entries {
		in := d.latest[e.InterruptID] // the pending one, if there is one
		if in == nil {
			d.diagnose("unknown_interrupt", "interruptId", e.InterruptID)
			continue
		}
		d.changed(in)
		in.Answers = append(in.Answers, Answer{
			Run: r.Key, Seq: d.seq, Status: strings.Clone(e.Status),
			Payload: e.Payload.Detach(), Metadata: e.Metadata.Detach(),
		})
		if in.Answered {
			d.diagnose("answered_before", "interruptId", e.InterruptID)
			continue
		}
		if !in.by[r] {
			in.answering(r)
		}
	}
}

// answering takes note that a run answers it.
func (in *interrupt) answering(r *run) {
	if in.by == nil {
		in.by = make(map[*run]bool)
	}
	in.by[r] = true
	r.answers = append(r.answers, in)
}

// retire takes away what a run that ends has answered, if it ends well.
func (d *durable) retire(r *run, well bool) {
	for _, in := range r.answers {
		d.changed(in)
		delete(in.by, r)
		if well && !in.Answered {
			in.Answered = true
			d.answered++
		}
	}
	// Those that are answered stay in the list until they are half of it.
	if d.answered > len(d.pending)/2 {
		d.pending = slices.DeleteFunc(d.pending, func(in *interrupt) bool { return in.Answered })
		d.answered = 0
	}
	r.answers = nil
}

// raise adds a question that a run ends with. One that is open already stays in
// its place, with the newest members.
func (d *durable) raise(r *run, asked *agui.Interrupt) {
	if _, ok := expiry(asked.ExpiresAt); !ok && asked.ExpiresAt.Set {
		d.diagnose("unreadable_expiry", "interruptId", asked.ID)
	}
	in := d.latest[asked.ID]
	if in == nil || in.Answered {
		in = &interrupt{number: len(d.interrupts)}
		d.latest[strings.Clone(asked.ID)] = in
		d.interrupts = append(d.interrupts, in)
		d.pending = append(d.pending, in)
	} else {
		d.diagnose("interrupt_raised_again", "interruptId", asked.ID)
		d.changed(in)
	}
	in.Interrupt.Interrupt, in.Run, in.Seq = detachedInterrupt(asked), r.Key, d.seq
}

// show gives the interrupt as it is now.
func (in *interrupt) show() Interrupt {
	out := in.Interrupt
	out.Answers = slices.Clip(out.Answers)
	switch {
	case in.Answered:
		out.Status = InterruptAnswered
	case len(in.by) > 0:
		out.Status = InterruptAnswering
	default:
		out.Status = InterruptPending
	}
	return out
}
