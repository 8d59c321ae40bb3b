package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/problem"
	"github.com/agstore/agstore/eventlog"
)

// Options for New.
type Options struct {
	// Scope is the scope to act in; only a control socket lets its client
	// choose. Empty: the server's.
	Scope string
	// Transport carries the requests; nil: http.DefaultTransport.
	Transport http.RoundTripper
}

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	base  string
	scope string
	http  *http.Client
	hint  string // where no server answers
}

// New makes a client of the server at base, as "http://127.0.0.1:4180".
func New(base string, opts Options) *Client {
	return &Client{
		base: strings.TrimSuffix(base, "/"), scope: opts.Scope,
		http: &http.Client{Transport: opts.Transport},
		hint: "is agstore serve running there?",
	}
}

// Control makes a client of the program that holds the store in dir and serves
// its control socket.
func Control(dir string, opts Options) *Client {
	opts.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return api.DialControl(ctx, dir) },
	}
	c := New("http://control", opts)
	c.hint = "the program that held the store in " + dir + " has ended; try again"
	return c
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// do sends a request; an answer that is no success becomes an error.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	return c.send(ctx, method, path, query, nil, body)
}

// send is do with headers.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, header http.Header, body []byte) (*http.Response, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", eventlog.ErrInvalid, err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if c.scope != "" {
		req.Header.Set(api.ScopeHeader, c.scope)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &eventlog.Error{Op: "call " + redacted(c.base), Err: &unanswered{errors.Unwrap(err)}, Hint: c.hint}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what arrived will do
	return nil, problem.Read(resp.StatusCode, text)
}

// unanswered is why no server answered.
type unanswered struct{ cause error }

func (u *unanswered) Error() string { return fmt.Sprintf("no server answers: %v", u.cause) }
func (u *unanswered) Unwrap() error { return u.cause }

// Is reports that it is an ErrUnavailable.
func (u *unanswered) Is(target error) bool { return target == eventlog.ErrUnavailable }

// redacted is a URL without its password.
func redacted(base string) string {
	if u, err := url.Parse(base); err == nil {
		return u.Redacted()
	}
	return "the server"
}

func (c *Client) bytes(ctx context.Context, method, path string, query url.Values, body []byte) ([]byte, error) {
	resp, err := c.do(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, &eventlog.Error{Op: "read the answer", Err: fmt.Errorf("%w: %w", eventlog.ErrUnavailable, err)}
	}
	return out, nil
}

func (c *Client) decode(ctx context.Context, method, path string, query url.Values, body []byte, into any) error {
	out, err := c.bytes(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return &eventlog.Error{Op: "read the answer", Err: fmt.Errorf("%w: %w", eventlog.ErrUnavailable, err)}
	}
	return nil
}

func threadPath(thread string, rest string) string {
	return "/v1/threads/" + escape(thread) + rest
}

// escape is a path segment. Dots are escaped too: "." and ".." are threads, but
// as they stand they are not paths.
func escape(s string) string {
	return strings.ReplaceAll(url.PathEscape(s), ".", "%2E")
}

// Threads yields the threads of the scope in order of their ids.
func (c *Client) Threads(ctx context.Context) iter.Seq2[api.Thread, error] {
	return func(yield func(api.Thread, error) bool) {
		query := url.Values{}
		for {
			var page api.ThreadList
			if err := c.decode(ctx, http.MethodGet, "/v1/threads", query, nil, &page); err != nil {
				yield(api.Thread{}, err)
				return
			}
			for _, t := range page.Threads {
				if !yield(t, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("after", string(page.Next))
		}
	}
}

// ViewOptions say which view is wanted; the zero value is the head's.
type ViewOptions struct {
	Run      *string // at the end of this run
	At       *uint64 // when the thread had so many records
	Messages int     // only the newest so many messages; 0: all
	Profile  string  // "durable" or "reference"; empty: durable
	// History asks for the messages alone, as model providers accept them (see
	// replay.History); not together with Messages.
	History    bool
	Unanswered string // in a history, the result of calls that have none; empty: such calls are left out
}

// View gives a view of a thread as JSON; with History a JSON list of messages.
func (c *Client) View(ctx context.Context, thread string, opts ViewOptions) ([]byte, error) {
	query := url.Values{}
	if opts.Run != nil {
		query.Set("run", *opts.Run)
	}
	if opts.At != nil {
		query.Set("at", strconv.FormatUint(*opts.At, 10))
	}
	if opts.Messages > 0 {
		query.Set("messages", strconv.Itoa(opts.Messages))
	}
	if opts.Profile != "" {
		query.Set("profile", opts.Profile)
	}
	if opts.History {
		query.Set("history", "true")
	}
	if opts.Unanswered != "" {
		query.Set("unanswered", opts.Unanswered)
	}
	return c.bytes(ctx, http.MethodGet, threadPath(thread, ""), query, nil)
}

// Runs lists the runs of a thread in order of their starts.
func (c *Client) Runs(ctx context.Context, thread string) ([]api.Run, error) {
	var list api.RunList
	err := c.decode(ctx, http.MethodGet, threadPath(thread, "/runs"), nil, nil, &list)
	return list.Runs, err
}

// AppendOptions are the conditions of an append.
type AppendOptions struct {
	Expect *uint64 // the thread's last seq must be this
	Key    string  // idempotency key
	Run    *string // the run that the events belong to
	Parent *string // the run that the first RUN_STARTED continues
	Import bool    // the events are a finished stream: it leaves no run held
	// Lease writes the events as the run's, under its lease, and renews it; not
	// together with Run, Parent and Import.
	Lease *eventlog.Lease
}

// Append writes events to a thread as one batch. An event must not contain line
// breaks.
func (c *Client) Append(ctx context.Context, thread string, events [][]byte, opts AppendOptions) (api.Appended, error) {
	query := url.Values{}
	if opts.Expect != nil {
		query.Set("expect", strconv.FormatUint(*opts.Expect, 10))
	}
	if opts.Key != "" {
		query.Set("key", opts.Key)
	}
	if opts.Run != nil {
		query.Set("run", *opts.Run)
	}
	if opts.Lease != nil {
		leaseQuery(query, *opts.Lease)
	}
	if opts.Parent != nil {
		query.Set("parent", *opts.Parent)
	}
	if opts.Import {
		query.Set("origin", "import")
	}
	var done api.Appended
	err := c.decode(ctx, http.MethodPost, threadPath(thread, "/events"), query, bytes.Join(events, []byte("\n")), &done)
	return done, err
}

// BranchOptions say what a branch begins with.
type BranchOptions struct {
	From     string   // a run of the thread, or "root"
	Run      string   // the new run's id; empty: a random one
	Messages [][]byte // the turn it begins with: AG-UI messages
	Events   [][]byte // what the run holds
}

// Branch starts a run behind an earlier one, writes it and ends it.
func (c *Client) Branch(ctx context.Context, thread string, opts BranchOptions) (api.Branched, error) {
	var done api.Branched
	// Put together by hand: encoding/json would rewrite the events.
	body := append([]byte(`{"from":`), agui.Quote(opts.From)...)
	body = append(append(body, `,"run":`...), agui.Quote(opts.Run)...)
	body = append(append(append(body, `,"messages":[`...), bytes.Join(opts.Messages, []byte(","))...), ']')
	body = append(append(append(body, `,"events":[`...), bytes.Join(opts.Events, []byte(","))...), "]}"...)
	err := c.decode(ctx, http.MethodPost, threadPath(thread, "/branch"), nil, body, &done)
	return done, err
}

// EventOptions select events of a thread; the zero value is all stored ones.
type EventOptions struct {
	After  uint64  // from behind this seq
	To     uint64  // up to this seq; 0: the end
	Run    *string // the lineage of this run
	Follow bool    // go on with those to come
	Format string  // "jsonl" (events; the default) or "records" (with seq, time, run …)
	Gaps   bool    // of records: say also what was removed in front of the first
}

// Events yields lines: events or records, each one JSON object.
func (c *Client) Events(ctx context.Context, thread string, opts EventOptions) iter.Seq2[[]byte, error] {
	query := url.Values{"format": {"jsonl"}}
	if opts.Format != "" {
		query.Set("format", opts.Format)
	}
	if opts.After > 0 {
		query.Set("after", strconv.FormatUint(opts.After, 10))
	}
	if opts.To > 0 {
		query.Set("to", strconv.FormatUint(opts.To, 10))
	}
	if opts.Run != nil {
		query.Set("run", *opts.Run)
	}
	if opts.Follow {
		query.Set("follow", "true")
	}
	if opts.Gaps {
		query.Set("gaps", "true")
	}
	return func(yield func([]byte, error) bool) {
		resp, err := c.do(ctx, http.MethodGet, threadPath(thread, "/events"), query, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		defer resp.Body.Close()
		lines := bufio.NewReaderSize(resp.Body, 64<<10)
		for {
			line, err := lines.ReadBytes('\n')
			if err == nil {
				if !yield(line[:len(line)-1], nil) {
					return
				}
				continue
			}
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
			} else if !errors.Is(err, io.EOF) || len(line) > 0 {
				yield(nil, &eventlog.Error{Op: "read events", Err: fmt.Errorf("%w: %w", eventlog.ErrUnavailable, err)})
			}
			return
		}
	}
}
