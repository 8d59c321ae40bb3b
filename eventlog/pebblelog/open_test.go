package pebblelog_test

import (
	"context"
	"errors"
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
