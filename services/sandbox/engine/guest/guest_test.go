package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/rewrite"
)

// open compiles QuickJS for t, for booting or for clones.
func open(t *testing.T, clones bool) *Runtime {
	t.Helper()
	wasm, err := os.ReadFile("../npm/node_modules/quickjs-wasi/quickjs.wasm")
	if err != nil {
		t.Fatalf("%v: run `make engine`", err)
	}
	module, _, err := rewrite.Module(wasm, rewrite.Options{MinPages: 18, MaxPages: MaxPages, Fuel: 10_000, Bulk: 64 << 10, Hook: "host_interrupt", DropData: clones})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	rt, err := NewRuntime(t.Context(), module, filepath.Join(dir, "toolcrib-test-engine"), pagemap, Compiled)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pagemap.Close() })
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return rt
}

const prelude = `const send = __send; delete globalThis.__send; let n = 0;
globalThis.__echo = (...args) => { n++; send("echo", n, JSON.stringify(args)); return n };`

// image boots the prelude and gives its image.
func image(t *testing.T) *Image {
	t.Helper()
	s, memory, err := open(t, false).Boot(prelude, "__echo")
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewFile("test", s, memory)
	if err != nil {
		t.Fatal(err)
	}
	img, err := NewImage(*s, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(img.Close(), f.Close()); err != nil {
			t.Error(err)
		}
	})
	return img
}

// testHost keeps what it is sent and stops the guest after so many visits.
type testHost struct {
	sent   []string
	visits int
	most   int
}

func (h *testHost) Visit() bool { h.visits++; return h.most > 0 && h.visits > h.most }
func (h *testHost) Now() int64  { return 12_345 }
func (h *testHost) Send(op string, id float64, payload string) bool {
	h.sent = append(h.sent, op+" "+payload)
	return id > 2
}

func allow(int64) bool { return true }

func clone(t *testing.T, rt *Runtime, img *Image, reserve func(int64) bool) (*Guest, *testHost) {
	t.Helper()
	g, err := rt.Clone(img, reserve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &testHost{}
	g.SetHost(h)
	return g, h
}

func TestBoot(t *testing.T) {
	rt := open(t, false)
	s, memory, err := rt.Boot(prelude, "__echo")
	if err != nil {
		t.Fatal(err)
	}
	s2, again, err := rt.Boot(prelude, "__echo")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, s2); diff != "" || !bytes.Equal(memory, again) {
		t.Errorf("booted twice, the snapshots differ: %s", diff)
	}
	for _, tt := range []struct{ prelude, want string }{
		{"globalThis.__echo = () => 1;\n\n  nothing.at.all", "prelude.js:3:3"},
		{"function (", "SyntaxError"},
		{"1", "take __echo"},
		{"globalThis.__echo = 1", "take __echo"},
		{"Object.defineProperty(globalThis, '__echo', { value: () => 1 })", "take __echo"},
		{"globalThis.__echo = () => 1; __send('early', 0, '')", "early"},
		{"globalThis.__echo = () => 1; Promise.resolve().then(() => __send('late', 0, ''))", "late"},
		{"const a = []; for (;;) a.push(new Array(1e6).fill(1))", "memory"},
	} {
		if _, _, err := rt.Boot(tt.prelude, "__echo"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Boot(%q): %v, want an error with %q", tt.prelude, err, tt.want)
		}
	}
}

func TestClone(t *testing.T) {
	img, rt := image(t), open(t, true)
	g, h := clone(t, rt, img, allow)
	v, threw := g.Call(g.Function("__echo"), g.String("a\x00ü\U0001F600"), g.Number(1.5), g.Bool(true), g.Bool(false))
	if threw || g.Err() != nil || g.Text(v) != "1" {
		t.Fatalf("Call = %q, %v, %v", g.Text(v), threw, g.Err())
	}
	if diff := cmp.Diff([]string{"echo [\"a\\u0000ü\U0001F600\",1.5,true,false]"}, h.sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	v, threw = g.Eval("typeof __echo + typeof __send + Date.now() + new Date(0).getTimezoneOffset()", "x.js")
	if want := "undefinedundefined123450"; threw || g.Text(v) != want {
		t.Errorf("Eval = %q, %v, want %q", g.Text(v), threw, want)
	}
	if _, threw = g.Eval("throw new TypeError('no')", "x.js"); !threw || g.Text(g.Exception()) != "TypeError: no" {
		t.Error("what was thrown is not told")
	}
	g.Eval("Promise.resolve().then(() => { globalThis.ran = true; throw new Error('lost') })", "x.js")
	if g.Jobs(func() bool { return false }) {
		t.Error("a job threw")
	}
	if v, _ := g.Eval("ran", "x.js"); g.Text(v) != "true" {
		t.Error("the job did not run")
	}
	if lost := g.Unhandled(); len(lost) != 1 || g.Text(lost[0]) != "Error: lost" {
		t.Errorf("%d rejections are unhandled, want the lost one", len(lost))
	}
	if g.Err() != nil {
		t.Error(g.Err())
	}
}

func TestReset(t *testing.T) {
	for _, pagemap := range []bool{true, false} {
		t.Run(fmt.Sprintf("pagemap=%v", pagemap), func(t *testing.T) { testReset(t, pagemap) })
	}
}

func testReset(t *testing.T, pagemap bool) {
	img, rt := image(t), open(t, true)
	if !pagemap {
		rt.pagemap = nil
	}
	g, _ := clone(t, rt, img, allow)
	spoil := func() {
		g.SetHost(&testHost{})
		if _, threw := g.Eval("globalThis.left = new Array(50000).fill(7); Array.prototype.x = 1", "x.js"); threw || g.Err() != nil {
			t.Fatal(threw, g.Err())
		}
	}
	check := func(when string) {
		t.Helper()
		if !g.Reset() {
			t.Fatalf("%s: Reset could not", when)
		}
		if !bytes.Equal(g.Memory(), img.memory) {
			t.Errorf("%s: the memory differs from the snapshot's", when)
		}
	}
	spoil()
	check("nothing learned")
	g.SetHost(&testHost{})
	g.Eval("1 + 1", "x.js")
	g.Learn()
	if !slices.Contains(img.hot, true) {
		t.Error("nothing was learned")
	}
	check("learned")
	for range 3 {
		spoil()
		check("used again")
	}
}

func TestResetRefuses(t *testing.T) {
	img, rt := image(t), open(t, true)
	for name, code := range map[string]string{
		"grown":   "globalThis.a = new Uint8Array(6e6)",
		"deep":    "const f = (n) => n && 1 + f(n - 1); f(800)",
		"stopped": "for (;;) {}",
	} {
		g, h := clone(t, rt, img, allow)
		h.most = 1000
		g.Eval(code, "x.js")
		if g.Reset() {
			t.Errorf("%s: it was reset", name)
		}
	}
}

func TestStop(t *testing.T) {
	img, rt := image(t), open(t, true)
	for _, code := range []string{"for (;;) {}", "new Array(2 ** 32 - 1).join('')", "try { for (;;) {} } finally { globalThis.ran = 1 }", "/(a+)+$/.test('a'.repeat(40) + 'b')"} {
		g, h := clone(t, rt, img, allow)
		h.most = 20
		_, threw := g.Eval(code, "x.js")
		if threw || !errors.Is(g.Err(), ErrStopped) {
			t.Errorf("%s: threw %v, %v, want %v", code, threw, g.Err(), ErrStopped)
		}
		if h.visits != 21 {
			t.Errorf("%s: %d visits, want 21", code, h.visits)
		}
		if v, threw := g.Eval("1", "x.js"); v != 0 || threw || g.Text(v) != "" || g.Jobs(func() bool { return false }) {
			t.Errorf("%s: a stopped guest goes on", code)
		}
	}
	g, h := clone(t, rt, img, allow)
	for range 5 {
		g.Call(g.Function("__echo"))
	}
	if !errors.Is(g.Err(), ErrStopped) || len(h.sent) != 3 {
		t.Errorf("after %d sends: %v, want %v after the third", len(h.sent), g.Err(), ErrStopped)
	}
}

func TestReserve(t *testing.T) {
	img, rt := image(t), open(t, true)
	var taken int64
	reserve := func(n int64) bool {
		if n > 0 && taken+n > 8<<20 {
			return false
		}
		taken += n
		return true
	}
	g, err := rt.Clone(img, reserve)
	if err != nil {
		t.Fatal(err)
	}
	g.SetHost(&testHost{})
	if _, threw := g.Eval("globalThis.a = new Uint8Array(6e6)", "x.js"); threw || taken < 3e6 {
		t.Errorf("6 MB: threw %v, %d bytes are taken", threw, taken)
	}
	if _, threw := g.Eval("globalThis.b = new Uint8Array(6e6)", "x.js"); !threw {
		t.Error("6 MB more: it did not run out of memory")
	}
	if err := g.Close(); err != nil || taken != 0 {
		t.Errorf("closed (%v), it still has taken %d bytes", err, taken)
	}
}

func TestNewImageRefuses(t *testing.T) {
	s := &Snapshot{Pages: 20, Stack: 1 << 20}
	if _, err := NewFile("short", s, make([]byte, 100)); err == nil {
		t.Error("NewFile took a memory that is too short")
	}
	f, err := NewFile("good", s, make([]byte, 20*pageSize))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for name, wrong := range map[string]Snapshot{"more pages": {Pages: 21, Stack: 1 << 20}, "no stack": {Pages: 20}, "stack beyond": {Pages: 20, Stack: 21 * pageSize}} {
		if img, err := NewImage(wrong, f); err == nil {
			t.Errorf("%s: NewImage took it", name)
			_ = img.Close()
		}
	}
}
