package logtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

func started(run string) []byte {
	return fmt.Appendf(nil, `{"type":"RUN_STARTED","threadId":"t","runId":%s}`, agui.Quote(run))
}

func startedFrom(run, parent string) []byte {
	return fmt.Appendf(nil, `{"type":"RUN_STARTED","threadId":"t","runId":%s,"parentRunId":%s}`, agui.Quote(run), agui.Quote(parent))
}

func finished(run string) []byte {
	return fmt.Appendf(nil, `{"type":"RUN_FINISHED","threadId":"t","runId":%s}`, agui.Quote(run))
}

func custom(name string, n int) []byte {
	return fmt.Appendf(nil, `{"type":"CUSTOM","name":%s,"value":%d}`, agui.Quote(name), n)
}

func textStart(id string) []byte {
	return fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_START","messageId":%s,"role":"assistant"}`, agui.Quote(id))
}

func text(id, delta string) []byte {
	return fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":%s,"delta":%s}`, agui.Quote(id), agui.Quote(delta))
}

func batch(events ...[]byte) eventlog.Batch { return eventlog.Batch{Events: events} }

// shape is the types and runs of records in one line.
func shape(records []eventlog.Record) string {
	var out []string
	for _, r := range records {
		s := string(r.Type)
		if !r.Run.IsZero() {
			s += "@" + r.Run.String()
		}
		if r.Echo {
			s += "(echo)"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func wantShape(t *testing.T, records []eventlog.Record, want ...string) {
	t.Helper()
	if got := shape(records); got != strings.Join(want, " ") {
		t.Errorf("records:\n got %s\nwant %s", got, strings.Join(want, " "))
	}
}

func seqs(records []eventlog.Record) []uint64 {
	var out []uint64
	for _, r := range records {
		out = append(out, r.Seq)
	}
	return out
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
		return
	}
	var typed *eventlog.Error
	if !errors.As(err, &typed) || typed.Op == "" {
		t.Errorf("%s: %T is no eventlog.Error with an operation", what, err)
	}
}

// wantAs checks the kind of an error and gives its details.
func wantAs[E error](t *testing.T, what string, err, kind error) (detail E) {
	t.Helper()
	wantErr(t, what, err, kind)
	if !errors.As(err, &detail) {
		t.Fatalf("%s: %v is no %T", what, err, detail)
	}
	return detail
}
