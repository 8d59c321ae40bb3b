package fold

// newReducer returns the profile that opts ask for.
func newReducer(opts Options) reducer {
	if opts.Profile == Reference {
		return newReference(opts)
	}
	return newDurable(opts)
}
