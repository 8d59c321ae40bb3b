package api

import (
	"fmt"

	"github.com/agstore/agstore/agui"
)

// ID is an id in JSON. AG-UI's ids may hold lone surrogates, which encoding/json
// would replace.
type ID string

// MarshalJSON writes the id; lone surrogates as escapes.
func (id ID) MarshalJSON() ([]byte, error) { return agui.Quote(string(id)), nil }

// UnmarshalJSON reads what MarshalJSON wrote.
func (id *ID) UnmarshalJSON(raw []byte) error {
	text, ok := agui.Unquote(raw)
	if !ok {
		return fmt.Errorf("%s is no string", raw)
	}
	*id = ID(text)
	return nil
}
