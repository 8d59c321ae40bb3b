// Command agstore keeps AG-UI conversations: it serves a store in front of AG-UI
// agents, puts streams in and takes them out, and shows, replays and branches
// what is stored.
//
//	agstore demo                         the whole story, in one command
//	agstore serve --agent NAME=URL       record every run of an agent
//	agstore replay THREAD                see it happen again
//
// Every command that touches a store talks to the HTTP API, through package
// api/client: over the network (--server), with a server in this process if the
// data directory is free, or over the control socket of the program that holds
// it. "agstore help exit-codes" lists the exit codes.
package main
