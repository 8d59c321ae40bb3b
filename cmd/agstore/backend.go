package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// access is what a command wants of a store.
type access int

const (
	reading   access = iota // a store that is not there is not found
	following               // reading, until it is interrupted: others share the store meanwhile
	writing                 // a store that is not there is created
)

// lockPatience is how long a command waits for another short one that has the
// store just now.
const lockPatience = 2 * time.Second

// connect reaches the store, one way or another, as a client of the API. What is
// open for it is closed by the function it returns.
func (a *app) connect(ctx context.Context, want access) (*client.Client, func() error, error) {
	if a.server != "" {
		c := client.New(a.server, client.Options{})
		return c, func() error { c.Close(); return nil }, nil
	}
	if want != writing {
		if err := a.exists(); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		c, done, err := a.attempt(ctx, want)
		if !errors.Is(err, eventlog.ErrLocked) {
			return c, done, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, nil, ctx.Err()
			}
			return nil, nil, &hinted{err, "the program that holds it should call api.ControlSocket(store), or end"}
		}
	}
}

// attempt opens the store, or else asks who has it.
func (a *app) attempt(ctx context.Context, want access) (*client.Client, func() error, error) {
	opts := client.Options{Scope: a.scope}
	store, err := agstore.Open(a.data, agstore.Options{})
	if err == nil {
		return inProcess(store, opts, want == following)
	}
	if want != writing && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		// The disk, or the directory, can only be read, and so can the store.
		if store, err := agstore.Open(a.data, agstore.Options{ReadOnly: true}); err == nil {
			return inProcess(store, opts, false)
		}
	}
	if !errors.Is(err, eventlog.ErrLocked) {
		return nil, nil, err
	}
	conn, dialed := api.DialControl(ctx, a.data)
	if dialed != nil {
		return nil, nil, err
	}
	if err := conn.Close(); err != nil {
		return nil, nil, err
	}
	c := client.Control(a.data, opts)
	return c, func() error { c.Close(); return nil }, nil
}

// exists is an error if there is nothing to read in the data directory.
func (a *app) exists() error {
	ok, err := agstore.Exists(a.data)
	if err != nil || ok {
		return err
	}
	return &eventlog.Error{
		Op: "open the store in " + a.data, Err: eventlog.ErrNotFound,
		Hint: "--data or AGSTORE_DATA names the data directory; agstore import and agstore serve create one",
	}
}

// inProcess serves an open store to a client in this process and, if it is
// shared, to others on its control socket.
func inProcess(store *agstore.Store, opts client.Options, shared bool) (*client.Client, func() error, error) {
	served, err := api.New(store, api.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	unshare := func() error { return nil }
	if shared {
		control, err := served.ControlSocket()
		if err != nil {
			return nil, nil, errors.Join(err, served.Close(context.Background()), store.Close())
		}
		unshare = control.Close
	}
	l := newPipeListener()
	server := &http.Server{Handler: served.Trusted()}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	transport := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
		DisableCompression: true,
	}
	opts.Transport = transport
	c := client.New("http://store", opts)
	return c, func() error {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		// A request that was broken off ends by itself; it must be out of the
		// store before that is closed.
		err := server.Shutdown(ctx)
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return errors.Join(err, unshare(), served.Close(ctx), store.Close())
	}, nil
}

// closePatience is how long the store's own requests may take to end.
const closePatience = 5 * time.Second

// pipeListener is a listener in memory.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for the next dial.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dial.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is a name without a meaning.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// with calls f with a client of the store and closes what was opened.
func (a *app) with(ctx context.Context, want access, f func(*client.Client) error) error {
	c, done, err := a.connect(ctx, want)
	if err != nil {
		return err
	}
	return errors.Join(f(c), done())
}
