// Package logtest is the contract of [eventlog.Log] as a test suite. Every
// engine passes it:
//
//	func TestContract(t *testing.T) {
//		logtest.Run(t, func(t *testing.T) logtest.Factory { return newFactory(t) })
//	}
//
// A [Factory] stands for one place where a log lives: it opens it, opens it
// again, and opens what a crash would have left. Nothing here knows how an
// engine stores anything.
package logtest
