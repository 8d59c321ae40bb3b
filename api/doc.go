// Package api serves a store over HTTP: a recording proxy in front of AG-UI
// agents, and the threads it records.
//
//	POST /v1/agents/{agent}/run       start a run; its events as SSE
//	POST /v1/agents/{agent}/connect   a thread's history, raw, compacted or as a snapshot, then its live run
//	GET  /v1/threads                  the threads of the scope
//	GET  /v1/threads/{thread}         what a thread looks like, now or at a point
//	GET  /v1/threads/{thread}/runs    its tree of runs
//	GET  /v1/threads/{thread}/events  its events, stored and live
//	POST /v1/threads/{thread}/events  append events
//	GET  /v1/threads/{thread}/diff    what changed between two points
//	POST /v1/threads/{thread}/branch  start a path from an earlier run
//	POST /v1/threads/{thread}/dismiss take back what waits for an answer
//	GET  /healthz                     is it up
//
// A [Server] is an http.Handler over an open store:
//
//	server, err := api.New(store, api.Options{Agents: map[string]api.Agent{"helper": {URL: url}}})
//	http.ListenAndServe("127.0.0.1:4180", server)
//
// A run goes on when its client leaves. What a client is sent is durable before
// it is sent; the id of an SSE frame is the event's seq. Failures are problem
// details, see package problem; package client is the other end.
//
// [ServeReplay] offers a recorded thread as an AG-UI agent.
//
// [ControlSocket] serves the same on a socket in the store's directory, for
// tools that run beside the program that holds the store.
package api
