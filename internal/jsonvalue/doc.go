// Package jsonvalue holds JSON values the way AG-UI needs them: members keep
// their order, numbers the text they were written with, and strings everything
// that a sequence of UTF-16 code units can say, lone surrogates included.
//
// A [Value] never changes and may be shared and read from any goroutine. A
// [Document] is a value that does change: by JSON Patch (RFC 6902, to the
// letter), by merging, or by being set. It changes in place, so that a patch
// costs what it touches and not what the document holds, and a patch that fails
// is undone. [Document.Snapshot] is free: the document copies what it changes
// afterwards.
//
//	v, err := jsonvalue.Parse([]byte(`{"n":1.0,"s":"\ud83c"}`), 0)
//	if err != nil {
//		return err
//	}
//	doc := jsonvalue.NewDocument(v)
//	err = doc.Patch([]jsonvalue.Op{{Kind: jsonvalue.Add, Path: "/a", Value: jsonvalue.NewString("x")}}, jsonvalue.PatchLimits{})
//	fmt.Printf("%s\n", doc.Snapshot().AppendJSON(nil)) // {"n":1.0,"s":"\ud83c","a":"x"}
//
// Strings are WTF-8: UTF-8 in which a surrogate without its partner is held in
// its three-byte form. Two halves that meet are always one four-byte character;
// [JoinText] and [Text] see to that when texts are put together.
package jsonvalue
