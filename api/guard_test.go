package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/agstore/agstore/api"
)

// A page in a browser of the same machine cannot use the server: neither under a
// name of its own, nor across origins.
func TestGuard(t *testing.T) {
	b := newBench(t, says())
	guarded := api.Guard(b.server, "chat.example")
	for name, c := range map[string]struct {
		method, host, origin string
		status               int
		code                 string
	}{
		"by address":             {"GET", "127.0.0.1:4180", "", 200, ""},
		"by IPv6 address":        {"GET", "[::1]:4180", "", 200, ""},
		"by name":                {"GET", "localhost:4180", "", 200, ""},
		"without a port":         {"GET", "LOCALHOST", "", 200, ""},
		"by a name that is told": {"GET", "chat.example", "", 200, ""},
		"a rebound name":         {"GET", "evil.example:4180", "", 421, "host_not_served"},
		"a rebound name, origin": {"POST", "evil.example:4180", "http://evil.example:4180", 421, "host_not_served"},
		"an odd name":            {"GET", "127.0.0.1.evil.example", "", 421, "host_not_served"},
		"no name":                {"GET", "", "", 421, "host_not_served"},
		"another origin":         {"POST", "127.0.0.1:4180", "http://evil.example", 403, "cross_origin"},
		"another origin reads":   {"GET", "127.0.0.1:4180", "http://evil.example", 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "/v1/threads", nil)
			if c.method == http.MethodPost {
				r = httptest.NewRequest(c.method, "/v1/threads/t/events", nil)
			}
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			w := httptest.NewRecorder()
			guarded.ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			if c.code != "" {
				if p := problemOf(t, w.Result()); p["code"] != c.code {
					t.Errorf("problem %v", p)
				}
			}
		})
	}
}
