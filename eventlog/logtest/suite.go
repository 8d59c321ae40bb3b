package logtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Config is what a log is opened with.
type Config struct {
	Limits eventlog.Limits
	Now    func() time.Time // nil: the real clock
	// After is the clock's timer; nil: the real one. What it gives fires once d
	// has passed by Now, unless it is stopped before.
	After func(d time.Duration) (fired <-chan time.Time, stop func() bool)
}

// Factory opens the log of one place. A test gets a place of its own.
type Factory interface {
	// Open opens the log; any former one was closed or has crashed.
	Open(t *testing.T, c Config) eventlog.Log
	// Crash ends the open log as a power cut would, with the loss of all that
	// was not durable. The next Open finds what is left.
	Crash(t *testing.T)
}

// Run runs the suite.
func Run(t *testing.T, factory func(t *testing.T) Factory) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, p *place)
	}{
		{"Dense", testDense},
		{"Atomic", testAtomic},
		{"Verbatim", testVerbatim},
		{"Refused", testRefused},
		{"Limits", testLimits},
		{"Expect", testExpect},
		{"OneAnswer", testOneAnswer},
		{"Idempotency", testIdempotency},
		{"IdempotencyAge", testIdempotencyAge},
		{"EmptyBatch", testEmptyBatch},
		{"Cancelled", testCancelled},
		{"OddThreadIDs", testOddThreadIDs},
		{"Scopes", testScopes},
		{"Listing", testListing},
		{"Commits", testCommits},
		{"Wait", testWait},
		{"Close", testClose},
		{"ReadRanges", testReadRanges},
		{"RecordsAreCopies", testRecordsAreCopies},
		{"ManyWriters", testManyWriters},
		{"OneStartWins", testOneStartWins},
		{"RunExists", testRunExists},
		{"WriterAppends", testWriterAppends},
		{"WriterPipeline", testWriterPipeline},
		{"FencedAfterEnd", testFencedAfterEnd},
		{"EndClosesWhatIsOpen", testEndClosesWhatIsOpen},
		{"Echo", testEcho},
		{"Lineage", testLineage},
		{"ExplicitParents", testExplicitParents},
		{"ConcurrentBranch", testConcurrentBranch},
		{"RawAppendBesideAWriter", testRawAppendBesideAWriter},
		{"RawRuns", testRawRuns},
		{"ImplicitLease", testImplicitLease},
		{"TakeOverOfAnImport", testTakeOverOfAnImport},
		{"Recovery", testRecovery},
		{"CrashKeepsTheAcknowledged", testCrashKeepsTheAcknowledged},
		{"Reopen", testReopen},
		{"LeaseEndsByItself", testLeaseEndsByItself},
		{"LeaseIsRenewed", testLeaseIsRenewed},
		{"LeaseOutlivesTheProcess", testLeaseOutlivesTheProcess},
		{"LeaseBesideTheProcess", testLeaseBesideTheProcess},
		{"LeaseExpiresWhileClosed", testLeaseExpiresWhileClosed},
		{"ExpiredBeforeATimer", testExpiredBeforeATimer},
		{"TakeRun", testTakeRun},
		{"TakeRunRefused", testTakeRunRefused},
		{"TakeRunFencesThePipeline", testTakeRunFencesThePipeline},
		{"TakeRunRace", testTakeRunRace},
		{"TakeOver", testTakeOver},
		{"Attach", testAttach},
		{"AppendUnderALease", testAppendUnderALease},
		{"CancelledWorker", testCancelledWorker},
		{"Holders", testHolders},
		{"RecoveryClosesEachKind", testRecoveryClosesEachKind},
		{"Companion", testCompanion},
		{"CompanionCopies", testCompanionCopies},
		{"CompanionRefused", testCompanionRefused},
		{"CompanionKeys", testCompanionKeys},
		{"CompanionRace", testCompanionRace},
		{"CompanionScopes", testCompanionScopes},
		{"Erase", testErase},
		{"EraseAmongAppends", testEraseAmongAppends},
		{"Clear", testClear},
		{"ClearOfALiveRun", testClearOfALiveRun},
		{"Redact", testRedact},
		{"RemovalScopes", testRemovalScopes},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &place{factory: factory(t), t: t}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			t.Cleanup(cancel)
			p.ctx = ctx
			test.run(t, p)
			if p.log != nil {
				p.sound()
				p.close()
			}
		})
	}
}

// place is the log under test with what the tests do to it.
type place struct {
	factory Factory
	t       *testing.T
	ctx     context.Context
	config  Config
	log     eventlog.Log
}

func (p *place) open() eventlog.Log {
	p.t.Helper()
	p.log = p.factory.Open(p.t, p.config)
	return p.log
}

func (p *place) close() {
	p.t.Helper()
	if err := p.log.Close(); err != nil {
		p.t.Fatalf("close: %v", err)
	}
	p.log = nil
}

func (p *place) reopen() eventlog.Log {
	p.t.Helper()
	p.close()
	return p.open()
}

func (p *place) crash() eventlog.Log {
	p.t.Helper()
	p.factory.Crash(p.t)
	p.log = nil
	return p.open()
}

func key(thread string) eventlog.ThreadKey { return eventlog.ThreadKey{Scope: "s", Thread: thread} }

func (p *place) append(k eventlog.ThreadKey, b eventlog.Batch) eventlog.Appended {
	p.t.Helper()
	done, err := p.log.Append(p.ctx, k, b)
	if err != nil {
		p.t.Fatalf("append: %v", err)
	}
	return done
}

func (p *place) begin(k eventlog.ThreadKey, run string) eventlog.Writer {
	p.t.Helper()
	w, err := p.log.BeginRun(p.ctx, k, eventlog.RunStart{Started: started(run)})
	if err != nil {
		p.t.Fatalf("begin run %s: %v", run, err)
	}
	return w
}

func (p *place) write(w eventlog.Writer, events ...[]byte) eventlog.Appended {
	p.t.Helper()
	done, err := w.Append(p.ctx, events...)
	if err != nil {
		p.t.Fatalf("append to run %s: %v", w.Lease().Run, err)
	}
	return done
}

func (p *place) read(k eventlog.ThreadKey, o eventlog.ReadOptions) []eventlog.Record {
	p.t.Helper()
	var out []eventlog.Record
	for r, err := range p.log.Read(p.ctx, k, o) {
		if err != nil {
			p.t.Fatalf("read: %v", err)
		}
		out = append(out, r)
	}
	return out
}

func (p *place) all(k eventlog.ThreadKey) []eventlog.Record {
	p.t.Helper()
	return p.read(k, eventlog.ReadOptions{})
}

func (p *place) runs(k eventlog.ThreadKey) []eventlog.Run {
	p.t.Helper()
	runs, err := p.log.Runs(p.ctx, k)
	if err != nil {
		p.t.Fatalf("runs: %v", err)
	}
	return runs
}

func (p *place) thread(k eventlog.ThreadKey) eventlog.Thread {
	p.t.Helper()
	th, err := p.log.Thread(p.ctx, k)
	if err != nil {
		p.t.Fatalf("thread: %v", err)
	}
	return th
}

// sound checks what must hold of every log: numbers without holes, commits that
// tile the threads' records, runs that agree with them.
func (p *place) sound() {
	p.t.Helper()
	for _, fault := range Check(p.ctx, p.log) {
		p.t.Errorf("unsound: %v", fault)
	}
}

// Check lists what is wrong with a log that nobody writes to: commits without
// holes that tile each thread's records, records of the commit they came with,
// runs that count them, and whatever the log finds itself, if it can verify what
// it stores. What the log commits by itself meanwhile, as the end of a run whose
// lease has expired, makes it look again.
func Check(ctx context.Context, log eventlog.Log) []error {
	for looks := 1; ; looks++ {
		mark := log.Watermark()
		faults := check(ctx, log)
		if looks == maxLooks || log.Watermark() == mark {
			return faults
		}
	}
}

// maxLooks bounds how often Check looks at a log that does not rest.
const maxLooks = 20

func check(ctx context.Context, log eventlog.Log) []error {
	faults := verified(ctx, log)
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	position := uint64(0)
	ends := make(map[eventlog.ThreadKey]uint64)
	commits := make(map[eventlog.ThreadKey][]eventlog.Commit)
	companions := make(map[eventlog.ThreadKey][]eventlog.Commit)
	for c, err := range log.Commits(ctx, 0) {
		if err != nil {
			return append(faults, err)
		}
		if c.Position != position+1 {
			bad("commit %d follows %d", c.Position, position)
		}
		position = c.Position
		if c.Stream == eventlog.StreamCompanion {
			companions[c.Thread] = append(companions[c.Thread], c)
			continue
		}
		if c.Stream == eventlog.StreamControl && (c.Count != 0 || c.First != 0) {
			bad("control commit %d has records %d, %d", c.Position, c.First, c.Count)
		}
		if c.Count > 0 && c.First != ends[c.Thread]+1 {
			bad("commit %d of %q begins at %d behind %d", c.Position, c.Thread.Thread, c.First, ends[c.Thread])
		}
		ends[c.Thread] += uint64(c.Count)
		commits[c.Thread] = append(commits[c.Thread], c)
	}
	if mark := log.Watermark(); mark != position {
		bad("the watermark is %d, the last commit %d", mark, position)
	}
	for k := range commits {
		faults = append(faults, checkThread(ctx, log, k, commits[k])...)
	}
	for k := range companions {
		faults = append(faults, checkCompanion(ctx, log, k, companions[k])...)
	}
	return faults
}

// verified is what the log finds itself.
func verified(ctx context.Context, log eventlog.Log) []error {
	v, ok := log.(eventlog.Verifier)
	if !ok {
		return nil
	}
	var faults []error
	for f, err := range v.Verify(ctx, eventlog.VerifyOptions{}) {
		if err == nil {
			err = fmt.Errorf("verify: %v", f)
		}
		faults = append(faults, err)
	}
	return faults
}

func checkThread(ctx context.Context, log eventlog.Log, k eventlog.ThreadKey, commits []eventlog.Commit) []error {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("thread %q: "+format, append([]any{k.Thread}, args...)...))
	}
	th, err := log.Thread(ctx, k)
	if errors.Is(err, eventlog.ErrErased) {
		return checkErased(ctx, log, k)
	}
	if err != nil {
		return append(faults, err)
	}
	seq, at := th.FirstSeq-1, 0
	tracker := agui.NewTracker(nil, agui.RunKey{})
	counts := make(map[agui.RunKey]uint64)
	for r, err := range log.Read(ctx, k, eventlog.ReadOptions{}) {
		if err != nil {
			return append(faults, err)
		}
		if seq++; r.Seq != seq {
			bad("record %d where %d should be", r.Seq, seq)
			seq = r.Seq
		}
		for at < len(commits) && seq >= commits[at].First+uint64(commits[at].Count) {
			at++
		}
		if at == len(commits) || r.Position != commits[at].Position || !r.Time.Equal(commits[at].Time) {
			bad("record %d is of no commit", seq)
		}
		var h agui.Header
		if err := agui.ReadHeader(r.Event, &h); err != nil || h.Type != r.Type {
			bad("record %d: type %q, %v", seq, r.Type, err)
		}
		tracker.Assign(&h, seq, agui.Claim{Run: r.Run, Leased: r.Echo})
		counts[r.Run]++
	}
	if th.LastSeq != seq {
		bad("last seq %d, the last record is %d", th.LastSeq, seq)
	}
	runs, err := log.Runs(ctx, k)
	if err != nil {
		return append(faults, err)
	}
	if th.Runs != len(runs) {
		bad("%d runs, listed are %d", th.Runs, len(runs))
	}
	again := tracker.Runs()
	for i, r := range runs {
		if r.Events != counts[r.Key] {
			bad("run %q: %d events, %d records", r.Key, r.Events, counts[r.Key])
		}
		if i >= len(again) {
			bad("run %q has no start", r.Key)
			continue
		}
		if a := again[i]; a.Key != r.Key || a.EndSeq != r.EndSeq || a.LastSeq != r.LastSeq || a.Status != r.Status || a.FirstSeq != r.FirstSeq {
			bad("run %q: %+v, its records say %+v", r.Key, r.Run, a)
		}
	}
	return faults
}
