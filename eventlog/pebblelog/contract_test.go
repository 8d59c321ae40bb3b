package pebblelog_test

import (
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		os.Exit(childMain(dir))
	}
	goleak.VerifyTestMain(m)
}

func TestContract(t *testing.T) {
	logtest.Run(t, func(t *testing.T) logtest.Factory {
		return &memory{fs: vfs.NewCrashableMem()}
	})
}

func TestDerivedContract(t *testing.T) {
	logtest.RunDerived(t, func(t *testing.T) logtest.Factory {
		return &memory{fs: vfs.NewCrashableMem()}
	})
}

// memory is a log on a file system in memory that loses, in a crash, all that
// was not synced.
type memory struct {
	fs   *vfs.MemFS
	log  *pebblelog.Log
	opts pebblelog.Options
}

func (m *memory) Open(t *testing.T, c logtest.Config) eventlog.Log {
	t.Helper()
	opts := m.opts
	opts.FS, opts.Limits, opts.Now, opts.After = m.fs, c.Limits, c.Now, c.After
	log, err := pebblelog.Open("store", opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	m.log = log
	return log
}

func (m *memory) Crash(t *testing.T) {
	t.Helper()
	left := m.fs.CrashClone(vfs.CrashCloneCfg{})
	if err := m.log.Close(); err != nil {
		t.Errorf("close of the log that crashed: %v", err)
	}
	m.fs = left
}
