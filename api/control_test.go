package api_test

import (
	"errors"
	"github.com/agstore/agstore/api/problem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// A program that holds a store and serves its control socket lets tools work
// beside it, in every scope, and nobody but its owner (DESIGN decision 17).
func TestControlSocket(t *testing.T) {
	for name, dir := range map[string]string{
		"short": t.TempDir(),
		"long":  filepath.Join(t.TempDir(), strings.Repeat("d", 120)),
	} {
		t.Run(name, func(t *testing.T) {
			store, err := agstore.Open(dir, agstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			control, err := api.ControlSocket(store)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(dir, api.SocketName))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the socket: %v, %v", info, err)
			}
			locked := (*eventlog.LockedError)(nil)
			if _, err := agstore.Open(dir, agstore.Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
				t.Errorf("a second opener is told %v", err)
			}
			c := client.Control(dir, client.Options{Scope: "acme"})
			defer c.Close()
			if _, err := c.Append(t.Context(), "t", lines(`{"type":"X"}`), client.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Scope("acme").Thread(t.Context(), "t"); err != nil {
				t.Error(err)
			}
			if err := control.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, api.SocketName)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket stays: %v", err)
			}
			if _, err := c.Runs(t.Context(), "t"); !errors.Is(err, eventlog.ErrUnavailable) {
				t.Errorf("without the socket: %v", err)
			}
		})
	}
}

// A socket that a killed program left is no obstacle.
func TestControlSocketLeftBehind(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, api.SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := agstore.Open(dir, agstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	control, err := api.ControlSocket(store)
	if err != nil {
		t.Fatal(err)
	}
	if err := control.Close(); err != nil {
		t.Error(err)
	}
}

// Who reaches one scope only finds no way to copy all of them.
func TestBackupsAreTheOwners(t *testing.T) {
	store, err := agstore.Open(t.TempDir(), agstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	server, err := api.New(store, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close(t.Context())
	dir := filepath.Join(t.TempDir(), "backup")
	for name, c := range map[string]struct {
		handler http.Handler
		status  int // of the refusal; 0: it is done
	}{
		"public":  {server, http.StatusNotFound},
		"trusted": {server.Trusted(), 0},
	} {
		web := httptest.NewServer(c.handler)
		cl := client.New(web.URL, client.Options{})
		_, listed := cl.Backups(t.Context())
		if _, err := cl.Backup(t.Context(), "relative"); c.status == 0 && !errors.Is(err, eventlog.ErrInvalid) {
			t.Errorf("%s: a relative directory: %v", name, err)
		}
		_, made := cl.Backup(t.Context(), dir)
		if statusOf(listed) != c.status || statusOf(made) != c.status {
			t.Errorf("%s: list %v, backup %v; want status %d", name, listed, made, c.status)
		}
		cl.Close()
		web.Close()
	}
	if _, err := agstore.ReadBackup(dir); err != nil {
		t.Error(err)
	}
}

// statusOf is the status of a problem; 0 of no error, -1 of any other.
func statusOf(err error) int {
	p := (*problem.Problem)(nil)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &p):
		return p.Status
	}
	return -1
}
