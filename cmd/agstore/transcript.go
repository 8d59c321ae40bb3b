package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// view is what a transcript shows of a view.
type view struct {
	Thread            string            `json:"thread"`
	Messages          []message         `json:"messages"`
	PendingInterrupts []interrupt       `json:"pendingInterrupts"`
	Runs              []json.RawMessage `json:"runs"`
	Status            string            `json:"status"`
}

// message is what a transcript shows of an AG-UI message.
type message struct {
	ID           string          `json:"id"`
	Role         string          `json:"role"`
	Name         string          `json:"name"`
	Content      json.RawMessage `json:"content"`
	ToolCalls    []toolCall      `json:"toolCalls"`
	ToolCallID   string          `json:"toolCallId"`
	ActivityType string          `json:"activityType"`
	Error        string          `json:"error"`
}

type toolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type interrupt struct {
	ID      string `json:"id"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// printTranscript prints the conversation of a view as text.
func (a *app) printTranscript(w io.Writer, viewJSON []byte) error {
	var v view
	if err := json.Unmarshal(viewJSON, &v); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for i, m := range v.Messages {
		if i > 0 {
			out.WriteByte('\n')
		}
		a.printMessage(out, m)
	}
	for _, open := range v.PendingInterrupts {
		fmt.Fprintf(out, "\n%s %s\n", a.paint(yellow, "waits for an answer:"), printable(question(open)))
	}
	return out.Flush()
}

func (a *app) printMessage(out *bufio.Writer, m message) {
	heading := m.Role
	switch {
	case m.Role == "tool":
		heading = "tool result " + m.ToolCallID
	case m.ActivityType != "":
		heading += " " + m.ActivityType
	case m.Name != "":
		heading += " " + m.Name
	}
	fmt.Fprintln(out, a.paint(bold, printable(heading)))
	if text := contentText(m.Content); text != "" {
		fmt.Fprintln(out, indented(printable(text)))
	}
	if m.Error != "" {
		fmt.Fprintln(out, indented(a.paint(red, "error: "+printable(m.Error))))
	}
	for _, c := range m.ToolCalls {
		fmt.Fprintln(out, indented(printable("→ "+c.Function.Name+" "+c.Function.Arguments)))
	}
}

func question(i interrupt) string {
	text := i.Message
	if text == "" {
		text = i.Reason
	}
	if text == "" {
		return i.ID
	}
	return text + " (" + i.ID + ")"
}

// contentText is a message's content as text: a string as it is, of a list of
// parts the texts and the names of the others, anything else as JSON.
func contentText(content json.RawMessage) string {
	var text string
	if len(content) == 0 || string(content) == "null" {
		return ""
	}
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return string(content)
	}
	var lines []string
	for _, p := range parts {
		if p.Type == "text" {
			lines = append(lines, p.Text)
		} else {
			lines = append(lines, "["+p.Type+"]")
		}
	}
	return strings.Join(lines, "\n")
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}
