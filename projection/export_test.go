package projection

import (
	"context"

	"github.com/agstore/agstore/eventlog"
)

// StoreAlways makes views be stored whenever they are brought up to date.
func (v *Views) StoreAlways() { v.always = true }

// Apply is what Run does for a thread that was written to.
func (v *Views) Apply(ctx context.Context, thread eventlog.ThreadKey) error {
	return v.apply(ctx, thread)
}
