package agstore

import "context"

// AwaitViews waits until what is durable has gone into the stored views.
func (s *Store) AwaitViews(ctx context.Context) error {
	return s.views.Wait(ctx, s.log.Watermark())
}
