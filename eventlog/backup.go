package eventlog

import "time"

// Backup describes a copy of a whole log, of all scopes.
type Backup struct {
	Dir         string    `json:"dir"` // where it was made; absolute
	Time        time.Time `json:"time"`
	Incarnation string    `json:"incarnation"` // of the log it is a copy of; empty: not known any more
	// Position up to which everything is in it. What was being written while it
	// was made may be in it too.
	Position uint64 `json:"position"`
	Format   int    `json:"format"` // version of the store's format; 0: not known any more
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"`
}

// RestoreOptions say why a store is made of a backup, and who asked for it. That
// is kept in the store's directory; at most 1,024 bytes each, text.
type RestoreOptions struct {
	Reason, Actor string
	// DryRun makes nothing: the answer says what would be restored, the error why
	// it would not. The files of the backup are not read.
	DryRun bool
}
