package pebblelog

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

var updateFormat = flag.Bool("update", false, "write the examples of docs/format.md anew")

// golden is one key and its value, as the code writes them.
type golden struct{ key, value []byte }

const goldenTime = 1_896_000_000_000_000

// goldens are one of each kind of row, in the order of their keys.
func goldens() (out []golden) {
	e := newEncoder()
	add := func(key, value []byte) { out = append(out, golden{key, bytes.Clone(value)}) }
	digest := [16]byte{0xd1, 0x6e, 0x57}
	thread := eventlog.ThreadKey{Scope: "acme", Thread: "t1"}
	event := []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hi"}`)
	h := recordHeader{position: 7, time: goldenTime, run: 1, typ: agui.TypeTextMessageContent, origin: eventlog.OriginAgent}

	add(storeKey(), e.store(storeRow{format: FormatVersion, incarnation: "00112233445566778899aabbccddeeff", created: goldenTime}))
	add(backupKey(1), e.backup(backupRow{time: goldenTime, position: 300, upTo: math.MaxUint64, dir: "/backups/1", incarnation: "00112233445566778899aabbccddeeff", format: FormatVersion}))
	add(nameKey(thread), e.name(1))
	add(threadRowKey(1), e.thread(threadRow{
		key: thread, created: goldenTime, position: 6, runs: 2, head: 2, epoch: 3,
		lifecycle: lifecycle{generation: 1, firstSeq: 130, firstRun: 1, chainKey: bytes.Repeat([]byte{0xcc}, chainKeyBytes), chainStart: 6},
	}))
	add(recordKey(1, 2), e.record(&h, event))
	text := h
	text.typ, text.run, text.flags = "OF_THE_FUTURE", 0, flagUnknownParent
	add(recordKey(1, 3), e.record(&text, []byte(`{"type":"OF_THE_FUTURE"}`)))
	redacted := h
	redacted.flags, redacted.redacted = flagRedacted, payloadDigest(event)
	add(recordKey(1, 4), e.record(&redacted, []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"[redacted]"}`)))
	add(runRowKey(1, 2), e.runRow(&runRow{
		run:    agui.Run{Key: agui.RunKey{ID: "r1", Attempt: 1}, ParentSeq: 129, FirstSeq: 130, LastSeq: 170, EndSeq: 170, Events: 41, Status: agui.RunSuccess},
		parent: 1, started: goldenTime, ended: goldenTime + 1_500_000, origin: eventlog.OriginStore, epoch: 3, owner: "worker/2", digest: digest,
	}))
	add(leaseKey(1, 2), e.lease(leaseRow{ttl: 30_000_000, expires: goldenTime + 45_000_000}))
	add(leaseKey(1, 3), e.lease(leaseRow{}))
	add(commitKey(7), e.commit(commitRow{ord: 1, first: 2, count: 3, time: goldenTime, stream: streamEvents, chain: digest[:]}))
	add(idempotencyKey(1, keyName(1, "k1")), e.key(keyRow{first: 2, last: 4, digest: digest, position: 7, time: goldenTime}))
	add(keyTimeKey(goldenTime, 1, keyName(1, "k1")), e.empty())
	add(companionKey(1, 2), e.entry(&entryHeader{position: 7, time: goldenTime, kind: "title"}, []byte(`"A name"`)))
	add(receiptKey(1, 1), e.receipt(&receiptRow{
		removal: eventlog.RemovalClear, position: 8, time: goldenTime, reason: "asked to", actor: "somebody", created: goldenTime,
		first: 1, last: 129, firstPosition: 6, lastPosition: 7, lastRun: 1, removed: true, diskBytes: 4096,
		places:  []eventlog.Place{{Name: eventlog.PlaceRecords, Count: 129, Bytes: 12_000}},
		holders: []string{"the backup /backups/1"},
	}))
	add(pendingKey(1, 1), e.empty())
	at := eventlog.At{Position: 7, Removals: 1}
	add(appendOwner(threadSpaces(1), "view"), e.derived(at, nil))
	add(append(appendOwner(threadSpaces(1), "view"), "k1"...), e.derived(at, []byte("what it says")))
	add(append(appendOwner(scopeSpaces("acme"), "p:usage"), "state"...), e.derived(eventlog.At{Position: 7}, []byte(`{"runs":2}`)))
	return out
}

// decoded reads a value as the log does.
func decoded(g golden) (err error) {
	d := newDecoder()
	switch g.key[0] {
	case prefixStore:
		if _, err = d.store(g.value); g.key[1] == 'b' {
			_, err = d.backup(g.value)
		}
	case prefixName:
		_, err = d.name(g.value)
	case prefixThread:
		_, err = d.thread(g.value)
	case prefixRecord:
		_, _, err = d.record(g.value)
	case prefixRun:
		_, err = d.runRow(g.value)
	case prefixLease:
		_, err = d.lease(g.value)
	case prefixCommit:
		_, err = d.commit(g.value)
	case prefixKey:
		_, err = d.key(g.value)
	case prefixCompanion:
		_, _, err = d.entry(g.value)
	case prefixReceipt:
		_, err = d.receipt(g.value)
	case prefixDerived, prefixOfScope:
		_, _, err = d.derived(g.value)
	case prefixKeyTime, prefixPending:
		d.begin(g.value, 0)
		err = d.end()
	}
	return err
}

// formatExamples is what docs/format.md says of every kind.
func formatExamples(t *testing.T) string {
	var out strings.Builder
	before := ""
	for _, g := range goldens() {
		text, ok := explain(g.key, g.value)
		if err := decoded(g); err != nil || !ok {
			t.Errorf("% x is not read: %v\n%s", g.key, err, text)
		}
		k, _ := kindOfKey(g.key)
		if k.name != before {
			fmt.Fprintf(&out, "\n### %s%s\n\n```\n%s```\n", strings.ToUpper(k.name[:1]), k.name[1:], boxes(g.key[0], g.value[0], k))
		}
		before = k.name
		fmt.Fprintf(&out, "\n```\n%s```\n", text)
	}
	who := owner{
		PID: 4711, Host: "host", Since: time.UnixMicro(goldenTime).UTC(),
		witness: witness{Store: "00112233445566778899aabbccddeeff", Closed: true, Position: 7},
	}
	line, err := json.Marshal(who)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "\n### owner.json\n\nOne line. `store`, `closed` and `position` are the witness: of which store, and how long its log was when it was closed.\n\n```\n%s\n```\n\n", line)
	return out.String()
}

const formatPage = "../../docs/format.md"

// The examples of docs/format.md are what the code writes and reads.
func TestFormatGoldens(t *testing.T) {
	const begin, end = "<!-- examples -->\n", "<!-- end of the examples -->"
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), begin)
	found, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the page has no place for the examples")
	}
	want := formatExamples(t)
	if found == want {
		return
	}
	if *updateFormat && !t.Failed() {
		if err := os.WriteFile(formatPage, []byte(head+begin+want+end+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	wanted, has := strings.Split(want, "\n"), strings.Split(found, "\n")
	for i := range min(len(wanted), len(has)) {
		if wanted[i] != has[i] {
			t.Fatalf("line %d of the examples is\n%s\nand the code writes\n%s", i+1, has[i], wanted[i])
		}
	}
	t.Fatalf("the page has %d lines of examples, the code writes %d", len(has), len(wanted))
}

// Every prefix of a key stands in the page, and has its example and its way to
// be explained, with all the fields that are written.
func TestEveryPrefixIsDocumented(t *testing.T) {
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	overview, _, _ := strings.Cut(string(page), "## Values")
	seen := make(map[string]int)
	for _, g := range goldens() {
		k, ok := kindOfKey(g.key)
		if !ok {
			t.Errorf("% x is of no kind", g.key)
		}
		in := unpacker{rest: g.value[1:]}
		if k.sum {
			in.number(4)
		}
		seen[k.name] = max(seen[k.name], in.array())
	}
	for prefix := byte(prefixStore); prefix <= lastPrefix; prefix++ {
		if !strings.Contains(overview, fmt.Sprintf("│ %02x │", prefix)) {
			t.Errorf("the page does not have the keys that begin with %02x", prefix)
		}
		if len(kindsOfKeys[prefix]) == 0 {
			t.Errorf("nothing explains the keys that begin with %02x", prefix)
		}
		for _, k := range kindsOfKeys[prefix] {
			if fields, ok := seen[k.name]; !ok || fields != len(k.fields) {
				t.Errorf("%s: examples with %d fields, and %d are explained", k.name, fields, len(k.fields))
			}
		}
	}
	if len(kindsOfKeys) != lastPrefix {
		t.Errorf("%d prefixes are explained, there are %d", len(kindsOfKeys), lastPrefix)
	}
}
