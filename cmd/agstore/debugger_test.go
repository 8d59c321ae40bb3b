package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

// debugged is a debugger of a stream, without a terminal; copied is where it puts
// what is copied.
type debugged struct {
	t      *testing.T
	d      *debugger
	copied string
}

func recordsOf(stream string) []eventlog.Record {
	tracker := agui.NewTracker(nil, agui.RunKey{})
	var list []eventlog.Record
	for line := range strings.Lines(stream) {
		r := eventlog.Record{Seq: uint64(len(list) + 1), Event: []byte(strings.TrimSpace(line)), Time: time.Unix(int64(len(list)), 0)}
		var h agui.Header
		if agui.ReadHeader(r.Event, &h) == nil {
			in := tracker.Assign(&h, r.Seq, agui.Claim{})
			r.Run, r.Type, r.Echo = in.Run, h.Type, in.Echo
		}
		list = append(list, r)
	}
	return list
}

func debugging(t *testing.T, stream string) *debugged {
	a := &app{io: &streams{out: io.Discard, env: func(string) string { return "" }}, colour: "never", now: time.Now}
	p := &debugged{t: t, d: a.newDebugger("t", recordsOf(stream))}
	p.d.copied = func(text string) tea.Cmd {
		p.copied = text
		return nil
	}
	return p
}

// press gives keys, as "]" or "down", or text to be typed in quotes.
func (p *debugged) press(keys ...string) *debugged {
	p.t.Helper()
	named := map[string]rune{"down": tea.KeyDown, "up": tea.KeyUp, "enter": tea.KeyEnter, "esc": tea.KeyEsc, "end": tea.KeyEnd, "backspace": tea.KeyBackspace, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown}
	for _, key := range keys {
		if kind, ok := named[key]; ok {
			p.d.Update(tea.KeyPressMsg{Code: kind})
			continue
		}
		for _, r := range key {
			p.d.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return p
}

// stands checks the seq it stands at, and what the screen shows and does not.
func (p *debugged) stands(seq uint64, shows ...string) {
	p.t.Helper()
	screen := p.d.draw()
	if got := p.d.film.records[p.d.at].Seq; got != seq {
		p.t.Errorf("it stands at %d, want %d\n%s", got, seq, screen)
	}
	for _, text := range shows {
		text, not := strings.CutPrefix(text, "not ")
		if strings.Contains(screen, text) == not {
			p.t.Errorf("at %d, %q: want %v\n%s", seq, text, !not, screen)
		}
	}
}

func TestDebugger(t *testing.T) {
	p := debugging(t, story)
	p.d.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	p.stands(1, "› ", "RUN_STARTED r1", "What is the weather?", "seq 1 of 18", "not sunny", "q quit")
	p.press("down").stands(2, `+   "n": 9007199254740993`, `+   "x": 1.10`)
	p.press("j").stands(3, `    "n": 9007199254740993`, `not + `, "→ weather")
	p.press("}").stands(7, "sunny", `{"city":"Lisbon"}`)
	p.press("m").stands(8)
	p.press("{").stands(7)
	p.press("end").stands(18, "waits for an answer:", "Book it?", "interrupted")
	p.press("[").stands(14, "not May I book?")
	p.press("[").stands(1)
	p.press("[").stands(1, "no other run")
	p.press("]").stands(14)
	p.press("up", "up").stands(12, `+   "hat": true`)
	p.press("g").stands(1)
	p.press("pgdown").stands(18)
	p.press("pgup").stands(1)
}

func TestDebuggerSearchJumpFilter(t *testing.T) {
	p := debugging(t, story)
	p.press("/", "SUNNYX", "backspace", "enter").stands(7)
	p.press("n").stands(9)
	p.press("n").stands(7) // round and round
	p.press("N").stands(9)
	p.press("/", "nowhere", "enter").stands(9, "nothing has nowhere")
	p.press(":", "12", "enter").stands(12)
	p.press(":", "r2", "enter").stands(14)
	p.press(":", "r9", "enter").stands(14, "there is no seq or run r9")
	p.press("/", "book", "esc").stands(14, "q quit")
	p.press("f", "content", "enter").stands(16, "only CONTENT", "not TOOL_CALL_ARGS")
	p.press("k").stands(10)
	p.press("f", "nothing", "enter").stands(10, "no event type has NOTHING")
	p.press("f", "enter", "k").stands(9)
}

func TestDebuggerCopies(t *testing.T) {
	p := debugging(t, story)
	p.press("s").stands(1, "there is no state yet")
	p.press("down", "c")
	if want := strings.Split(story, "\n")[1]; p.copied != want {
		t.Errorf("the event is %s, want %s", p.copied, want)
	}
	if p.press("s"); p.copied != `{"n":9007199254740993,"x":1.10,"s":"<\ud83d"}` {
		t.Errorf("the state is %s", p.copied)
	}
	p.press("G", "v")
	var v view
	if err := json.Unmarshal([]byte(p.copied), &v); err != nil || v.Thread != "t" || len(v.Messages) != 5 {
		t.Errorf("the view is %s, %v", p.copied, err)
	}
	if _, cmd := p.d.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); cmd == nil || cmd() != (tea.QuitMsg{}) {
		t.Error("q does not end it")
	}
}

// What a thread holds cannot make the terminal do things, and every size of it
// can be drawn.
func TestDebuggerOnAnyScreen(t *testing.T) {
	p := debugging(t, turn("r\x1b[2J", "", "words \x1b]0;title\x07 and more"))
	for width := 0; width < 130; width += 13 {
		for height := range 12 {
			p.d.Update(tea.WindowSizeMsg{Width: width, Height: height * 4})
			for range p.d.film.records {
				if screen := p.press("down").d.draw(); strings.ContainsAny(screen, "\x1b\x07") {
					t.Fatalf("%d × %d: %q", width, height, screen)
				}
			}
			p.press("g")
		}
	}
}

// Wherever one goes, the view is that of a fold from the beginning.
func TestFilm(t *testing.T) {
	var stream strings.Builder
	for i := range 120 {
		stream.WriteString(turn(fmt.Sprint("r", i), "", fmt.Sprint("says ", i)))
	}
	list := recordsOf(stream.String())
	film := newFilm(list)
	for _, i := range []int{0, 599, 300, 299, 301, 255, 256, 257, 511, 512, 10, -1, 598, 512, 513, 70} {
		f := fold.New(fold.Options{})
		for _, r := range list[:i+1] {
			f.Apply(fold.Record{Seq: r.Seq, Run: r.Run, Raw: r.Event})
		}
		got, err := film.view(i)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := string(got.AppendJSON(nil)), string(f.View().AppendJSON(nil)); a != b {
			t.Fatalf("behind record %d:\n%s\nwant\n%s", i, a, b)
		}
	}
}

func TestReplayInteractiveWantsATerminal(t *testing.T) {
	c := storyCLI(t)
	c.fails(exitUsage, "terminal", "replay", "t", "-i")
	c.fails(exitUsage, "-i excludes", "replay", "t", "-i", "--json")
}
