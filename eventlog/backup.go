package eventlog

import "time"

// Backup describes a copy of a whole log, of all scopes.
type Backup struct {
	Dir         string    `json:"dir"` // where it was made; absolute
	Time        time.Time `json:"time"`
	Incarnation string    `json:"incarnation"` // of the log it is a copy of
	// Position up to which everything is in it. What was being written while it
	// was made may be in it too.
	Position uint64 `json:"position"`
	Format   int    `json:"format"` // version of the store's format
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"`
}
