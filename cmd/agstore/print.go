package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// printable is text as a terminal may have it: control characters, which could
// make it do things, become visible.
func printable(s string) string {
	clean := func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20:
			return 0x2400 + r // its picture
		case r == 0x7F:
			return 0x2421
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		}
		return r
	}
	return strings.Map(clean, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// style is how text is marked on a terminal.
type style string

const (
	bold   style = "\x1b[1m"
	dim    style = "\x1b[2m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
	reset        = "\x1b[0m"
)

// coloured reports whether out takes colour.
func (a *app) coloured() bool {
	switch a.colour {
	case "always":
		return true
	case "never":
		return false
	}
	return a.io.outTTY && a.io.env("NO_COLOR") == "" && a.io.env("TERM") != "dumb"
}

// paint marks text, where colour is wanted.
func (a *app) paint(s style, text string) string {
	if text == "" || !a.coloured() {
		return text
	}
	return string(s) + text + reset
}

// table is rows of cells: aligned under a header on a terminal, TSV without a
// header elsewhere.
type table struct {
	header []string
	rows   [][]string
	marks  []style // of the columns; empty: none
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// maxCell is where a cell is cut on a terminal.
const maxCell = 48

func (a *app) printTable(w io.Writer, t *table) error {
	out := bufio.NewWriter(w)
	if !a.io.outTTY {
		for _, row := range t.rows {
			for i, cell := range row {
				if i > 0 {
					out.WriteByte('\t')
				}
				out.WriteString(tsvEscapes.Replace(cell))
			}
			out.WriteByte('\n')
		}
		return out.Flush()
	}
	if len(t.rows) == 0 {
		return nil
	}
	lines := [][]string{t.header}
	for _, row := range t.rows {
		line := make([]string, len(row))
		for i, cell := range row {
			line[i] = shorten(strings.Map(flatten, printable(cell)), maxCell)
		}
		lines = append(lines, line)
	}
	widths := make([]int, len(t.header))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, line := range lines {
		for i, cell := range line {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			if i == len(line)-1 {
				padding = ""
			}
			mark := style("")
			if n == 0 {
				mark = dim
			} else if i < len(t.marks) {
				mark = t.marks[i]
			}
			if mark != "" {
				cell = a.paint(mark, cell)
			}
			out.WriteString(cell + padding)
		}
		out.WriteByte('\n')
	}
	return out.Flush()
}

// tsvEscapes keeps a cell in its column.
var tsvEscapes = strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

func flatten(r rune) rune {
	if r == '\n' || r == '\t' {
		return ' '
	}
	return r
}

// shorten cuts text to n characters.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// clock shows times the way that was asked for.
type clock struct {
	mode string
	now  time.Time
	last time.Time
}

func (a *app) newClock(fallback string) *clock {
	mode := a.times
	if mode == "" {
		mode = fallback
	}
	return &clock{mode: mode, now: a.now()}
}

// listClock shows ages to people and times to programs.
func (a *app) listClock() *clock {
	if a.io.outTTY {
		return a.newClock("relative")
	}
	return a.newClock("iso")
}

// show is t as an age, as it is, or as the time since the one shown before.
func (c *clock) show(t time.Time) string {
	last := c.last
	c.last = t
	switch c.mode {
	case "relative":
		return age(c.now.Sub(t))
	case "delta":
		if last.IsZero() {
			last = t
		}
		return "+" + short(t.Sub(last))
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func age(d time.Duration) string {
	if d < time.Second {
		return "now"
	}
	return short(d) + " ago"
}

// short is a duration for people: two figures that matter.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + short(-d)
	case d < time.Microsecond:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
