package outputs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/cut"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A peak follows how much memory is in use.
type peak struct {
	base, most uint64
	percent    int // of garbage, as it was before
	stop       chan struct{}
	done       sync.WaitGroup
}

// inUse returns the bytes of the heap that are in use. It stops nobody, as runtime.ReadMemStats does.
func inUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func watchMemory() *peak {
	p := &peak{percent: debug.SetGCPercent(10), stop: make(chan struct{})} // so that the heap is what is held
	runtime.GC()
	p.base = inUse()
	p.done.Go(func() {
		for again := time.NewTicker(5 * time.Millisecond); ; {
			p.most = max(p.most, inUse())
			select {
			case <-again.C:
			case <-p.stop:
				again.Stop()
				return
			}
		}
	})
	return p
}

// end returns the bytes beyond those at the beginning.
func (p *peak) end() int64 {
	close(p.stop)
	p.done.Wait()
	debug.SetGCPercent(p.percent)
	return int64(p.most) - int64(p.base)
}

// TestTheLargestResults has 50 MB of text, 20 MB of data and what else is hard come back byte by byte, and measures what that takes.
func TestTheLargestResults(t *testing.T) {
	s, other := twoShelves(t)
	r := rand.New(rand.NewPCG(1, 2))
	var words strings.Builder
	for words.Len() < 50<<20 {
		words.WriteString([]string{"a word ", "\"quoted\" ", "été ", "🙂", "\n"}[r.IntN(5)])
	}
	data := make([]byte, 20<<20)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	encoded := base64.StdEncoding.EncodeToString(data)
	deep := strings.Repeat("[", 9_990) + strings.Repeat("]", 9_990)
	for name, tt := range map[string]struct {
		in    *contracts.Result
		paths map[string]string // each with what stands there
	}{
		"50 MB of text": {
			&contracts.Result{Content: []json.RawMessage{textBlock(words.String())}},
			map[string]string{"/content/0/text": words.String()},
		},
		"20 MB of data": {
			&contracts.Result{Content: []json.RawMessage{cut.Encode(map[string]any{
				"type": "resource", "resource": map[string]any{"uri": "file:///a.bin", "mimeType": "application/zip", "blob": encoded},
			})}},
			map[string]string{"/content/0/resource/blob": encoded},
		},
		"mixed": {
			&contracts.Result{
				Content:           []json.RawMessage{textBlock(words.String()[:1<<20]), json.RawMessage(`{"type":"image","mimeType":"image/png","data":"` + encoded[:8<<20] + `"}`), textBlock("last")},
				StructuredContent: json.RawMessage(`{"deep":` + deep + `,"text":"` + encoded[:4<<20] + `"}`),
			},
			map[string]string{
				"/content/0/text": words.String()[:1<<20], "/content/1/data": encoded[:8<<20], "/content/2/text": "last", "/structuredContent/text": encoded[:4<<20],
			},
		},
	} {
		size := wholeSize(tt.in)
		mem := watchMemory()
		began := time.Now()
		out := s.Keep(t.Context(), here(), ForModel(nil), tt.in)
		took, most := time.Since(began), mem.end()
		if out.More == nil || out.More.Bytes != size {
			t.Fatalf("%s: more = %+v, %s", name, out.More, out.Truncated)
		}
		checkValid(t, out)
		if got := counted(out); got > modelSize {
			t.Errorf("%s: %d bytes are shown", name, got)
		}
		t.Logf("%s: %d MiB kept in %v, with %d MiB of memory beyond the result", name, size>>20, took.Round(time.Millisecond), most>>20)
		if most > size+size/2+64<<20 {
			t.Errorf("%s: keeping %d MiB takes %d MiB of memory", name, size>>20, most>>20)
		}
		mem, began = watchMemory(), time.Now()
		first, err := s.Read(t.Context(), here(), cut.Encode(map[string]any{"handle": out.More.Handle}), false)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: the first page took %v and %d MiB", name, time.Since(began).Round(time.Millisecond), mem.end()>>20)
		mem, began = watchMemory(), time.Now()
		again, err := other.Read(t.Context(), here(), cut.Encode(map[string]any{"handle": out.More.Handle}), false)
		if err != nil || !bytes.Equal(first.StructuredContent, again.StructuredContent) {
			t.Fatalf("%s: the first page elsewhere is another, %v", name, err)
		}
		t.Logf("%s: the first page elsewhere took %v and %d MiB", name, time.Since(began).Round(time.Millisecond), mem.end()>>20)
		for path, want := range tt.paths {
			began := time.Now()
			_, got, _ := readAll(t, other, here(), out.More.Handle, path, rand.New(rand.NewPCG(0, 0)), true)
			if got != want {
				t.Errorf("%s: what stands at %s does not come back", name, path)
			}
			t.Logf("%s: %d MiB at %s read in %v", name, len(got)>>20, path, time.Since(began).Round(time.Millisecond))
		}
		if name == "mixed" { // what is too deep to be parsed by many comes as text
			var text strings.Builder
			for next := int64(0); ; {
				p := readPage(t, s, here(), map[string]any{"handle": out.More.Handle, "path": "/structuredContent/deep", "offset": next, "as": "json"}, false)
				var piece string
				if err := json.Unmarshal(p.Text, &piece); err != nil {
					t.Fatal(err)
				}
				text.WriteString(piece)
				if p.Next == nil {
					break
				}
				next = *p.Next
			}
			if text.String() != deep {
				t.Error("what is deep does not come back")
			}
		}
	}
}

func TestWhatIsNotText(t *testing.T) {
	s, err := Open(t.Context(), natstest.Open(t))
	if err != nil {
		t.Fatal(err)
	}
	block := "{\"type\":\"text\",\"text\":\"" + strings.Repeat("a\\ud800b\xff\\ud83d\\ude42", 10_000) + "\"}"
	in := &contracts.Result{
		Content: []json.RawMessage{json.RawMessage(block)}, StructuredContent: json.RawMessage("{\"k\xfe\":\"\\udfff\"}"),
		More: &contracts.More{Handle: "out_aaaaaaaaaaaaaaaaaaaaaaaa"}, // of a source that makes believe
	}
	out := s.Keep(t.Context(), here(), ForModel(nil), in)
	checkValid(t, out)
	if string(out.StructuredContent) != `{"k`+"\uFFFD"+`":"\ufffd"}` || out.More.Handle == in.More.Handle {
		t.Errorf("kept is %s with %v", out.StructuredContent, out.More)
	}
	want := cut.Encode(strings.Repeat("a\uFFFDb\uFFFD🙂", 10_000))
	if got := everything(t, s, here(), out.More.Handle, "/content/0/text", rand.New(rand.NewPCG(0, 0)), false); !same(got, want) {
		t.Errorf("read is %.100s", got)
	}
	// Small results are made clean too, and lose a More that they came with.
	in.Content = []json.RawMessage{json.RawMessage("{\"type\":\"text\",\"text\":\"\xff\"}")}
	out = s.Keep(t.Context(), here(), ForModel(nil), in)
	if checkValid(t, out); out.More != nil || out.Truncated != "" {
		t.Errorf("a small result came as %+v", out)
	}
}

func TestWhatIsNotKeptIsSaid(t *testing.T) {
	s, err := Open(t.Context(), natstest.Open(t))
	if err != nil {
		t.Fatal(err)
	}
	big := &contracts.Result{Content: []json.RawMessage{textBlock(strings.Repeat("x", mostKept))}}
	for name, tt := range map[string]struct {
		at   Place
		in   *contracts.Result
		says string
	}{
		"too large":  {here(), big, "more than 64 MiB: ask the tool for less"},
		"unreadable": {Place{tenant, run, true}, &contracts.Result{StructuredContent: list(50_000, "12")}, "the rest is not kept"},
	} {
		out := s.Keep(t.Context(), tt.at, ForModel(nil), tt.in)
		last := string(out.Content[len(out.Content)-1])
		if out.More != nil || !strings.Contains(out.Truncated, tt.says) || !strings.Contains(last, tt.says) || strings.Contains(last, string(ReadID)) {
			t.Errorf("%s: %q, %s, %v", name, out.Truncated, last, out.More)
		}
		if counted(out) > modelSize {
			t.Errorf("%s: %d bytes", name, counted(out))
		}
	}
}
