package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
)

// seed of all that is made up: every run measures the same events.
const seed = 20260901

// runKey is the run that the events of these streams belong to.
var runKey = agui.RunKey{ID: "run-1", Attempt: 1}

// stream is raw events, and where in a thread they stand.
type stream struct {
	seq    uint64
	events [][]byte
}

func (s *stream) addf(format string, args ...any) {
	s.events = append(s.events, fmt.Appendf(nil, format, args...))
}

// lines is the stream as a file.
func (s *stream) lines() []byte { return append(bytes.Join(s.events, []byte("\n")), '\n') }

// into folds the events into f, behind those it has.
func (s *stream) into(f *fold.Fold) {
	seq := s.seq
	for _, raw := range s.events {
		seq++
		f.Apply(fold.Record{Seq: seq, Run: runKey, Raw: raw})
	}
}

// behind is a stream that goes on where s ends.
func (s *stream) behind() *stream { return &stream{seq: s.seq + uint64(len(s.events))} }

// start opens a run.
func start() *stream {
	s := new(stream)
	s.addf(`{"type":"RUN_STARTED","threadId":"thread-1","runId":%q}`, runKey.ID)
	return s
}

func (s *stream) end() { s.addf(`{"type":"RUN_FINISHED","threadId":"thread-1","runId":%q}`, runKey.ID) }

// messageID is an id of the length that providers use.
func messageID(i int) string { return fmt.Sprintf("msg_01JB7Q%020d", i) }

var words = strings.Fields(`the of and a to in is you that it he was for on are as with his they I at be this have from
	or one had by word but not what all were we when your can said there use an each which she do how their if will up
	other about out many then them these so some her would make like him into time has look two more write go see`)

// words makes text as a model streams it: two to six words and a space.
func text(r *rand.Rand) string {
	var out strings.Builder
	for range 2 + r.IntN(5) {
		out.WriteString(words[r.IntN(len(words))])
		out.WriteByte(' ')
	}
	return out.String()
}

func (s *stream) open(message string) {
	s.addf(`{"type":"TEXT_MESSAGE_START","messageId":%q,"role":"assistant"}`, message)
}

func (s *stream) delta(message, text string) {
	s.addf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":%q}`, message, text)
}

func (s *stream) close(message string) { s.addf(`{"type":"TEXT_MESSAGE_END","messageId":%q}`, message) }

// oneMessage is a run with one message from so many deltas.
func oneMessage(deltas int) *stream {
	r := rand.New(rand.NewPCG(seed, 1))
	s, id := start(), messageID(1)
	s.open(id)
	for range deltas {
		s.delta(id, text(r))
	}
	s.close(id)
	s.end()
	return s
}

// openMessages is a run with so many messages, all still open, each with the
// beginning of a text.
func openMessages(n int) *stream {
	r := rand.New(rand.NewPCG(seed, 8))
	s := start()
	for i := range n {
		s.open(messageID(i))
		for range 8 {
			s.delta(messageID(i), text(r))
		}
	}
	return s
}

// someChunks is a run whose text comes as chunks, so many to a message.
func someChunks(messages, chunks int) *stream {
	r := rand.New(rand.NewPCG(seed, 2))
	s := start()
	for i := range messages {
		for range chunks {
			s.addf(`{"type":"TEXT_MESSAGE_CHUNK","messageId":%q,"role":"assistant","delta":%q}`, messageID(i), text(r))
		}
	}
	s.end()
	return s
}

// someMessages is a run of complete messages with so many deltas each.
func someMessages(messages, deltas int) *stream {
	r := rand.New(rand.NewPCG(seed, 3))
	s := start()
	for i := range messages {
		s.open(messageID(i))
		for range deltas {
			s.delta(messageID(i), text(r))
		}
		s.close(messageID(i))
	}
	s.end()
	return s
}

// stateOf is a run that begins with a state of about so many bytes: a list of
// tasks. It returns how many there are.
func stateOf(size int) (s *stream, tasks int) {
	r := rand.New(rand.NewPCG(seed, 4))
	var state bytes.Buffer
	state.WriteString(`{"title":"plan","done":0,"tasks":[`)
	for ; state.Len() < size-100 || tasks == 0; tasks++ {
		if tasks > 0 {
			state.WriteByte(',')
		}
		fmt.Fprintf(&state, `{"id":"task-%06d","title":%q,"progress":0,"done":false}`, tasks, text(r))
	}
	state.WriteString(`]}`)
	s = start()
	s.addf(`{"type":"STATE_SNAPSHOT","snapshot":%s}`, state.Bytes())
	return s, tasks
}

// progress is deltas of one operation each on a state of so many tasks.
func (s *stream) progress(deltas, tasks int) {
	r := rand.New(rand.NewPCG(seed, 5))
	for i := range deltas {
		s.addf(`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/tasks/%d/progress","value":%d}]}`, r.IntN(tasks), i)
	}
}
