package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
)

// The chart: one bar a result, on a logarithmic scale. The line in the middle
// is the goal; to its right it has been reached, that many times over.
const (
	chartWidth  = 1080
	chartLabels = 470 // the width of what stands left of the bars
	chartRight  = 110 // and right of them
	chartLine   = 24
	chartTop    = 58
	chartLeast  = 0.1
	chartMost   = 100.0
)

// chart draws the results as SVG.
func chart(results []Result) []byte {
	var out bytes.Buffer
	height := chartTop + chartLine*len(results) + 16
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	out.WriteString(`<text x="16" y="24" font-size="16" font-weight="bold">agstore: how many times better than the goal</text>` + "\n")
	for _, mark := range []float64{0.1, 1, 10, 100} {
		x, colour := chartX(mark), "#dddddd"
		if mark == 1 {
			colour = "#333333"
		}
		fmt.Fprintf(&out, `<text x="%.1f" y="44" text-anchor="middle" fill="#555555">%g×</text>`+"\n", x, mark)
		fmt.Fprintf(&out, `<line x1="%.1f" y1="50" x2="%.1f" y2="%d" stroke="%s"/>`+"\n", x, x, height-12, colour)
	}
	for i, r := range results {
		bar(&out, chartTop+chartLine*i, r)
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// bar draws one result at a height.
func bar(out *bytes.Buffer, y int, r Result) {
	fmt.Fprintf(out, `<g><title>%s</title>`, html.EscapeString(r.Row+" "+r.What+": "+r.Agstore+", goal "+r.Goal))
	fmt.Fprintf(out, `<text x="16" y="%d">%s</text>`, y+15, html.EscapeString(r.Row+"  "+cut(r.What, 68)))
	if r.OK == nil {
		fmt.Fprintf(out, `<text x="%.1f" y="%d" fill="#777777">%s</text></g>`+"\n", chartX(1)+6, y+15, html.EscapeString(r.Other))
		return
	}
	colour := "#2e7d32"
	if !*r.OK {
		colour = "#c62828"
	}
	from, to := chartX(1), chartX(r.score)
	fmt.Fprintf(out, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, min(from, to), y+3, max(math.Abs(to-from), 2), chartLine-8, colour)
	fmt.Fprintf(out, `<text x="%.1f" y="%d" fill="#333333">%s</text></g>`+"\n", max(from, to)+6, y+15, html.EscapeString(r.Agstore))
}

// chartX is where a score stands.
func chartX(score float64) float64 {
	score = min(max(score, chartLeast), chartMost)
	const width = chartWidth - chartLabels - chartRight
	return chartLabels + width*math.Log10(score/chartLeast)/math.Log10(chartMost/chartLeast)
}

// cut is s, with at most n characters.
func cut(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}
