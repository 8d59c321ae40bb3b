package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
)

// debugger is the time-travel debugger of replay -i: a place in a list of
// records, and what a thread looked like there.
type debugger struct {
	*app
	thread string
	film   *film
	at     int // the record it stands behind

	width, height int
	asking        rune   // '/', ':' or 'f': what is typed is for that; 0: nothing is asked
	typed         string // so far
	search        string
	filter        string // only events with this in their type are gone to and shown
	note          string // for the last line, until the next key
	copied        func(text string) tea.Cmd
}

// debug runs the debugger on a terminal.
func (a *app) debug(ctx context.Context, c *client.Client, thread string, selected client.EventOptions) error {
	if !a.io.outTTY || !a.io.inTTY {
		return &usageError{text: "-i needs a terminal", hint: "without -i the events are played; --json prints them"}
	}
	if selected.Run == nil {
		var err error
		if selected.Run, err = headOf(ctx, c, thread); err != nil {
			return err
		}
	}
	var list []eventlog.Record
	for r, err := range records(ctx, c, thread, selected) {
		if err != nil {
			return err
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		return &eventlog.Error{Op: "replay", Key: eventlog.ThreadKey{Thread: thread}, Err: eventlog.ErrNotFound, Hint: "the thread has no events"}
	}
	d := a.newDebugger(thread, list)
	_, err := tea.NewProgram(d, tea.WithContext(ctx), tea.WithInput(a.io.in), tea.WithOutput(a.io.out)).Run()
	return err
}

// headOf is the name of the run that a thread continues from; nil if there is
// none.
func headOf(ctx context.Context, c *client.Client, thread string) (*string, error) {
	runs, err := c.Runs(ctx, thread)
	for _, r := range runs {
		if r.Head {
			name := runName(r)
			return &name, nil
		}
	}
	return nil, err
}

func (a *app) newDebugger(thread string, list []eventlog.Record) *debugger {
	return &debugger{app: a, thread: thread, film: newFilm(list), width: 100, height: 30, copied: tea.SetClipboard}
}

// Init asks for nothing: the records are there.
func (d *debugger) Init() tea.Cmd { return nil }

// Update takes a key.
func (d *debugger) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		d.width, d.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		d.note = ""
		if d.asking != 0 {
			d.answer(msg)
			return d, nil
		}
		return d, d.key(msg.String())
	}
	return d, nil
}

// key does what a key is for.
func (d *debugger) key(key string) tea.Cmd {
	last := len(d.film.records) - 1
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "down", "j", "space", "right", "l":
		d.find(1, d.passes)
	case "up", "k", "left", "h":
		d.find(-1, d.passes)
	case "pgdown":
		for range d.height - 4 {
			d.find(1, d.passes)
		}
	case "pgup":
		for range d.height - 4 {
			d.find(-1, d.passes)
		}
	case "home", "g":
		d.at = 0
	case "end", "G":
		d.at = last
	case "]":
		d.jump(1, "run", d.startsRun)
	case "[":
		d.jump(-1, "run", d.startsRun)
	case "}", "m":
		d.jump(1, "message", d.startsMessage)
	case "{", "M":
		d.jump(-1, "message", d.startsMessage)
	case "n":
		d.searchOn(1)
	case "N":
		d.searchOn(-1)
	case "/", ":", "f":
		d.asking, d.typed = rune(key[0]), ""
	case "c", "v", "s":
		return d.copy(key)
	}
	return nil
}

// find goes to the next record in a direction that is wanted; false: there is none.
func (d *debugger) find(step int, wanted func(i int) bool) bool {
	for i := d.at + step; i >= 0 && i < len(d.film.records); i += step {
		if wanted(i) {
			d.at = i
			return true
		}
	}
	return false
}

func (d *debugger) jump(step int, what string, wanted func(i int) bool) {
	if !d.find(step, wanted) {
		d.note = "no other " + what + " in that direction"
	}
}

func (d *debugger) passes(i int) bool {
	return strings.Contains(string(d.film.records[i].Type), d.filter)
}

func (d *debugger) startsRun(i int) bool {
	r := d.film.records[i]
	return r.Type == agui.TypeRunStarted && !r.Echo
}

// startsMessage reports whether a record begins a message or brings whole ones.
func (d *debugger) startsMessage(i int) bool {
	r := d.film.records[i]
	switch r.Type {
	case agui.TypeTextMessageStart, agui.TypeReasoningMessageStart, agui.TypeThinkingTextMessageStart, agui.TypeToolCallStart,
		agui.TypeToolCallResult, agui.TypeActivitySnapshot, agui.TypeMessagesSnapshot:
		return true
	case agui.TypeTextMessageChunk, agui.TypeReasoningMessageChunk, agui.TypeToolCallChunk:
		return i == 0 || d.film.records[i-1].Type != r.Type
	case agui.TypeRunStarted:
		return !r.Echo && bytes.Contains(r.Event, []byte(`"role"`))
	}
	return false
}

// searchOn goes to the next record that has what is searched for, from the other
// end on if need be.
func (d *debugger) searchOn(step int) {
	if d.search == "" {
		d.note = "/ searches"
		return
	}
	word := bytes.ToLower([]byte(d.search))
	n := len(d.film.records)
	for k := 1; k <= n; k++ {
		i := ((d.at+step*k)%n + n) % n
		if bytes.Contains(bytes.ToLower(d.film.records[i].Event), word) {
			d.at = i
			return
		}
	}
	d.note = "nothing has " + d.search
}

// answer takes a key of a line that is typed.
func (d *debugger) answer(msg tea.KeyPressMsg) {
	switch msg.String() {
	default:
		d.typed += msg.Text
	case "esc", "ctrl+c":
		d.asking = 0
	case "backspace":
		if runes := []rune(d.typed); len(runes) > 0 {
			d.typed = string(runes[:len(runes)-1])
		}
	case "enter":
		asked := d.asking
		d.asking = 0
		switch asked {
		case '/':
			d.search = d.typed
			d.searchOn(1)
		case ':':
			d.jumpTo(d.typed)
		case 'f':
			d.setFilter(strings.ToUpper(d.typed))
		}
	}
}

// jumpTo goes to a seq, or to the start of a run.
func (d *debugger) jumpTo(text string) {
	seq, err := strconv.ParseUint(strings.TrimPrefix(text, "@"), 10, 64)
	for i, r := range d.film.records {
		if err == nil && r.Seq >= seq || err != nil && d.startsRun(i) && strings.HasPrefix(r.Run.String(), text) {
			d.at = i
			return
		}
	}
	d.note = "there is no seq or run " + text
}

func (d *debugger) setFilter(filter string) {
	before := d.filter
	d.filter = filter
	if d.passes(d.at) || d.find(1, d.passes) || d.find(-1, d.passes) {
		return
	}
	d.filter, d.note = before, "no event type has "+filter
}

// copy hands the event, the view or the state to the clipboard, as JSON.
func (d *debugger) copy(what string) tea.Cmd {
	if what == "c" {
		d.note = "copied the event"
		return d.copied(string(d.film.records[d.at].Event))
	}
	v, err := d.film.view(d.at)
	switch {
	case err != nil:
		d.note = err.Error()
	case what == "v":
		shown := *v
		shown.Thread = d.thread
		d.note = "copied the view"
		return d.copied(string(shown.AppendJSON(nil)))
	case v.State == nil:
		d.note = "there is no state yet"
	default:
		d.note = "copied the state"
		return d.copied(string(v.State))
	}
	return nil
}

// View draws it all on a screen of its own.
func (d *debugger) View() tea.View {
	v := tea.NewView(d.draw())
	v.AltScreen = true
	return v
}

// draw is the timeline on the left, the transcript and the state on the right,
// keys or a question below.
func (d *debugger) draw() string {
	v, err := d.film.view(d.at)
	if err != nil {
		return err.Error()
	}
	before, err := d.film.view(d.at - 1)
	if err != nil {
		return err.Error()
	}
	r := d.film.records[d.at]
	left := max(min(50, d.width/2), 10)
	right, rows := max(d.width-left-3, 10), max(d.height-2, 4)
	timeline := d.timeline(rows, left)
	state := d.stateLines(before.State, v.State, right)
	if most := rows / 2; len(state) > most {
		state = append(state[:most-1], d.paint(dim, "…"))
	}
	v.Thread = d.thread
	talk := d.transcriptLines(v.AppendJSON(nil), rows-len(state)-1, right)
	side := append(append(talk, d.paint(dim, "state")), state...)
	var out strings.Builder
	head := fmt.Sprintf("%s  run %s  %s  seq %d of %d  %s", d.thread, v.Run, v.Status, r.Seq, d.film.records[len(d.film.records)-1].Seq, r.Time.UTC().Format("15:04:05.000"))
	out.WriteString(d.paint(bold, cut(printable(head), d.width)) + "\n")
	for i := range rows {
		line := ""
		if i < len(side) {
			line = side[i]
		}
		out.WriteString(timeline[i] + d.paint(dim, " │ ") + line + "\n")
	}
	out.WriteString(d.lastLine())
	return out.String()
}

func (d *debugger) lastLine() string {
	switch {
	case d.asking == 'f':
		return "only types with: " + printable(d.typed) + "█"
	case d.asking != 0:
		return string(d.asking) + printable(d.typed) + "█"
	case d.note != "":
		return d.paint(yellow, cut(printable(d.note), d.width))
	}
	keys := "q quit  ↑↓ event  [ ] run  { } message  : seq, run  / n N search  f filter  copy: c event v view s state"
	if d.filter != "" {
		keys = "only " + d.filter + "  " + keys
	}
	return d.paint(dim, cut(keys, d.width))
}

// timeline is the events around the one it stands at, in lines of one width.
func (d *debugger) timeline(rows, width int) []string {
	var list []int
	here := 0
	for i := range d.film.records {
		if i == d.at {
			here = len(list)
		}
		if i == d.at || d.passes(i) {
			list = append(list, i)
		}
	}
	from := max(0, min(here-rows/2, len(list)-rows))
	var out []string
	for row := range rows {
		if from+row >= len(list) {
			out = append(out, strings.Repeat(" ", width))
			continue
		}
		i := list[from+row]
		r := d.film.records[i]
		gap := "+0s"
		if i > 0 {
			gap = "+" + short(r.Time.Sub(d.film.records[i-1].Time))
		}
		line := fmt.Sprintf("%5d %7s %s", r.Seq, gap, r.Type)
		if r.Type == agui.TypeRunStarted {
			line += " " + r.Run.String()
		}
		line = cut(printable(line), width-2)
		line += strings.Repeat(" ", max(0, width-2-len([]rune(line))))
		switch {
		case i == d.at:
			out = append(out, "› "+d.paint(bold, line))
		case r.Echo:
			out = append(out, "  "+d.paint(dim, line))
		default:
			out = append(out, "  "+line)
		}
	}
	return out
}

// transcriptLines is the end of the conversation.
func (d *debugger) transcriptLines(viewJSON []byte, rows, width int) []string {
	plain := *d.app
	plain.colour = "never"
	var text bytes.Buffer
	if err := plain.printTranscript(&text, viewJSON); err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		lines = append(lines, cut(strings.TrimRight(line, "\n"), width))
	}
	if len(lines) > rows {
		lines = lines[len(lines)-max(rows, 0):]
	}
	for len(lines) < rows {
		lines = append(lines, "")
	}
	return lines
}

// stateLines is the state with marks: + for lines that the event brought, - for
// those it took away.
func (d *debugger) stateLines(before, now json.RawMessage, width int) []string {
	old := make(map[string]int)
	for _, line := range jsonLines(before) {
		old[line]++
	}
	var out []string
	for _, line := range jsonLines(now) {
		if old[line] > 0 {
			old[line]--
			out = append(out, "  "+cut(line, width-2))
		} else {
			out = append(out, d.paint(green, "+ "+cut(line, width-2)))
		}
	}
	for _, line := range jsonLines(before) {
		if old[line] > 0 {
			old[line]--
			out = append(out, d.paint(red, "- "+cut(line, width-2)))
		}
	}
	return out
}

func jsonLines(value json.RawMessage) []string {
	var out bytes.Buffer
	if len(value) == 0 || json.Indent(&out, value, "", "  ") != nil {
		return nil
	}
	lines := strings.Split(printable(out.String()), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], ",") // which tells nothing, and comes with a neighbour
	}
	return lines
}

// cut is text in at most n columns; tabs would take more.
func cut(s string, n int) string { return shorten(strings.Map(flatten, s), max(n, 1)) }
