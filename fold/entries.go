package fold

// EntriesVersion is the version of the entries that [Fold.Changes] writes. Others
// are not to be given to [RestoreEntries].
const EntriesVersion = 1

// List names one of the lists of entries that a fold consists of
// (docs/fold-snapshot.md). The entries of one change little: most are never
// touched again once they are there.
type List uint8

// The lists of a fold of the profile [Durable]. One of [Reference] has a single
// entry, in ListRest.
const (
	ListRest        List = iota // one entry: what belongs to no other list
	ListState                   // none, or the state and the patches since
	ListRuns                    // one entry per run
	ListMessages                // the transcript, one entry per message
	ListInterrupts              // one entry per interrupt, in the order they were first asked in
	ListSubagents               // one entry per subagent
	ListSteps                   // one entry per step
	ListCustom                  // one entry per CUSTOM or RAW
	ListReasoning               // one entry of opaque reasoning each
	ListDiagnostics             // one entry per diagnostic
	ListNames                   // identities that the transcript does not tell
	Lists           = iota
)

var listNames = [Lists]string{
	"rest", "state", "runs", "messages", "interrupts", "subagents", "steps", "custom", "reasoning", "diagnostics", "names",
}

func (l List) String() string {
	if int(l) < len(listNames) {
		return listNames[l]
	}
	return "List(?)"
}

// Segment is a part of a list as it is now: entries that it had before, or new
// ones.
type Segment struct {
	// From and To are places in the list as it was at the call of Changes before:
	// its entries from From to To, To not included, are these now.
	From, To int
	New      [][]byte // if not nil, these instead
}

// Changes are the lists of a fold now, told by what they were before: the
// segments of each, in order.
type Changes [Lists][]Segment

// Bytes is how long the new entries are together.
func (c *Changes) Bytes() int {
	n := 0
	for _, list := range c {
		for _, s := range list {
			for _, entry := range s.New {
				n += len(entry)
			}
		}
	}
	return n
}

// Entries are the lists of a fold.
type Entries [Lists][][]byte

// Apply gives the lists after changes. Entries are shared, not copied.
func (e *Entries) Apply(c *Changes) *Entries {
	out := new(Entries)
	for l, list := range c {
		for _, s := range list {
			if s.New != nil {
				out[l] = append(out[l], s.New...)
			} else {
				out[l] = append(out[l], e[l][s.From:s.To]...)
			}
		}
	}
	return out
}

// Changes gives what has become of the fold's lists since the last call, or
// since [RestoreEntries]; to begin with, all is new. What has not changed costs
// nothing, neither to find nor to write, unless a MESSAGES_SNAPSHOT has come
// since: then the transcript is gone through, and its messages are compared.
//
// From the first call on the fold remembers what it has told; that takes some
// memory per message, and a copy of each STATE_DELTA until the next call.
func (f *Fold) Changes() *Changes { return f.reducer.changes() }

// RestoreEntries makes the fold whose entries these are: the same, to the byte
// of its [Fold.Snapshot], as the one that told of them. It keeps no hold on
// them. Options and errors are those of [Restore].
func RestoreEntries(e *Entries, opts Options) (*Fold, error) {
	opts.Limits = opts.Limits.WithDefaults()
	if opts.Profile == Reference {
		if len(e[ListRest]) != 1 {
			return nil, &SnapshotError{Version: EntriesVersion, Reason: "another number of entries"}
		}
		return Restore(e[ListRest][0], opts)
	}
	d, err := restoreEntries(e, opts)
	if err != nil {
		return nil, err
	}
	return &Fold{reducer: d}, nil
}

func (r *reference) changes() *Changes {
	f := Fold{reducer: r}
	return &Changes{ListRest: {{New: [][]byte{f.Snapshot(nil)}}}}
}
