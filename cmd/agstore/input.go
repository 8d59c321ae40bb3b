package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tmaxmax/go-sse"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// lineError is what is wrong with one line of an input.
type lineError struct {
	line int // from 1, blank lines counted
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// openInput opens a file, or standard input for "-".
func (a *app) openInput(ctx context.Context, name string) (r io.Reader, stop func(), err error) {
	if name == "-" {
		r, stop = a.io.reader(ctx)
		return r, stop, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil // nothing was written to it
}

// item is one entry of an input that should be an event: a line of JSONL, the
// data of an SSE frame, or the event of a record.
type item struct {
	data      []byte // without outer white space; valid until the next call
	line      int    // where it begins
	unwrapped bool   // it was in a record
}

// eventReader reads a stream of events: JSONL, SSE, or the records of an export.
// Which of them it is, the first line that is not blank says. It does not judge
// whether the items are events.
type eventReader struct {
	lines   *lineReader
	limit   int
	sse     bool
	records bool
	knows   bool // which of them
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{lines: newLineReader(r, limit), limit: limit}
}

// next gives the next item, io.EOF at the end, or a lineError that wraps a
// TooLargeError; the call after that goes on with the next line. Echoes among
// records are passed over. What is no record among them is a lineError that wraps
// an errRefused.
func (r *eventReader) next() (item, error) {
	for {
		line, n, err := r.lines.next()
		if err != nil {
			return item{}, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if (r.records || !r.knows) && isGap(line) {
			continue
		}
		if !r.knows {
			r.knows, r.sse, r.records = true, isSSE(line), readEnvelope(line) != nil
		}
		if r.records {
			e := readEnvelope(line)
			if e == nil {
				return item{line: n}, &lineError{n, &refusal{"no record, as the lines before it are"}}
			}
			if e.echoed() {
				continue
			}
			return r.checked(item{e.Event, n, true})
		}
		if !r.sse {
			return r.checked(item{data: line, line: n})
		}
		found, err := r.frame(line, n)
		if err != nil || found.data != nil {
			return found, err
		}
	}
}

func (r *eventReader) checked(found item) (item, error) {
	if len(found.data) > r.limit {
		return found, &lineError{found.line, &eventlog.TooLargeError{What: "event", Size: len(found.data), Limit: r.limit}}
	}
	return found, nil
}

// isSSE reports whether a stream that begins with line is one of server-sent
// events; a line of JSONL begins with a brace.
func isSSE(line []byte) bool {
	for _, field := range []string{"data:", "id:", "event:", "retry:", ":"} {
		if bytes.HasPrefix(line, []byte(field)) {
			return true
		}
	}
	return false
}

// frame reads the rest of the frame that begins with line and gives its data;
// nil if it has none.
func (r *eventReader) frame(line []byte, n int) (item, error) {
	text := append(append([]byte(nil), line...), '\n')
	for {
		line, _, err := r.lines.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return item{line: n}, err
		}
		text = append(append(text, line...), '\n')
		if err != nil || len(line) == 0 {
			break
		}
		if len(text) > 2*r.limit+64 {
			return item{line: n}, &lineError{n, &eventlog.TooLargeError{What: "event", Size: len(text), Limit: r.limit}}
		}
	}
	text = append(text, '\n')
	var data []byte
	for event, err := range sse.Read(bytes.NewReader(text), &sse.ReadConfig{MaxEventSize: len(text) + 1}) {
		if err != nil {
			return item{line: n}, &lineError{n, err}
		}
		data = append(data, oneLine([]byte(event.Data))...)
	}
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return item{}, nil
	}
	return r.checked(item{data: data, line: n})
}

// oneLine is an event on one line: a line break in it is white space between its
// tokens. What is no event stays as it is, to be refused as it is: a line break
// within a string must not be mended.
func oneLine(event []byte) []byte {
	var h agui.Header
	if bytes.IndexByte(event, '\n') < 0 || agui.ReadHeader(event, &h) != nil {
		return event
	}
	return bytes.ReplaceAll(event, []byte{'\n'}, []byte{' '})
}

// lineReader reads lines of a bounded length and numbers them.
type lineReader struct {
	r     *bufio.Reader
	limit int // of an event
	n     int
	buf   []byte
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// lineRoom is how much longer than its event a line may be: what a record has
// beside it, of which the run's id is the longest; the name of an SSE field.
const lineRoom = 64 << 10

// next gives the next line without its end. A line over the limit is a lineError
// that wraps a TooLargeError; no more of it than the limit is held.
func (l *lineReader) next() (line []byte, n int, err error) {
	l.n++
	l.buf = l.buf[:0]
	if l.n == 1 {
		if mark, _ := l.r.Peek(len(byteOrderMark)); bytes.Equal(mark, byteOrderMark) {
			_, _ = l.r.Discard(len(byteOrderMark)) // they were peeked at
		}
	}
	size := 0
	for {
		part, err := l.r.ReadSlice('\n')
		size += len(part)
		if size <= l.limit+lineRoom {
			l.buf = append(l.buf, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (!errors.Is(err, io.EOF) || size == 0) {
			return nil, l.n, err
		}
		break
	}
	if size > l.limit+lineRoom {
		return nil, l.n, &lineError{l.n, &eventlog.TooLargeError{What: "event", Size: size, Limit: l.limit}}
	}
	line = bytes.TrimSuffix(l.buf, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'}), l.n, nil
}
