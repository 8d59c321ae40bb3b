package pebblelog

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"github.com/agstore/agstore/eventlog"
)

// The first byte of a key says what it is a key of (docs/format.md).
const (
	prefixStore     = 0x01 // the store itself
	prefixName      = 0x02 // scope, thread -> ordinal
	prefixThread    = 0x03 // ordinal -> what the thread is
	prefixRecord    = 0x04 // ordinal, seq -> record
	prefixRun       = 0x05 // ordinal, run ordinal -> run row
	prefixLease     = 0x06 // ordinal, run ordinal -> a run held by a writer
	prefixCommit    = 0x07 // position -> commit
	prefixKey       = 0x08 // ordinal, name of an idempotency key -> the append it named
	prefixKeyTime   = 0x09 // time, ordinal, name of an idempotency key: to find old keys
	prefixCompanion = 0x0a // ordinal, seq -> entry of the companion stream
	prefixReceipt   = 0x0b // ordinal, number -> receipt of what was removed
	prefixPending   = 0x0c // ordinal, number: the receipt's removal is not finished
	prefixDerived   = 0x0d // ordinal, owner, key -> row derived from a thread
	prefixOfScope   = 0x0e // scope, owner, key -> row derived from a scope
)

func storeKey() []byte { return []byte{prefixStore, 'm'} }

// backupPrefix is that of the backups made of the store, by number.
func backupPrefix() []byte { return []byte{prefixStore, 'b'} }

func backupKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64(backupPrefix(), number)
}

func scopePrefix(scope string) []byte { return scopeKey(prefixName, scope) }

func scopeKey(prefix byte, scope string) []byte {
	k := make([]byte, 0, 3+len(scope))
	k = append(k, prefix)
	k = binary.BigEndian.AppendUint16(k, uint16(len(scope)))
	return append(k, scope...)
}

func nameKey(key eventlog.ThreadKey) []byte {
	return append(scopePrefix(key.Scope), key.Thread...)
}

func ordinalKey(prefix byte, ord uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 17), prefix), ord)
}

func threadRowKey(ord uint64) []byte { return ordinalKey(prefixThread, ord) }

func recordKey(ord, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(ordinalKey(prefixRecord, ord), seq)
}

const recordKeyBytes = 17

// putRecordKey writes the key of a record into its place.
func putRecordKey(k []byte, ord, seq uint64) {
	k[0] = prefixRecord
	binary.BigEndian.PutUint64(k[1:], ord)
	binary.BigEndian.PutUint64(k[9:], seq)
}

func recordSeq(key []byte) uint64 { return binary.BigEndian.Uint64(key[9:]) }

// runRowKey is the key of the run that started as the run-th of its thread,
// counted from 1.
func runRowKey(ord uint64, run uint32) []byte {
	return binary.BigEndian.AppendUint32(ordinalKey(prefixRun, ord), run)
}

const leaseKeyBytes = 13

func leaseKey(ord uint64, run uint32) []byte {
	return binary.BigEndian.AppendUint32(ordinalKey(prefixLease, ord), run)
}

func companionKey(ord, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(ordinalKey(prefixCompanion, ord), seq)
}

func receiptKey(ord, number uint64) []byte {
	return binary.BigEndian.AppendUint64(ordinalKey(prefixReceipt, ord), number)
}

func pendingKey(ord, number uint64) []byte {
	return binary.BigEndian.AppendUint64(ordinalKey(prefixPending, ord), number)
}

func commitKey(position uint64) []byte { return ordinalKey(prefixCommit, position) }

func commitPosition(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }

// keyName stands for an idempotency key in keys of the store. The keys at the
// edges of a table are in the engine's list of tables too, which goes on saying
// them when they are gone: nobody shall be able to read there what was erased.
// Format versions before FormatViews had the key itself; no text begins with ff.
func keyName(ord uint64, key string) string {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, ord), key...))
	return keyNamed + string(sum[:keyNameBytes])
}

const (
	keyNamed     = "\xff"
	keyNameBytes = 16
)

// isKeyName reports whether what stands for an idempotency key is its name.
func isKeyName(name string) bool {
	return len(name) == len(keyNamed)+keyNameBytes && strings.HasPrefix(name, keyNamed)
}

func idempotencyKey(ord uint64, name string) []byte {
	return append(ordinalKey(prefixKey, ord), name...)
}

func keyTimeKey(micros int64, ord uint64, name string) []byte {
	k := ordinalKey(prefixKeyTime, uint64(micros))
	return append(binary.BigEndian.AppendUint64(k, ord), name...)
}

// keyTimeName is the name in the key of a time entry.
func keyTimeName(key []byte) string { return string(key[17:]) }

// threadSpaces and scopeSpaces are the prefixes of derived rows, of all owners.
func threadSpaces(ord uint64) []byte  { return ordinalKey(prefixDerived, ord) }
func scopeSpaces(scope string) []byte { return scopeKey(prefixOfScope, scope) }

// appendOwner is the prefix of the rows of one owner: that of all with the
// owner's name behind it. It is a copy.
func appendOwner(base []byte, owner string) []byte {
	k := make([]byte, 0, len(base)+1+len(owner)+32)
	k = append(append(k, base...), byte(len(owner)))
	return append(k, owner...)
}

// ownerOf is the owner at the beginning of what follows the prefix of all.
func ownerOf(rest []byte) (string, bool) {
	if len(rest) == 0 || rest[0] == 0 || len(rest) < 1+int(rest[0]) {
		return "", false
	}
	return string(rest[1 : 1+rest[0]]), true
}

// after is the smallest key that sorts behind every key with this prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// lastPrefix is the last of them.
const lastPrefix = prefixOfScope

// ofStore reports whether a key is of the store itself.
func ofStore(key []byte) bool {
	return len(key) == 2 && key[1] == 'm' || len(key) == 10 && key[1] == 'b'
}
