package sandbox

import (
	"context"
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
	hidden, err := h.hide(o)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := encode(hidden)
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

	args, err := h.show(t.Context(), json.RawMessage(`{"file":"a.png","base64":"content:body_x:1","n":12345678901234567890,"other":"content:body_x:9"}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"base64":"`+data+`","file":"a.png","n":12345678901234567890,"other":"content:body_x:9"}`, string(args)); diff != "" {
		t.Errorf("arguments: %s", diff)
	}
	blocks := h.shown(t.Context(), json.RawMessage(`{"a":["content:body_x:2",{"data":"content:body_x:2"}],"b":"content:body_x:1x"}`))
	if diff := cmp.Diff([]json.RawMessage{resource}, blocks); diff != "" {
		t.Errorf("blocks of the value: %s", diff)
	}
	if other := newHandles("body_y"); other.shown(t.Context(), json.RawMessage(`"content:body_x:1"`)) != nil {
		t.Error("a handle of another body was honoured")
	}
}

func TestKeptContentIsReadWhenItIsNeeded(t *testing.T) {
	h := newHandles("body_x")
	var loaded []string
	h.load = func(_ context.Context, handle, path string, most int64) (json.RawMessage, error) {
		loaded = append(loaded, handle+path)
		if most < 100 {
			return nil, contracts.Errorf(contracts.CodeTooLarge, "too large")
		}
		if strings.HasSuffix(path, "data") || strings.HasSuffix(path, "blob") {
			return json.RawMessage(`"QUJD"`), nil
		}
		return json.RawMessage(`{"type":"image","data":"QUJD"}`), nil
	}
	text := func(s string) json.RawMessage { return contracts.TextResult(s, nil).Content[0] }
	part := func(path, typ string) contracts.CutPart {
		return contracts.CutPart{Path: path, Unit: contracts.CutBytes, Total: 3_000_000, Type: typ, MimeType: "image/png"}
	}
	file := part("/content/2/resource/blob", "resource")
	file.URI = "file:///a"
	o := &contracts.Outcome{Status: contracts.StatusOK, Result: &contracts.Result{
		Content:   []json.RawMessage{text("one"), text("[left out]"), text("[left out]"), text("[cut: …]")},
		Truncated: "cut", More: &contracts.More{Handle: "out_1", Parts: []contracts.CutPart{part("/content/1/data", "image"), file}},
	}}
	hidden, err := h.hide(o)
	if err != nil {
		t.Fatal(err)
	}
	want := []json.RawMessage{
		text("one"),
		json.RawMessage(`{"bytes":3000000,"data":"content:body_x:1","mimeType":"image/png","type":"image"}`),
		json.RawMessage(`{"resource":{"blob":"content:body_x:2","bytes":3000000,"mimeType":"image/png","uri":"file:///a"},"type":"resource"}`),
	}
	if d := cmp.Diff(want, hidden.Result.Content); d != "" || hidden.Result.More != nil || hidden.Result.Truncated != "" {
		t.Errorf("the body sees %+v: %s", hidden.Result, d)
	}
	if len(o.Result.Content) != 4 || o.Result.More == nil || len(loaded) > 0 {
		t.Error("the outcome itself was changed, or data were read in vain")
	}
	args, err := h.show(t.Context(), json.RawMessage(`{"a":"content:body_x:1","b":"content:body_x:2"}`))
	if err != nil || string(args) != `{"a":"QUJD","b":"QUJD"}` {
		t.Errorf("arguments %s, %v", args, err)
	}
	blocks := h.shown(t.Context(), json.RawMessage(`["content:body_x:1","content:body_x:2"]`))
	if len(blocks) != 2 || string(blocks[0]) != `{"type":"image","data":"QUJD"}` || !strings.Contains(string(blocks[1]), `platform:core:read_result with {\"handle\":\"out_1\",\"path\":\"/content/2/resource/blob\"}`) {
		t.Errorf("blocks of the value: %s", blocks)
	}
	if d := cmp.Diff([]string{"out_1/content/1/data", "out_1/content/2/resource/blob", "out_1/content/1"}, loaded); d != "" {
		t.Errorf("loaded: %s", d)
	}
	for range 20 {
		blocks := h.shown(t.Context(), json.RawMessage(`{"b":"content:body_x:2","a":"content:body_x:1"}`))
		if len(blocks) != 2 || string(blocks[0]) != `{"type":"image","data":"QUJD"}` {
			t.Fatalf("blocks of an object: %s, want them in the order of its names", blocks)
		}
	}
	// What was cut beside data stays said.
	o.Result.More.Parts = append(o.Result.More.Parts, contracts.CutPart{Path: "/content/0/text", Unit: contracts.CutCharacters, Total: 5})
	if hidden, _ = h.hide(o); hidden.Result.More == nil || hidden.Result.Truncated == "" || len(hidden.Result.Content) != 4 {
		t.Errorf("a cut text is not spoken of: %+v", hidden.Result)
	}
}
