package projection

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/agstore/agstore/eventlog"
)

// Stored lists the projections that are kept, and behind them those of which there
// are only rows: other programs keep them, or none does any more.
func (s *Reducers) Stored(ctx context.Context) (out []Status, err error) {
	for _, p := range s.all {
		out = append(out, p.Status())
	}
	for space, err := range s.log.DerivedSpaces(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		name, ok := strings.CutPrefix(space.Space.Owner, ownerPrefix)
		if !ok || !nameForm.MatchString(name) || s.find(name) != nil {
			continue
		}
		c, err := readControl(ctx, s.log, name)
		if err != nil {
			return nil, err
		}
		at, err := s.log.DerivedAt(ctx, eventlog.Space{Owner: ownerOf(name, c.current())})
		if err != nil {
			return nil, err
		}
		out = append(out, Status{
			Name: name, Version: c.current().Version, Global: c.Global, Position: at.Position, Serving: c.Active.Version,
			Building: c.Next.Number != 0 || c.Rebuild, Target: c.Target,
		})
	}
	return out, nil
}

// Rebuild makes a projection anew as [Reduced.Rebuild] does. One that is not kept
// here is marked, so that the program that keeps it makes it anew when it opens the
// store; ErrNotFound if there is nothing of it.
func (s *Reducers) Rebuild(ctx context.Context, name string, progress func(Status)) error {
	p, notKept := s.Get(name)
	if notKept == nil {
		return p.Rebuild(ctx, progress)
	}
	if !nameForm.MatchString(name) {
		return notKept
	}
	space := controlSpace(name)
	at, err := s.log.DerivedAt(ctx, space)
	if err != nil {
		return err
	}
	if at == (eventlog.At{}) {
		return notKept
	}
	c, err := readControl(ctx, s.log, name)
	if err != nil {
		return err
	}
	c.Rebuild = true
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	err = s.log.DerivedWrite(ctx, space, eventlog.DerivedBatch{From: at, To: at, Changes: []eventlog.DerivedChange{{Key: []byte(controlKey), Value: text}}})
	if err == nil && progress != nil {
		progress(Status{Name: name, Version: c.current().Version, Global: c.Global, Serving: c.Active.Version, Building: true})
	}
	return err
}

// readControl reads which builds of a projection there are. What cannot be read is
// as if there were none.
func readControl(ctx context.Context, log eventlog.Derived, name string) (c control, err error) {
	row, err := log.DerivedGet(ctx, controlSpace(name), []byte(controlKey))
	if errors.Is(err, eventlog.ErrNotFound) || errors.Is(err, eventlog.ErrCorrupt) {
		return control{}, nil
	}
	if err == nil && json.Unmarshal(row.Value, &c) != nil {
		c = control{}
	}
	return c, err
}
