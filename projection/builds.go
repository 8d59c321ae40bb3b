package projection

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agstore/agstore/eventlog"
)

// A projection is built under a number. Each build has rows of its own, with the
// owner "p:NAME#NUMBER", so that one is answered from while another is made: of a
// new version of the reducer, or because somebody asked. In the space of the log
// that owner keeps how far the build is (the head's position), which scopes it
// knows, and which it is to make anew. Which builds there are stands in the space
// of the log of the owner "p:NAME".

// build is one of them.
type build struct {
	Number  int `json:"number"` // 0: none
	Version int `json:"version"`
}

// control is which builds there are.
type control struct {
	Active build  `json:"active"` // what is answered from
	Next   build  `json:"next"`   // what is being made
	Target uint64 `json:"target"` // position at which Next takes over
	Drop   []int  `json:"drop"`   // builds whose rows are to be removed
	Global bool   `json:"global"`
	// Rebuild: somebody who could not do it asked for another build.
	Rebuild bool `json:"rebuild,omitempty"`
}

const (
	controlKey  = "control"
	ownerPrefix = "p:"
)

func controlSpace(name string) eventlog.Space { return eventlog.Space{Owner: ownerPrefix + name} }

func ownerOf(name string, b build) string {
	return fmt.Sprintf("%s%s#%d", ownerPrefix, name, b.Number)
}

// space is where a build keeps the rows of a thread, or of a scope, or its own.
func (p *Reduced) space(b build, scope, thread string) eventlog.Space {
	return eventlog.Space{Scope: scope, Thread: thread, Owner: ownerOf(p.reducer.Name, b)}
}

// current is the build that is kept up to date.
func (c *control) current() build {
	if c.Next.Number != 0 {
		return c.Next
	}
	return c.Active
}

// load reads which builds there are, and decides which is to be kept.
func (p *Reduced) load(ctx context.Context) error {
	c, err := readControl(ctx, p.log, p.reducer.Name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saved = c
	version := p.reducer.Version
	c.Global = p.reducer.Global
	if !p.opts.ReadOnly && (c.current().Version != version || c.Rebuild) {
		if !c.Rebuild && c.Next.Number != 0 && c.Active.Version == version {
			c.Drop = append(c.Drop, c.Next.Number) // somebody has gone back
			c.Next, c.Target = build{}, 0
		} else {
			c.renew(version, p.log.Watermark())
		}
		c.Rebuild = false
	}
	p.control = c
	p.status.Building, p.status.Target, p.status.Serving = c.Next.Number != 0, c.Target, c.Active.Version
	at, err := p.log.DerivedAt(ctx, p.space(c.current(), "", ""))
	if err != nil {
		return err
	}
	redo, err := p.redoing(ctx, c.current())
	if err != nil {
		return err
	}
	// With states yet to be made anew it is nowhere, for who waits.
	if p.status.Position = at.Position; redo {
		p.status.Position = 0
	}
	return nil
}

// renew begins another build.
func (c *control) renew(version int, target uint64) {
	if c.Next.Number != 0 {
		c.Drop = append(c.Drop, c.Next.Number)
	}
	number := max(c.Active.Number, c.Next.Number)
	for _, n := range c.Drop {
		number = max(number, n)
	}
	c.Next, c.Target = build{Number: number + 1, Version: version}, target
}

// save stores which builds there are, if that has changed. In an empty log there
// is nothing to be stored.
func (p *Reduced) save(ctx context.Context) error {
	p.mu.Lock()
	c, saved := p.control, p.saved
	p.mu.Unlock()
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	before, err := json.Marshal(saved)
	if err != nil || string(before) == string(text) {
		return err
	}
	to := eventlog.At{Position: p.log.Watermark()}
	if to.Position == 0 {
		return nil
	}
	err = p.log.DerivedWrite(ctx, controlSpace(p.reducer.Name), eventlog.DerivedBatch{
		Anew: true, To: to, Changes: []eventlog.DerivedChange{{Key: []byte(controlKey), Value: text}},
	})
	if err == nil {
		p.mu.Lock()
		p.saved = c
		p.mu.Unlock()
	}
	return err
}

// prepare takes up a request for another build, and removes what is left of
// builds that are not wanted any more.
func (p *Reduced) prepare(ctx context.Context) error {
	p.mu.Lock()
	asked := p.rebuild
	if asked {
		p.control.renew(p.reducer.Version, p.log.Watermark())
		p.status.Position = 0
	}
	drop := append([]int(nil), p.control.Drop...)
	p.mu.Unlock()
	if err := p.save(ctx); err != nil {
		return err
	}
	if asked {
		p.mu.Lock()
		p.rebuild = false
		p.mu.Unlock()
	}
	if len(drop) == 0 {
		p.tell()
		return nil
	}
	for _, n := range drop {
		if err := p.log.DerivedForget(ctx, ownerOf(p.reducer.Name, build{Number: n})); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.control.Drop = append([]int(nil), p.control.Drop[len(drop):]...)
	p.mu.Unlock()
	if err := p.save(ctx); err != nil {
		return err
	}
	p.tell()
	return nil
}

// tell brings the status up to date.
func (p *Reduced) tell() {
	p.update(func(st *Status) {
		st.Building = p.control.Next.Number != 0 || p.rebuild
		st.Target, st.Serving = p.control.Target, p.control.Active.Version
	})
}

// arrived lets the build that was made take over, if it is that far.
func (p *Reduced) arrived(ctx context.Context, position uint64) (bool, error) {
	p.mu.Lock()
	c := &p.control
	there := c.Next.Number != 0 && position >= c.Target
	if there {
		if c.Active.Number != 0 {
			c.Drop = append(c.Drop, c.Active.Number)
		}
		c.Active, c.Next, c.Target = c.Next, build{}, 0
	}
	p.mu.Unlock()
	if !there {
		return false, nil
	}
	return true, p.save(ctx)
}
