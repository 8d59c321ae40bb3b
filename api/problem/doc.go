// Package problem is how errors cross the network: RFC 9457 problem details
// with a stable code, made from an error by the server and turned back into the
// same error by the client, so that errors.Is and errors.As hold on both sides.
//
//	{"type":"urn:agstore:problem:conflict","title":"conflict","status":409,
//	 "detail":"append thread \"t\": conflict: expected last seq 3, it is 5",
//	 "code":"conflict","thread":"t","expected":3,"actual":5}
//
// [Of] makes the problem of an error, [Problem.Err] the error of a problem.
package problem
