package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// format is how events go to a client.
type format int

const (
	formatSSE     format = iota // frames with the seq as id
	formatJSONL                 // the events, one a line
	formatRecords               // the records, one a line, everything
)

const (
	typeSSE    = "text/event-stream"
	typeNDJSON = "application/x-ndjson"
)

// formatOf reads the parameter "format" or, without it, the Accept header.
func formatOf(r *http.Request) (format, error) {
	switch r.URL.Query().Get("format") {
	case "sse":
		return formatSSE, nil
	case "jsonl":
		return formatJSONL, nil
	case "records":
		return formatRecords, nil
	case "":
		if strings.Contains(r.Header.Get("Accept"), typeNDJSON) {
			return formatJSONL, nil
		}
		return formatSSE, nil
	}
	return 0, badRequest("read format", "formats are sse, jsonl and records")
}

// stream is an answer that is written record by record.
type stream struct {
	format  format
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	live    bool // each record goes out at once

	mu     sync.Mutex // the heartbeat writes too
	buf    []byte
	failed error
}

// newStream begins the answer; live if records are waited for in it. stop ends
// its heartbeat; call it before the
// handler returns.
func (s *Server) newStream(w http.ResponseWriter, f format, live bool) (out *stream, stop func()) {
	h := w.Header()
	h.Set("Content-Type", typeSSE)
	if f != formatSSE {
		h.Set("Content-Type", typeNDJSON)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold the events back
	w.WriteHeader(http.StatusOK)
	out = &stream{format: f, w: w, control: http.NewResponseController(w), timeout: s.opts.WriteTimeout, live: live}
	out.flush()
	if f != formatSSE || !live {
		return out, func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		out.beat(ctx, s.opts.Heartbeat)
	}()
	return out, func() { cancel(); <-done }
}

func (o *stream) beat(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			o.mu.Lock()
			o.buf = append(o.buf[:0], ": \n\n"...)
			o.send()
			o.flush()
			o.mu.Unlock()
		}
	}
}

// flush hands what was written to the network. Called with mu held, or before
// anybody else has the stream.
func (o *stream) flush() {
	if err := o.control.Flush(); err != nil && o.failed == nil {
		o.failed = err
	}
}

// send writes buf. Called with mu held.
func (o *stream) send() {
	if o.failed != nil {
		return
	}
	// Not every ResponseWriter has deadlines; those without keep waiting.
	_ = o.control.SetWriteDeadline(time.Now().Add(o.timeout))
	if _, err := o.w.Write(o.buf); err != nil {
		o.failed = err
	}
}

// record writes one record and reports whether the client still listens. The
// echo of a start, which AG-UI clients must not see twice, is a bare id.
func (o *stream) record(r eventlog.Record, echo bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = o.buf[:0]
	switch o.format {
	case formatSSE:
		o.buf = AppendFrame(o.buf, r, echo)
	case formatJSONL:
		if !echo {
			o.buf = append(appendLine(o.buf, r.Event), '\n')
		}
	case formatRecords:
		o.buf = append(AppendRecord(o.buf, r), '\n')
	}
	o.send()
	if o.live {
		o.flush()
	}
	return o.failed == nil
}

// reached does nothing: each record is sent with its seq.
func (o *stream) reached(uint64) bool { return true }

// event writes an event that is no record, as a frame; seq, if it is not 0, is
// its id. It reports whether the client still listens.
func (o *stream) event(seq uint64, event []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = o.buf[:0]
	if seq > 0 {
		o.buf = append(strconv.AppendUint(append(o.buf, "id: "...), seq, 10), '\n')
	}
	o.buf = append(appendLine(append(o.buf, "data: "...), event), "\n\n"...)
	o.send()
	if o.live {
		o.flush()
	}
	return o.failed == nil
}

// AppendFrame appends a record as an SSE frame: its seq as id, its event as
// data, on one line. Of an echo only the id.
func AppendFrame(out []byte, r eventlog.Record, echo bool) []byte {
	out = append(strconv.AppendUint(append(out, "id: "...), r.Seq, 10), '\n')
	if !echo {
		out = append(append(append(out, "data: "...), appendLine(nil, r.Event)...), '\n')
	}
	return append(out, '\n')
}

// appendLine is an event on one line. Line breaks in an event can only be white
// space between its tokens.
func appendLine(out, event []byte) []byte {
	if bytes.IndexByte(event, '\n') < 0 && bytes.IndexByte(event, '\r') < 0 {
		return append(out, event...)
	}
	for _, c := range event {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		out = append(out, c)
	}
	return out
}

// AppendRecord appends a record in the format "records": one JSON object on one
// line, without the line's end.
func AppendRecord(out []byte, r eventlog.Record) []byte {
	run := []byte("null")
	if !r.Run.IsZero() {
		run = agui.Quote(r.Run.ID)
	}
	out = fmt.Appendf(out, `{"seq":%d,"position":%d,"time":"%s","run":%s,"attempt":%d,"type":%s,"origin":"%s","echo":%t,`,
		r.Seq, r.Position, r.Time.UTC().Format(time.RFC3339Nano), run, r.Run.Attempt, agui.Quote(string(r.Type)), r.Origin, r.Echo)
	if r.Redacted {
		out = append(out, `"redacted":true,`...)
	}
	return append(appendLine(append(out, `"event":`...), r.Event), '}')
}
