// Package history judges what several processes did to a log by what they wrote
// down of it.
//
// Each process records its operations and their answers as lines of JSON with a
// [Recorder]: a line when the operation begins, a line when it is answered. After
// the crash, the kill or the end, the lines are read back ([Decode]), the log is
// read once more ([ReadStore]), and every promise of package eventlog has a
// validator that says which of the answers broke it:
//
//	for _, fault := range history.Judge(h, store) {
//		t.Error(fault) // broke Durable: p1/w3 append 17 …: seq 9 is gone
//	}
//
// Nothing here knows an engine: a history may come from calls in process, over
// HTTP or from another implementation of the log.
//
// What a history must keep to: one client does one thing after the other (several
// Enqueues that wait for one Sync apart), and each event that it writes is
// different from all others in the thread, unless it repeats a call with the same
// idempotency key. Times of different processes are compared, so they must be of
// one machine.
package history
