// Package interop holds agstore against the official AG-UI client, @ag-ui/client 1.0.0.
//
// Against a client in use: Node.js processes that run it (run.mjs, connect.mjs), a scripted agent, and a real agstore
// serve between them.
//
// Against what the client makes of a stream (fold.mjs): the profile Reference of package fold must hold the same
// messages, state and pending interrupts after every event, and end where the client ends. [TestDifferential] tries
// random streams, valid and slightly invalid (AGSTORE_DIFF says how many, AGSTORE_DIFF_SEED repeats a run);
// [TestExhaustive] tries every short sequence over a small alphabet. What differs, other than the patches that Reference
// refuses on purpose (docs/fold.md), is shrunk and written to a file: it is a bug, and once it is fixed the file becomes
// a case in fold/testdata/differential.
//
// There is no code here but tests. They need Node.js and `npm ci` in this directory, and skip without; with
// AGSTORE_INTEROP=required, as in CI, a test that cannot run fails, and those of streams take minutes instead of seconds.
package interop
