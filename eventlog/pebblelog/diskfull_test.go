package pebblelog_test

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// smallDisk is a file system with room for so many bytes more. What is removed
// gives nothing back.
type smallDisk struct {
	vfs.FS
	mu   sync.Mutex
	room int
}

func (d *smallDisk) take(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = min(n, d.room)
	d.room -= n
	return n
}

func (d *smallDisk) give(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room += n
}

func (d *smallDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return &smallFile{f, d}, err
}

func (d *smallDisk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to, c)
	return &smallFile{f, d}, err
}

type smallFile struct {
	vfs.File
	disk *smallDisk
}

// Write writes what there is room for.
func (f *smallFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:f.disk.take(len(p))])
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

// Must hold 5: a disk that is full refuses clearly; the process lives, reads
// answer, nothing acknowledged is lost, and the same log goes on once there is
// space.
func TestFullDisk(t *testing.T) {
	mem := vfs.NewCrashableMem()
	disk := &smallDisk{FS: mem, room: 300 << 10}
	ticks := make(chan time.Time, 1)
	l, err := pebblelog.Open("d", pebblelog.Options{FS: disk}.WithTicks(ticks))
	if err != nil {
		t.Fatal(err)
	}
	k := threadKey("t")
	event := []byte(`{"type":"CUSTOM","name":"x","value":"` + strings.Repeat("full", 2500) + `"}`)
	var acked uint64
	for round := range 3 {
		for {
			done, err := l.Append(t.Context(), k, eventlog.Batch{Events: [][]byte{event}})
			if err != nil {
				if !errors.Is(err, eventlog.ErrNoSpace) {
					t.Fatalf("round %d: %v", round, err)
				}
				break
			}
			acked = done.Last
		}
		if th, err := l.Thread(t.Context(), k); err != nil || th.LastSeq != acked {
			t.Errorf("round %d: acknowledged %d, it is %+v, %v", round, acked, th, err)
		}
		for range 3 {
			if _, err := l.Append(t.Context(), k, eventlog.Batch{Events: [][]byte{event}}); !errors.Is(err, eventlog.ErrNoSpace) {
				t.Errorf("round %d: full, and %v", round, err)
			}
		}
		disk.give(2 << 20)
		for err = errors.New("full"); err != nil; {
			var done eventlog.Appended
			if done, err = l.Append(t.Context(), k, eventlog.Batch{Events: [][]byte{event}}); err == nil {
				acked = done.Last
			} else {
				select {
				case ticks <- time.Time{}:
				default:
				}
			}
		}
		disk.take(1 << 20)
	}
	disk.give(64 << 20)
	left := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if l, err = pebblelog.Open("d", pebblelog.Options{FS: left}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if th, err := l.Thread(t.Context(), k); err != nil || th.LastSeq < acked {
		t.Errorf("acknowledged %d, found %+v, %v", acked, th, err)
	}
	for _, fault := range logtest.Check(t.Context(), l) {
		t.Errorf("unsound: %v", fault)
	}
}
