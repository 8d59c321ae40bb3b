package agui

import "github.com/agstore/agstore/internal/jsonvalue"

// Role is the kind of a message.
type Role string

// The roles of AG-UI 1.0.
const (
	RoleDeveloper Role = "developer"
	RoleSystem    Role = "system"
	RoleAssistant Role = "assistant"
	RoleUser      Role = "user"
	RoleTool      Role = "tool"
	RoleActivity  Role = "activity"
	RoleReasoning Role = "reasoning"
)

// Message is one message of a transcript. Which fields a role has, SEMANTICS
// E-7 says.
type Message struct {
	ID             string
	Role           Role
	Content        Content
	Name           Opt[string]
	ToolCalls      []ToolCall // nil: no member toolCalls; empty: an empty list
	ToolCallID     Opt[string]
	Error          Opt[string]
	ActivityType   Opt[string]
	EncryptedValue Opt[string]
	SubagentRunID  Opt[string]
	Metadata       Value // an object, or absent
}

// ContentKind says what the content of a message is.
type ContentKind uint8

// The kinds of content.
const (
	NoContent     ContentKind = iota // no member content
	TextContent                      // Text
	PartsContent                     // Parts
	ObjectContent                    // Object: an activity's
)

// Content is what a message says.
type Content struct {
	Kind   ContentKind
	Text   string
	Parts  []Part
	Object Value
}

// TextOf is a content that is text.
func TextOf(s string) Content { return Content{Kind: TextContent, Text: s} }

// Part is one piece of a content with several.
type Part struct {
	Type     string      // text, image, audio, video or document
	Text     Opt[string] // of a text
	Source   *Source     // of the others
	ID       Opt[string]
	Metadata Value
}

// Source is where the bytes of a part are.
type Source struct {
	Type     string // data, url or file
	Value    string
	MimeType Opt[string]
	Provider Opt[string]
}

// ToolCall is a call in an assistant message. Arguments are text that need not
// be JSON.
type ToolCall struct {
	ID             string
	Name           string
	Arguments      string
	EncryptedValue Opt[string]
	Metadata       Value
}

// JSON is the message as a JSON value.
func (m *Message) JSON() Value {
	out := make(members, 0, 8)
	out.text("id", m.ID)
	out.text("role", string(m.Role))
	out.opt("activityType", m.ActivityType)
	out.add("content", m.Content.JSON())
	out.opt("name", m.Name)
	if m.ToolCalls != nil {
		out.add("toolCalls", listOf(m.ToolCalls, (*ToolCall).JSON))
	}
	out.opt("toolCallId", m.ToolCallID)
	out.opt("error", m.Error)
	out.opt("encryptedValue", m.EncryptedValue)
	out.opt("subagentRunId", m.SubagentRunID)
	out.add("metadata", m.Metadata)
	return out.object()
}

// AppendJSON appends the message as JSON text.
func (m *Message) AppendJSON(dst []byte) []byte { return m.JSON().AppendJSON(dst) }

// JSON is the content as a JSON value, absent if there is none.
func (c Content) JSON() Value {
	switch c.Kind {
	case TextContent:
		return jsonvalue.NewString(c.Text)
	case PartsContent:
		return listOf(c.Parts, (*Part).JSON)
	case ObjectContent:
		return c.Object
	}
	return Value{}
}

// JSON is the part as a JSON value.
func (p *Part) JSON() Value {
	out := make(members, 0, 4)
	out.text("type", p.Type)
	out.opt("text", p.Text)
	if p.Source != nil {
		out.add("source", p.Source.JSON())
	}
	out.opt("id", p.ID)
	out.add("metadata", p.Metadata)
	return out.object()
}

// JSON is the source as a JSON value.
func (s *Source) JSON() Value {
	out := make(members, 0, 4)
	out.text("type", s.Type)
	out.text("value", s.Value)
	out.opt("mimeType", s.MimeType)
	out.opt("provider", s.Provider)
	return out.object()
}

// JSON is the call as a JSON value.
func (c *ToolCall) JSON() Value {
	function := make(members, 0, 2)
	function.text("name", c.Name)
	function.text("arguments", c.Arguments)
	out := make(members, 0, 5)
	out.text("id", c.ID)
	out.text("type", "function")
	out.add("function", function.object())
	out.opt("encryptedValue", c.EncryptedValue)
	out.add("metadata", c.Metadata)
	return out.object()
}
