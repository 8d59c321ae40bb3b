package fold

// newReducer returns the profile that opts ask for.
func newReducer(opts Options) reducer {
	return newDurable(opts)
}
