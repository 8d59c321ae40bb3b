package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// Result is one line of the table.
type Result struct {
	Row     string `json:"row"`
	What    string `json:"what"`
	Agstore string `json:"agstore"` // with its unit
	// Other is the peer or the limit it is compared with, measured in the same
	// run; "" if there is none.
	Other string `json:"other"`
	// Ratio is agstore's figure over the other's; nil without one.
	Ratio *float64 `json:"ratio"`
	Goal  string   `json:"goal"` // in words
	// OK reports whether the goal was reached; nil: it could not be measured.
	OK *bool `json:"ok"`

	score float64 // how many times better than the goal; 0: not measured
}

// result begins a line about something with a goal.
func result(what, goal string) Result { return Result{What: what, Goal: goal} }

// got sets what agstore does.
func (r Result) got(text string) Result {
	r.Agstore = text
	return r
}

// against sets what it is compared with.
func (r Result) against(text string, ratio float64) Result {
	r.Other, r.Ratio = text, &ratio
	return r
}

// unmeasured says why there is nothing to compare with.
func (r Result) unmeasured(why string) Result {
	r.Other, r.Ratio, r.OK, r.score = why, nil, nil, 0
	return r
}

// atLeast judges a figure that should be large.
func (r Result) atLeast(figure, goal float64) Result { return r.judged(figure / goal) }

// atMost judges a figure that should be small.
func (r Result) atMost(figure, goal float64) Result {
	return r.judged(goal / max(figure, goal/1000)) // 0 is good, but not infinitely
}

func (r Result) judged(score float64) Result {
	ok := score >= 1
	r.OK, r.score = &ok, score
	return r
}

// verdict is the last column.
func (r Result) verdict() string {
	switch {
	case r.OK == nil:
		return "?"
	case *r.OK:
		return "yes"
	}
	return "NO"
}

func writeTable(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\twhat\tagstore\tpeer or limit\tratio\tgoal\tok?")
	for _, r := range results {
		other, ratio := "–", "–"
		if r.Other != "" {
			other = r.Other
		}
		if r.Ratio != nil {
			ratio = short(*r.Ratio) + "×"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Row, r.What, r.Agstore, other, ratio, r.Goal, r.verdict())
	}
	return t.Flush()
}

// perSecond is a rate in words.
func perSecond(rate float64, what string) string {
	return grouped(int64(rate+0.5)) + " " + what + "/s"
}

// grouped is a number with commas.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// took is a duration in words, three digits of it.
func took(d time.Duration) string {
	f := float64(d)
	switch {
	case d < time.Microsecond:
		return short(f) + " ns"
	case d < time.Millisecond:
		return short(f/1e3) + " µs"
	case d < time.Second:
		return short(f/1e6) + " ms"
	}
	return short(f/1e9) + " s"
}

// short is a number with two or three digits that count.
func short(f float64) string {
	switch {
	case f >= 100:
		return grouped(int64(f + 0.5))
	case f >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case f >= 0.1 || f == 0:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
	return strconv.FormatFloat(f, 'g', 2, 64)
}
