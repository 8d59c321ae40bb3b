package pebblelog

import "github.com/cockroachdb/pebble/v2"

// WithEngine gives a test the last word on how the engine is opened.
func (o Options) WithEngine(f func(*pebble.Options)) Options {
	o.engine = f
	return o
}
