package api

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/eventlog"
)

// Receipt says what a removal removed (eventlog.Receipt).
type Receipt struct {
	Thread        ID               `json:"thread"`
	Number        uint64           `json:"number"` // 0: of a dry run
	Removal       eventlog.Removal `json:"removal"`
	Time          time.Time        `json:"time"`
	Position      uint64           `json:"position"`
	Reason        string           `json:"reason"`
	Actor         string           `json:"actor"`
	Created       time.Time        `json:"created"` // of the thread
	Generation    uint64           `json:"generation"`
	Message       ID               `json:"message,omitempty"`
	First         uint64           `json:"first"`
	Last          uint64           `json:"last"`
	FirstPosition uint64           `json:"firstPosition"`
	LastPosition  uint64           `json:"lastPosition"`
	Places        []Place          `json:"places"`
	DiskBytes     uint64           `json:"diskBytes"`
	Removed       bool             `json:"removed"`
	Gone          *time.Time       `json:"gone"` // from the files; null: not yet
	Holders       []string         `json:"holders"`
}

// Place is what a removal found in one place.
type Place struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
	Bytes uint64 `json:"bytes"`
}

func receiptOf(r eventlog.Receipt) Receipt {
	out := Receipt{
		Thread: ID(r.Thread.Thread), Number: r.Number, Removal: r.Removal, Time: r.Time, Position: r.Position,
		Reason: r.Reason, Actor: r.Actor, Created: r.Created, Generation: r.Generation, Message: ID(r.Message),
		First: r.First, Last: r.Last, FirstPosition: r.FirstPosition, LastPosition: r.LastPosition,
		Places: []Place{}, DiskBytes: r.DiskBytes, Removed: r.Removed, Holders: append([]string{}, r.Holders...),
	}
	for _, p := range r.Places {
		out.Places = append(out.Places, Place(p))
	}
	if !r.Gone.IsZero() {
		out.Gone = &r.Gone
	}
	return out
}

// RemovalRequest is the body of POST /v1/threads/{thread}/erase, clear and
// redact; it may be empty.
type RemovalRequest struct {
	Reason   string  `json:"reason,omitempty"`
	Actor    string  `json:"actor,omitempty"`
	DryRun   bool    `json:"dryRun,omitempty"`
	TakeOver bool    `json:"takeOver,omitempty"` // of clear and redact
	Expect   *uint64 `json:"expect,omitempty"`   // the thread's last seq
	Message  ID      `json:"message,omitempty"`  // of redact: the id, or
	Seq      uint64  `json:"seq,omitempty"`      // a record that carries it
}

func (s *Server) removal(w http.ResponseWriter, r *http.Request) (in RemovalRequest, opts eventlog.RemoveOptions, err error) {
	body, err := s.readBody(w, r)
	if err != nil {
		return in, opts, err
	}
	if len(body) > 0 && json.Unmarshal(body, &in) != nil {
		return in, opts, badRequest("read the body", `the body is {"reason": …, "actor": …, "dryRun": …} and what else the request takes`)
	}
	opts = eventlog.RemoveOptions{Reason: in.Reason, Actor: in.Actor, DryRun: in.DryRun, TakeOver: in.TakeOver}
	if in.Expect != nil {
		opts.Expect = eventlog.LastSeq(*in.Expect)
	}
	return in, opts, nil
}

func answerReceipt(w http.ResponseWriter, r eventlog.Receipt, err error) error {
	if err != nil {
		return err
	}
	return writeJSON(w, receiptOf(r))
}

func (s *Server) erase(w http.ResponseWriter, r *http.Request, name string) error {
	_, opts, err := s.removal(w, r)
	if err != nil {
		return err
	}
	done, err := s.scope(r).Erase(r.Context(), name, opts)
	return answerReceipt(w, done, err)
}

func (s *Server) clear(w http.ResponseWriter, r *http.Request, name string) error {
	_, opts, err := s.removal(w, r)
	if err != nil {
		return err
	}
	done, err := s.scope(r).Clear(r.Context(), name, opts)
	return answerReceipt(w, done, err)
}

func (s *Server) redact(w http.ResponseWriter, r *http.Request, name string) error {
	in, opts, err := s.removal(w, r)
	if err != nil {
		return err
	}
	what := eventlog.Redaction{Message: string(in.Message), Seq: in.Seq}
	done, err := s.scope(r).Redact(r.Context(), name, what, opts)
	return answerReceipt(w, done, err)
}

// ReceiptList is a list of receipts.
type ReceiptList struct {
	Receipts []Receipt `json:"receipts"`
}

func (s *Server) receipts(w http.ResponseWriter, r *http.Request) error {
	return listReceipts(w, s.scope(r).Receipts(r.Context(), ""))
}

func (s *Server) threadReceipts(w http.ResponseWriter, r *http.Request, name string) error {
	return listReceipts(w, s.scope(r).Receipts(r.Context(), name))
}

func listReceipts(w http.ResponseWriter, found iter.Seq2[eventlog.Receipt, error]) error {
	list := ReceiptList{Receipts: []Receipt{}}
	for r, err := range found {
		if err != nil {
			return err
		}
		list.Receipts = append(list.Receipts, receiptOf(r))
	}
	return writeJSON(w, list)
}

// RetainRequest is the body of POST /v1/retain.
type RetainRequest struct {
	IdleFor string           `json:"idleFor"` // as "720h"
	Action  eventlog.Removal `json:"action"`  // clear or erase
	DryRun  bool             `json:"dryRun,omitempty"`
}

// retain applies a policy to the scope, once.
func (s *Server) retain(w http.ResponseWriter, r *http.Request) error {
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	var in RetainRequest
	idle := time.Duration(0)
	if err = json.Unmarshal(body, &in); err == nil {
		idle, err = time.ParseDuration(in.IdleFor)
	}
	if err != nil {
		return badRequest("retain", `the body is {"idleFor": "720h", "action": "clear" or "erase", "dryRun": …}`)
	}
	policy := agstore.Policy{Scope: s.scope(r).Name(), IdleFor: idle, Action: in.Action}
	return listReceipts(w, s.store.Retain(r.Context(), policy, in.DryRun))
}

// gone refuses a cursor into what was removed, before anything is answered.
func gone(info eventlog.Thread, after uint64) error {
	if after == 0 || after >= info.FirstSeq {
		return nil
	}
	gap := &eventlog.GapError{From: min(after+1, info.FirstSeq-1), To: info.FirstSeq - 1, Reason: eventlog.RemovalClear}
	return &eventlog.Error{Op: "go on in", Key: info.Key, Seq: after, Err: gap}
}

// gapHeader says, of an answer from the beginning, which seqs are not in it
// because they were removed: "1-500".
const gapHeader = "Agstore-Gap"

func noteGap(w http.ResponseWriter, info eventlog.Thread, after uint64) {
	if after == 0 && info.FirstSeq > 1 {
		w.Header().Set(gapHeader, fmt.Sprintf("1-%d", info.FirstSeq-1))
	}
}

// gap tells a client that reads events that its thread was cleared: what it has
// is gone, and what comes is of the new generation. It has no id, since there is
// no such event.
func (o *stream) gap(g *eventlog.GapError) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.format == formatRecords {
		o.buf = append(AppendGap(o.buf[:0], g), '\n')
	} else {
		o.buf = append(appendGap(append(o.buf[:0], "event: gap\ndata: "...), g), "\n\n"...)
	}
	o.send()
	if o.live {
		o.flush()
	}
	return o.failed == nil
}

// AppendGap appends a gap as it stands among records: one JSON object on one
// line, {"gap":{"from":…,"to":…,"reason":…}}, without the line's end.
func AppendGap(out []byte, g *eventlog.GapError) []byte {
	return append(appendGap(append(out, `{"gap":`...), g), '}')
}

func appendGap(out []byte, g *eventlog.GapError) []byte {
	return fmt.Appendf(out, `{"from":%d,"to":%d,"reason":%q}`, g.From, g.To, g.Reason)
}
