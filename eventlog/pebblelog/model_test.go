package pebblelog_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog/logtest"
)

// Must hold 6.
func TestModel(t *testing.T) {
	logtest.RunModel(t, func(t *testing.T) logtest.Factory {
		return &memory{fs: vfs.NewCrashableMem()}
	})
}
