package pebblelog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

func TestDirectoryHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	l, err := pebblelog.Open(dir, pebblelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = pebblelog.Open(dir, pebblelog.Options{})
	var locked *eventlog.LockedError
	if !errors.As(err, &locked) || !errors.Is(err, eventlog.ErrLocked) || locked.PID == 0 || locked.Host == "" || locked.Since.IsZero() {
		t.Fatalf("second open: %v", err)
	}
	key := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	w, err := l.BeginRun(context.Background(), key, eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(context.Background(), []byte(`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = pebblelog.Open(dir, pebblelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var types []string
	for r, err := range l.Read(context.Background(), key, eventlog.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, string(r.Type))
	}
	if len(types) != 4 || types[3] != "RUN_ERROR" {
		t.Fatal(types)
	}
}

// Whatever the owner file says, or does not say yet: a directory that this
// process holds is locked, by this process.
func TestLockedBeforeItIsSaidByWhom(t *testing.T) {
	dir := t.TempDir()
	l, err := pebblelog.Open(dir, pebblelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, said := range map[string]string{
		"nothing": "", "half of it": `{"pid":`, "somebody of before": `{"pid":1,"host":"elsewhere","since":"2020-01-02T03:04:05Z"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, "owner.json"), []byte(said), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := pebblelog.Open(dir, pebblelog.Options{})
		var locked *eventlog.LockedError
		if !errors.As(err, &locked) || locked.PID != os.Getpid() || !locked.Since.IsZero() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "owner.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := pebblelog.Open(dir, pebblelog.Options{}); !errors.Is(err, eventlog.ErrLocked) {
		t.Errorf("no owner file: %v", err)
	}
}

// Of many opens at once one gets the directory, and the others learn that it is
// locked.
func TestOpensAtOnce(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		const opens = 8
		var all sync.WaitGroup
		logs := make(chan *pebblelog.Log, opens)
		for range opens {
			all.Go(func() {
				l, err := pebblelog.Open(dir, pebblelog.Options{})
				if err == nil {
					logs <- l
				} else if !errors.Is(err, eventlog.ErrLocked) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		close(logs)
		got := 0
		for l := range logs {
			got++
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if got != 1 {
			t.Errorf("%d have it", got)
		}
	}
}
