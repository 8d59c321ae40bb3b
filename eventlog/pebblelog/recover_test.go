package pebblelog

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Recovery that is killed in the middle is finished by the next one: every run
// is closed once, by one commit of its thread.
func TestRecoveryKilledInTheMiddle(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewCrashableMem()
	l, err := Open("d", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	const threads = 12
	key := func(i int) eventlog.ThreadKey { return eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(i)} }
	for i := range threads {
		w, err := l.BeginRun(ctx, key(i), eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","runId":"r"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(ctx, []byte(`{"type":"TEXT_MESSAGE_START","messageId":"m"}`)); err != nil {
			t.Fatal(err)
		}
	}
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	closed := 0
	for cut := 1; ; cut++ {
		fs, left = left, nil
		n := 0
		var opts Options
		opts.FS = fs
		opts.Listener.RunRecovered = func(eventlog.ThreadKey, agui.RunKey) {
			if n++; n == cut {
				left = fs.CrashClone(vfs.CrashCloneCfg{})
			}
		}
		if l, err = Open("d", opts); err != nil {
			t.Fatal(err)
		}
		for i := range threads {
			runs, err := l.Runs(ctx, key(i))
			if err != nil || len(runs) != 1 || runs[0].Status != agui.RunAbandoned || runs[0].Held || runs[0].Events != 4 {
				t.Fatalf("cut %d: thread %d: %+v, %v", cut, i, runs, err)
			}
		}
		if left == nil {
			closed = n
			break
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if closed > threads {
		t.Errorf("%d runs were closed by the last recovery", closed)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = Open("d", Options{FS: fs, Listener: Listener{RunRecovered: func(k eventlog.ThreadKey, _ agui.RunKey) {
		t.Errorf("recovered again: %v", k)
	}}}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
}

// What a process finds after a kill is made durable before anybody can read it:
// a power cut right after the open takes nothing back.
func TestOpenMakesDurableWhatItFinds(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, l, eventlog.ThreadKey{Scope: "s", Thread: "t"}, 3)
	// The files as a kill leaves them, WAL and all.
	killed := vfs.NewMem()
	if ok, err := vfs.Clone(vfs.Default, killed, dir, "d"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	k, err := Open("d", Options{FS: killed})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if m := k.db.Metrics(); m.Flush.Count == 0 {
		t.Errorf("nothing was flushed: %d WAL files, %d tables", m.WAL.Files, m.Total().TablesCount)
	}
	if th, err := k.Thread(context.Background(), eventlog.ThreadKey{Scope: "s", Thread: "t"}); err != nil || th.LastSeq != 3 {
		t.Errorf("%+v, %v", th, err)
	}
}
