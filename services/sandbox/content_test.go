package sandbox

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestContentPassesAsHandles(t *testing.T) {
	h := newHandles("body_x")
	data := strings.Repeat("QUJD", 300)
	image := json.RawMessage(`{"type":"image","mimeType":"image/png","data":"` + data + `"}`)
	resource := json.RawMessage(`{"type":"resource","resource":{"uri":"file:///a","blob":"` + data + `"}}`)
	small := json.RawMessage(`{"type":"image","mimeType":"image/png","data":"QUJD"}`)
	text := json.RawMessage(`{"type":"text","text":"` + strings.Repeat("long ", 300) + `"}`)
	o := &contracts.Outcome{Status: contracts.StatusOK, Result: &contracts.Result{Content: []json.RawMessage{image, resource, small, text}}}
	seen, err := h.hide(o)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(seen), data) {
		t.Error("the body was given the data itself")
	}
	var got struct{ Result contracts.Result }
	if err := json.Unmarshal(seen, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"bytes":900,"data":"content:body_x:1","mimeType":"image/png","type":"image"}`,
		`{"resource":{"blob":"content:body_x:2","bytes":900,"uri":"file:///a"},"type":"resource"}`,
		string(small), string(text),
	}
	for i, w := range want {
		if diff := cmp.Diff(w, string(got.Result.Content[i])); diff != "" {
			t.Errorf("block %d: %s", i, diff)
		}
	}
	if string(o.Result.Content[0]) != string(image) {
		t.Error("the outcome itself was changed")
	}

	args, err := h.show(json.RawMessage(`{"file":"a.png","base64":"content:body_x:1","n":12345678901234567890,"other":"content:body_x:9"}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"base64":"`+data+`","file":"a.png","n":12345678901234567890,"other":"content:body_x:9"}`, string(args)); diff != "" {
		t.Errorf("arguments: %s", diff)
	}
	blocks := h.shown(json.RawMessage(`{"a":["content:body_x:2",{"data":"content:body_x:2"}],"b":"content:body_x:1x"}`))
	if diff := cmp.Diff([]json.RawMessage{resource}, blocks); diff != "" {
		t.Errorf("blocks of the value: %s", diff)
	}
	if other := newHandles("body_y"); other.shown(json.RawMessage(`"content:body_x:1"`)) != nil {
		t.Error("a handle of another body was honoured")
	}
}
