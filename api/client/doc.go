// Package client is the Go client of agstore's HTTP API.
//
// It reaches a server by its URL, or the program that holds a store by the
// control socket in the store's directory:
//
//	c := client.New("http://127.0.0.1:4180", client.Options{})
//	view, err := c.View(ctx, "thread-1", client.ViewOptions{})
//
// Errors are those that the server's call returned: errors.Is(err,
// eventlog.ErrConflict) holds here as it does there. A server that cannot be
// reached is an eventlog.ErrUnavailable.
package client
