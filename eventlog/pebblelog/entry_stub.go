package pebblelog

type entryHeader struct {
	position uint64
	time     int64
	kind     string
}

func (d *decoder) entry(value []byte) (h entryHeader, body []byte, err error) {
	return h, nil, errDamaged
}
