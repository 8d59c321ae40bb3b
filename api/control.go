package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/eventlog"
)

// SocketName is the name of the control socket in a store's directory.
const SocketName = "control.sock"

// trusted marks the context of requests that may name their scope.
type trusted struct{}

// Trusted is the server for those who may see every scope: the store's owner, on
// a control socket or in the same process. Its requests may name their scope in
// the header Agstore-Scope.
func (s *Server) Trusted() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), trusted{}, true)))
	})
}

// Control is a served control socket.
type Control struct {
	server *http.Server
	api    *Server
	own    bool // api was made for it
	path   string
	done   chan error
}

// ControlSocket serves an open store on a socket in its directory, so that the
// agstore command works beside the program that holds the store. Only the
// store's owner can reach it (mode 0600); it serves every scope, and no agents.
func ControlSocket(store *agstore.Store) (*Control, error) {
	server, err := New(store, Options{})
	if err != nil {
		return nil, err
	}
	c, err := server.ControlSocket()
	if err != nil {
		return nil, err
	}
	c.own = true
	return c, nil
}

// ControlSocket serves what the server serves, its agents too, on a socket in
// the store's directory. Its requests may name their scope in the header
// Agstore-Scope.
func (s *Server) ControlSocket() (*Control, error) {
	path := filepath.Join(s.store.Dir(), SocketName)
	fail := func(err error) (*Control, error) {
		return nil, &eventlog.Error{Op: "serve the control socket " + path, Err: err}
	}
	// The store is ours, so a socket that is there was left by one that died.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	short, release, err := shortPath(path)
	if err != nil {
		return fail(err)
	}
	defer release()
	l, err := net.Listen("unix", short)
	if err != nil {
		return fail(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // by its long name, in Close
	if err := os.Chmod(path, 0o600); err != nil {
		return fail(errors.Join(err, l.Close()))
	}
	c := &Control{
		server: &http.Server{
			Handler:           s.Trusted(),
			ReadHeaderTimeout: 10 * time.Second,
		},
		api: s, path: path, done: make(chan error, 1),
	}
	go func() { c.done <- c.server.Serve(l) }()
	return c, nil
}

// Close stops serving: requests that run are cut.
func (c *Control) Close() error {
	err := c.server.Close()
	if served := <-c.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if c.own {
		err = errors.Join(err, c.api.Close(context.Background()))
	}
	if rm := os.Remove(c.path); rm != nil && !errors.Is(rm, os.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return err
}

// DialControl connects to the control socket of the store in dir.
func DialControl(ctx context.Context, dir string) (net.Conn, error) {
	short, release, err := shortPath(filepath.Join(dir, SocketName))
	if err != nil {
		return nil, err
	}
	defer release()
	return new(net.Dialer).DialContext(ctx, "unix", short)
}

// maxSocketPath is what fits into a socket address on the systems we know.
const maxSocketPath = 103

// shortPath is a name for path that fits into a socket address. It is good
// until release is called.
func shortPath(path string) (short string, release func(), err error) {
	release = func() {}
	if len(path) <= maxSocketPath {
		return path, release, nil
	}
	if cwd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(cwd, path); err == nil && len(rel) <= maxSocketPath {
			return rel, release, nil
		}
	}
	if runtime.GOOS != "linux" {
		return "", release, fmt.Errorf("%w: the path is longer than %d bytes; use a shorter data directory", eventlog.ErrInvalid, maxSocketPath)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", release, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { dir.Close() }, nil
}
