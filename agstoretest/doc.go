// Package agstoretest opens stores in tests, and looks at them when the test is
// over.
//
//	func TestMyProduct(t *testing.T) {
//		store := agstoretest.Open(t, t.TempDir(), agstore.Options{})
//		…
//	}
//
// When the test ends, everything the store holds is verified, the view that it
// kept of every thread is compared with one that is folded anew from the log, and
// the store is closed. A test that fails leaves the store's directory and how it
// was run where the variable AGSTORE_KEEP says, if it is set.
package agstoretest
