package projection

// StoreAlways makes views be stored whenever they are brought up to date.
func (v *Views) StoreAlways() { v.always = true }
