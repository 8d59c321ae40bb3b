// Package main is bench, the command that measures agstore: against goals, against the bare limits of the
// machine, and against peers, all in the same run.
//
//	go run ./bench                    # every row but the long ones, in a few minutes
//	go run ./bench -full              # the long rows too
//	go run ./bench -rows P-F1,P-F3    # some
//	go run ./bench -json              # the results as JSON on stdout, the table on stderr
//
// It prints one table and writes it as results.json and, as a chart,
// results.svg into docs/bench, where README.md says how to read them. With
// -rows or -short nothing is written unless -out says where.
//
// A row is a function from a [bench] to [Result]s. The rows of a layer are in
// one file: fold_rows.go, log_rows.go. What they share is in measure.go: times
// of one core, rounds in which the contestants take turns, medians,
// percentiles, allocations and peaks of memory.
//
// Peers are the published packages of bench/peers, installed with
//
//	(cd bench/peers && npm ci --ignore-scripts)
//
// and run as processes of their own. Where one is missing, its results say so.
package main
