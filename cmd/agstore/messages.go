package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// copyMessages reads a JSON list of AG-UI messages to its end and appends it as
// one run that was started with them and has ended.
func (im *importer) copyMessages(ctx context.Context, in io.Reader) error {
	limit := eventlog.DefaultLimits().EventBytes
	text, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err != nil {
		return err
	}
	if len(text) > limit {
		return &eventlog.TooLargeError{What: "list of messages", Size: len(text), Limit: limit}
	}
	list, err := readMessages(text)
	if err != nil {
		return err
	}
	run := im.runID
	switch {
	case run != "":
	case im.key != "":
		// The same call again must come to the same run.
		digest := sha256.Sum256(bytes.Join([][]byte{[]byte(im.key), list}, []byte{0}))
		run = "run-" + hex.EncodeToString(digest[:16])
	default:
		run = "run-" + strings.ToLower(rand.Text())
	}
	ids := fmt.Sprintf(`"threadId":%s,"runId":%s`, agui.Quote(im.thread), agui.Quote(run))
	im.batch = [][]byte{
		fmt.Appendf(nil, `{"type":"RUN_STARTED",%s,"input":{%s,"messages":%s,"tools":[],"context":[]}}`, ids, ids, list),
		fmt.Appendf(nil, `{"type":"RUN_FINISHED",%s}`, ids),
	}
	return im.flush(ctx)
}

// readMessages checks a list of AG-UI messages and gives it on one line. The
// values in it stay as they are written.
func readMessages(text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, byteOrderMark)
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil || list == nil {
		reason := "null"
		if err != nil {
			reason = err.Error()
		}
		return nil, &refusal{"no JSON list of messages: " + reason}
	}
	for i, m := range list {
		if _, err := agui.DecodeMessage(m); err != nil {
			reason := err.Error()
			if bad := (*agui.MalformedError)(nil); errors.As(err, &bad) {
				reason = strings.TrimSpace(bad.Field + " " + bad.Reason) // of an event it was no part
			}
			return nil, &refusal{fmt.Sprintf("message %d of %d: %s", i+1, len(list), reason)}
		}
	}
	var line bytes.Buffer
	err := json.Compact(&line, text)
	return line.Bytes(), err
}
