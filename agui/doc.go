// Package agui is AG-UI 1.0 as it appears on the wire.
//
// It reads events and messages from raw JSON without changing the bytes,
// knows the 31 event types of protocol 1.0, accepts the 0.x streams still seen
// in the wild, and follows a thread's events so that of each event it can be
// said which run it belongs to.
//
// There are two ways to read an event:
//
//   - [ReadHeader] is the fast path: it checks that the bytes are one JSON
//     object with a type and reads the type and the ids, nothing else. The log
//     uses it for every append.
//   - [Decode] and [Decoder] give the whole event, shaped and checked as the
//     specification says, strictly or leniently, with what 0.x producers send
//     translated. Folds use it.
//
// A stream of decoded events then goes through a [Thinking], which names the
// THINKING_* events of 0.x, an [Expander], which replaces chunks by the events
// they stand for, and, where order matters, a [Verifier]:
//
//	var e agui.Event
//	if err := decoder.Decode(raw, &e); err != nil {
//		return err
//	}
//	thinking.Name(&e, mint)
//	events, err := expander.Expand(&e)
//	if err != nil {
//		return err
//	}
//	for _, e := range events {
//		if err := verifier.Verify(seq, e); err != nil {
//			return err
//		}
//	}
//
// A [Tracker] follows the headers of one thread. It gives each event its run
// (a [RunKey]), builds the tree of [Run]s and knows what a run has open, so
// that a run cut off by a crash can be closed properly. [Lineage] answers
// which records a view at some run is made of.
//
// Strings are kept as WTF-8: UTF-8 in which a lone surrogate, which AG-UI
// producers do send when they cut a text in the middle of a character, is held
// in its three-byte form. Everything printed by this module turns such halves
// back into their JSON escapes.
package agui
