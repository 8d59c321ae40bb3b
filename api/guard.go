package api

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/agstore/agstore/api/problem"
)

// Guard protects a server without authentication, which listens on loopback,
// from web pages: a browser on the same machine can reach it too.
//
// It answers only requests whose Host is a loopback address, "localhost" or one
// of hosts, so that a page cannot come in under a name of its own that it has
// made to mean 127.0.0.1 (DNS rebinding); and it refuses what a page of another
// origin sends to change something.
func Guard(h http.Handler, hosts ...string) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p := problem.New(http.StatusForbidden, "cross_origin", "a page of another origin may not write here")
		p.Hint = "let the page call its own origin, and pass the request on from there"
		problem.Write(w, p)
	}))
	inner := origins.Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := strings.ToLower(r.Host)
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.Trim(host, "[]")
		ip := net.ParseIP(host)
		if host != "localhost" && (ip == nil || !ip.IsLoopback()) && !slices.Contains(hosts, host) {
			p := problem.New(http.StatusMisdirectedRequest, "host_not_served", "requests for this host are not answered")
			p.Hint = "call the server by its address, or name the host when it is started"
			problem.Write(w, p)
			return
		}
		inner.ServeHTTP(w, r)
	})
}
