package fold_test

import (
	"sync"
	"testing"
)

// A view may be read by anyone while its fold goes on. The race detector sees
// whether that is so.
func TestViewsAreReadWhileTheFoldGoesOn(t *testing.T) {
	f, apply := long(20)
	apply(`{"type":"TEXT_MESSAGE_START","messageId":"a","metadata":{"k":1}}`)
	apply(`{"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"A","content":{"n":[]}}`)
	var readers sync.WaitGroup
	for range 50 {
		v := f.View()
		want := string(v.AppendJSON(nil))
		readers.Go(func() {
			if got := string(v.AppendJSON(nil)); got != want {
				t.Errorf("the view has changed from\n%s\nto\n%s", want, got)
			}
		})
		apply(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"x","metadata":{"k":2,"l":{}}}`)
		apply(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/list","value":[1]},{"op":"add","path":"/list/-","value":2}]}`)
		apply(`{"type":"ACTIVITY_DELTA","messageId":"p","activityType":"A","patch":[{"op":"add","path":"/n/-","value":1}]}`)
		apply(`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"a"}`)
		apply(`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"y"}`)
		apply(`{"type":"CUSTOM","name":"n","value":1}`)
		apply(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u1","role":"user","content":[{"type":"text","text":"hm"}]}]}`)
		apply(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"u1","delta":"!"}`)
	}
	readers.Wait()
}
