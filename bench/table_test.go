package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// someResults has one of each kind.
func someResults() []Result {
	out := []Result{
		result("events & <things>", "≥ 4,000,000 events/s").got(perSecond(5e6, "events")).atLeast(5e6, 4e6),
		result("against a peer", "≥ 200×").got("10 s").against("1 s", 10).atLeast(10, 200),
		result("against what is not there", "≥ 200×").got("10 s").unmeasured("peer: not installed"),
		result("allocations", "≤ 0.1").got("0").atMost(0, 0.1),
	}
	for i := range out {
		out[i].Row = "P-X1"
	}
	return out
}

func TestVerdicts(t *testing.T) {
	want := []string{"yes", "NO", "?", "yes"}
	for i, r := range someResults() {
		if r.verdict() != want[i] {
			t.Errorf("%s: %s, want %s", r.What, r.verdict(), want[i])
		}
	}
	for _, c := range []struct {
		got  Result
		ok   bool
		what string
	}{
		{Result{}.atLeast(3.99, 4), false, "just below a least"},
		{Result{}.atLeast(4, 4), true, "a least"},
		{Result{}.atMost(4, 4), true, "a most"},
		{Result{}.atMost(4.01, 4), false, "just above a most"},
	} {
		if *c.got.OK != c.ok {
			t.Errorf("%s: %t", c.what, *c.got.OK)
		}
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := writeTable(&out, someResults()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"row what agstore peer or limit ratio goal ok?",
		"P-X1 events & <things> 5,000,000 events/s – – ≥ 4,000,000 events/s yes",
		"P-X1 against a peer 10 s 1 s 10.0× ≥ 200× NO",
		"P-X1 against what is not there 10 s peer: not installed – ≥ 200× ?",
		"P-X1 allocations 0 – – ≤ 0.1 yes",
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for i, line := range lines {
		if got := strings.Join(strings.Fields(line), " "); got != want[i] {
			t.Errorf("line %d is %q, want %q", i, got, want[i])
		}
	}
}

func TestResultAsJSON(t *testing.T) {
	text, err := json.Marshal(someResults()[1:3])
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"row":"P-X1","what":"against a peer","agstore":"10 s","other":"1 s","ratio":10,"goal":"≥ 200×","ok":false},` +
		`{"row":"P-X1","what":"against what is not there","agstore":"10 s","other":"peer: not installed","ratio":null,"goal":"≥ 200×","ok":null}]`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		perSecond(1234567.6, "events"):      "1,234,568 events/s",
		grouped(0):                          "0",
		grouped(999):                        "999",
		grouped(1000):                       "1,000",
		took(154 * time.Nanosecond):         "154 ns",
		took(1540 * time.Nanosecond):        "1.54 µs",
		took(15400 * time.Microsecond):      "15.4 ms",
		took(2500 * time.Millisecond):       "2.50 s",
		short(0.0073):                       "0.0073",
		short(12345):                        "12,345",
		cut("a long text", 6) + cut("b", 6): "a lon…b",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The chart is well-formed, says what each bar is, and shows where no bar is why.
func TestChart(t *testing.T) {
	results := someResults()
	text := string(chart(results))
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	for _, want := range []string{"events &amp; &lt;things&gt;", "peer: not installed", "#2e7d32", "#c62828"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the chart", want)
		}
	}
	if bars := strings.Count(text, "<g>"); bars != len(results) {
		t.Errorf("%d bars of %d results", bars, len(results))
	}
	if !(chartX(0) < chartX(0.5) && chartX(0.5) < chartX(1) && chartX(1) < chartX(2) && chartX(1e6) <= chartWidth) {
		t.Error("bars do not grow with the score")
	}
}
