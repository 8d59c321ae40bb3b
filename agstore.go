package agstore

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/feed"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/projection"
	"github.com/agstore/agstore/replay"
)

// Options for Open. The zero value is a durable store with default limits.
type Options struct {
	// InMemory keeps everything in memory, for tests: nothing outlives Close,
	// and dir is not touched.
	InMemory bool
	// ReadOnly opens a store that nobody holds without writing anything: writes
	// are refused with eventlog.ErrReadOnly, and runs of a process that died are
	// seen as it left them. There must be a store.
	ReadOnly bool
	// Limits of the log; zero fields have the defaults of eventlog.
	Limits eventlog.Limits
	// Fold is how views are folded; the zero value is the profile Durable.
	Fold fold.Options
	// OpenViews is how many threads' views are kept in memory; 0 is 256.
	OpenViews int
	// ImplicitLease is how long a run that is written by raw appends counts as
	// its producer's after the latest one; 0 is 10 minutes.
	ImplicitLease time.Duration
	// KeyAge is how long idempotency keys are kept; 0 is 7 days.
	KeyAge time.Duration
	// Projections are kept beside the log while the store is open: each is what a
	// function of the program's own makes of the records. ProjectionFailed, if
	// given, is told when one stops, with a *projection.ReducerError mostly; the
	// others and the store go on.
	Projections      []projection.Reducer
	ProjectionFailed func(name string, err error)
	// Recovered, if given, is told of every run that Open closed because its
	// writer had died.
	Recovered func(thread eventlog.ThreadKey, run agui.RunKey)
	// Fault, if given, is told of what is wrong with the store and fails no call
	// by itself: a damaged thread that Open has passed by, work of the engine that
	// failed. The same may be told again and again. WriteFailed is told of the
	// error after which only reads go on, and Reopened that writes do again, and
	// how long they did not. All are called from goroutines of the store: they
	// must return soon, and must not call the store.
	Fault       func(error)
	WriteFailed func(error)
	Reopened    func(away time.Duration)
	// Retention are the policies that the store applies by itself while it is
	// open: at once, and then every RetentionEvery (0 is 10 minutes), at most
	// 1,000 threads each time. Retained, if given, is told of what went, or of
	// the error that ended a pass.
	Retention      []Policy
	RetentionEvery time.Duration
	Retained       func(eventlog.Receipt, error)
	// Now is the clock, and After a timer with what gives it up, both for tests;
	// nil are those of package time.
	Now   func() time.Time
	After func(d time.Duration) (fired <-chan time.Time, stop func() bool)
}

func (o Options) withDefaults() Options {
	if o.RetentionEvery <= 0 {
		o.RetentionEvery = 10 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = func(d time.Duration) (<-chan time.Time, func() bool) {
			t := time.NewTimer(d)
			return t.C, t.Stop
		}
	}
	return o
}

// Store is an open store. A Store itself has only administration: threads are
// reached through the handle of their scope. It is safe for concurrent use.
type Store struct {
	dir     string
	opts    Options
	log     eventlog.Log
	backups backups
	hub     *feed.Hub
	views   *projection.Views

	reducers  *projection.Reducers
	stopViews context.CancelFunc
	viewsDone chan struct{} // closed when views are no longer stored
	retention retention
}

// Open opens the store in dir, which it creates if need be, and closes the runs
// of a process that died while it wrote them. Only one process can have a store
// open: for a second one, an eventlog.LockedError says who has.
func Open(dir string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	for _, p := range opts.Retention {
		if err := p.check(); err != nil {
			return nil, err
		}
	}
	open := pebblelog.Open
	if opts.ReadOnly {
		open = pebblelog.OpenReadOnly
	}
	log, err := open(dir, pebblelog.Options{
		InMemory: opts.InMemory, Limits: opts.Limits, Now: opts.Now, After: opts.After,
		ImplicitLease: opts.ImplicitLease, KeyAge: opts.KeyAge,
		Listener: opts.listener(),
	})
	if err != nil {
		return nil, err
	}
	reducers, err := projection.Keep(log, opts.Projections, projection.ReducersOptions{
		ReadOnly: opts.ReadOnly, Failed: opts.ProjectionFailed, After: opts.After,
	})
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	s := &Store{
		reducers: reducers,

		dir: dir, opts: opts, log: log, backups: log,
		hub: feed.NewHub(log),
		views: projection.New(log, projection.Options{
			Fold: opts.Fold, Open: opts.OpenViews,
			Failed: func(_ eventlog.ThreadKey, err error) {
				if opts.Fault != nil {
					opts.Fault(err)
				}
			},
		}),
	}
	s.keep()
	s.keepViews()
	return s, nil
}

// listener passes on what the log tells.
func (o Options) listener() pebblelog.Listener {
	l := pebblelog.Listener{RunRecovered: o.Recovered, EngineError: o.Fault, WriteFailed: o.WriteFailed}
	if o.Reopened != nil {
		l.Reopened = func(_ uint64, away time.Duration) { o.Reopened(away) }
	}
	return l
}

// keepViews stores views behind the log, until Close.
func (s *Store) keepViews() {
	var ctx context.Context
	ctx, s.stopViews = context.WithCancel(context.Background())
	s.viewsDone = make(chan struct{})
	go func() {
		defer close(s.viewsDone)
		if !s.opts.ReadOnly {
			s.views.Run(ctx, s.log)
		}
	}()
}

// Exists reports whether there is a store in dir: for programs that only read,
// and must not create one. The store may be in use.
func Exists(dir string) (bool, error) { return pebblelog.Exists(dir) }

// Close ends followers and pending calls with ErrClosed and closes the store.
func (s *Store) Close() error {
	s.endRetention()
	s.reducers.Close()
	s.stopViews()
	<-s.viewsDone
	return errors.Join(s.hub.Close(), s.log.Close())
}

// Dir is the directory the store was opened in.
func (s *Store) Dir() string { return s.dir }

// Log is the log below, for what needs commits and positions of all scopes.
func (s *Store) Log() eventlog.Log { return s.log }

// DefaultScope is the scope of programs that need only one.
const DefaultScope = "default"

// Scope gives the handle of one scope: a tenant, or a user. No call on it
// learns anything of another scope. It costs nothing to get.
func (s *Store) Scope(name string) *Scope { return &Scope{store: s, name: name} }

// Scope is the part of a store that belongs to one tenant or user.
type Scope struct {
	store *Store
	name  string
}

// Name is the name of the scope.
func (s *Scope) Name() string { return s.name }

// Store is the store that the scope is part of.
func (s *Scope) Store() *Store { return s.store }

func (s *Scope) key(thread string) eventlog.ThreadKey {
	return eventlog.ThreadKey{Scope: s.name, Thread: thread}
}

// Append writes events to a thread, atomically, and creates the thread if need
// be. When it returns nil, they are durable. See eventlog.Log.Append.
func (s *Scope) Append(ctx context.Context, thread string, events ...[]byte) (eventlog.Appended, error) {
	return s.AppendBatch(ctx, thread, eventlog.Batch{Events: events})
}

// AppendBatch is Append with an expected seq, an idempotency key and more.
func (s *Scope) AppendBatch(ctx context.Context, thread string, b eventlog.Batch) (eventlog.Appended, error) {
	return s.store.log.Append(ctx, s.key(thread), b)
}

// Read yields the stored records of a thread. See eventlog.Log.Read.
func (s *Scope) Read(ctx context.Context, thread string, opts eventlog.ReadOptions) iter.Seq2[eventlog.Record, error] {
	return s.store.log.Read(ctx, s.key(thread), opts)
}

// Records yields the records of the lineage that leads to a point, from seq
// from on. See replay.Records.
func (s *Scope) Records(ctx context.Context, thread string, at replay.Point, from uint64) iter.Seq2[eventlog.Record, error] {
	return replay.Records(ctx, s.store.log, s.key(thread), at, from)
}

// Follow yields the records of a thread behind seq after, those stored and then
// those to come, without a gap. It waits for a thread that does not exist yet,
// and ends only with its context, the store (ErrClosed) or the caller's loop.
func (s *Scope) Follow(ctx context.Context, thread string, after uint64) iter.Seq2[eventlog.Record, error] {
	return s.store.hub.Follow(ctx, s.key(thread), after)
}

// View gives what the thread looks like now; ErrThreadNotFound if there is none.
func (s *Scope) View(ctx context.Context, thread string) (*fold.View, error) {
	return s.store.views.Head(ctx, s.key(thread))
}

// Page gives some messages of the transcript as it is now, from its end if opts
// do not say otherwise, with the state and the pending questions. See
// projection.Views.Page.
func (s *Scope) Page(ctx context.Context, thread string, opts projection.PageOptions) (*projection.Page, error) {
	return s.store.views.Page(ctx, s.key(thread), opts)
}

// ViewAt gives what the thread looked like at a point: ErrThreadNotFound,
// ErrRunNotFound, or ErrNotFound for a seq behind the end.
func (s *Scope) ViewAt(ctx context.Context, thread string, at replay.Point) (*fold.View, error) {
	return replay.View(ctx, s.store.log, s.key(thread), at, s.store.opts.Fold)
}

// ViewAs is ViewAt with other options of the fold.
func (s *Scope) ViewAs(ctx context.Context, thread string, at replay.Point, opts fold.Options) (*fold.View, error) {
	return replay.View(ctx, s.store.log, s.key(thread), at, opts)
}

// Snapshot makes a short stream of events that brings an AG-UI client that holds
// nothing to what the thread looks like now, in the middle of a run too; the
// records behind its Seq go on from there. See replay.Snapshot. ErrThreadNotFound
// if there is no such thread.
func (s *Scope) Snapshot(ctx context.Context, thread string) (replay.Opening, error) {
	view, err := s.View(ctx, thread)
	if err != nil {
		return replay.Opening{}, err
	}
	return replay.Snapshot(ctx, s.store.log, s.key(thread), view)
}

// Thread describes a thread; ErrThreadNotFound if there is none.
func (s *Scope) Thread(ctx context.Context, thread string) (eventlog.Thread, error) {
	return s.store.log.Thread(ctx, s.key(thread))
}

// Threads yields the threads of the scope by id, beginning behind after.
func (s *Scope) Threads(ctx context.Context, after string) iter.Seq2[eventlog.Thread, error] {
	return s.store.log.Threads(ctx, s.name, after)
}

// Runs lists the runs of a thread in order of their starts; ErrThreadNotFound if
// there is no such thread.
func (s *Scope) Runs(ctx context.Context, thread string) ([]eventlog.Run, error) {
	return s.store.log.Runs(ctx, s.key(thread))
}

// FindRun finds the run that name means in a thread: "id" (its latest attempt),
// "id#2", or agui.RootParent for the zero key, before the first run. Errors:
// ErrThreadNotFound, ErrRunNotFound.
func (s *Scope) FindRun(ctx context.Context, thread, name string) (agui.RunKey, error) {
	runs, err := s.Runs(ctx, thread)
	if err != nil {
		return agui.RunKey{}, err
	}
	key, ok := agui.ParseRunKey(eventlog.Tree(runs), name)
	if !ok && name != agui.RootParent {
		return agui.RunKey{}, &eventlog.Error{
			Op: "find run " + name + " of", Key: s.key(thread), Err: eventlog.ErrRunNotFound,
			Hint: "agstore runs lists the runs of a thread",
		}
	}
	return key, nil
}
