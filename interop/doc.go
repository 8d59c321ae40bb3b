// Package interop holds agstore against the official AG-UI client, @ag-ui/client 1.0.0, as a real one: Node.js
// processes that run the client (run.mjs, connect.mjs), a scripted agent, and a real agstore serve between them.
//
// There is no code here but tests. They need Node.js and `npm ci` in this directory, and skip without; with
// AGSTORE_INTEROP=required, as in CI, a test that cannot run fails.
package interop
