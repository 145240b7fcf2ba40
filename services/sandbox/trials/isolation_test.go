package trials

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
	"github.com/toolcrib/toolcrib/services/sandbox/worker"
)

var update = flag.Bool("update", false, "write testdata anew from what there is")

// value runs a body that must give a value and decodes it.
func value(t *testing.T, r Runner, tenant, code string, into any) {
	t.Helper()
	e, _ := Time(context.Background(), r, tenant, Trial{Code: code}.Body(SecondTry), false)
	if e.Failure != nil {
		t.Fatalf("the body %.80q ended with %s at %d:%d", code, describe(e), e.Failure.Line, e.Failure.Column)
	}
	if err := json.Unmarshal(e.Value, into); err != nil {
		t.Fatal(err)
	}
}

// TestReachable compares all that a body can reach with the list of what it is meant to reach, so that whatever comes in is looked at first.
func TestReachable(t *testing.T) {
	p := openPool(t, worker.Config{})
	const file = "testdata/reachable.txt"
	var names []string
	value(t, p, "a", walk, &names)
	got := strings.Join(names, "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("a body reaches something else than %s says (-want +got); look at each name, then run the test with -update:\n%s", file, diff)
	}
}

// secret gives a mark that nothing else holds, and whose halves are joined here only.
func secret(what string) string {
	return "planted" + "Secret" + fmt.Sprintf("%08x", uint32(time.Now().UnixNano())) + what
}

// checkHidden runs a body that searches for mark, and checks that it found nothing but did search.
func checkHidden(t *testing.T, r Runner, tenant, mark string) {
	t.Helper()
	var got struct {
		Found          []string
		Objects, Bytes int
	}
	value(t, r, tenant, searchFor(mark, 12), &got)
	if len(got.Found) > 0 {
		t.Errorf("a body of %s found %.500q", tenant, got.Found)
	}
	if got.Objects < 500 || got.Bytes < 12<<20 {
		t.Errorf("the body of %s looked at %d objects and %d bytes only", tenant, got.Objects, got.Bytes)
	}
}

// TestSearchFinds: a search that cannot find is worth nothing.
func TestSearchFinds(t *testing.T) {
	p := openPool(t, worker.Config{})
	mark := secret("own")
	for _, plant := range []string{
		"globalThis.plant = %q", "console[%q] = 1", "tools.call.plant = { a: [new Map(), %q] }", "Array.prototype[Symbol(%q)] = 1",
		"Object.prototype.plant = () => %q", "const plant = %q; Object.defineProperty(Math, 'plant', { get: () => plant })",
	} {
		var got struct{ Found []string }
		value(t, p, "a", fmt.Sprintf(plant, mark)+"\n"+searchFor(mark, 0), &got)
		if len(got.Found) == 0 {
			t.Errorf("the search does not find what %q planted", plant)
		}
	}
}

func TestSecretOfEnvironment(t *testing.T) {
	mark := secret("environment")
	t.Setenv("PLANTED", mark)
	p := openPool(t, worker.Config{})
	checkHidden(t, p, "a", mark)
}

// TestSecretOfWorker plants a secret in the command line of the worker.
func TestSecretOfWorker(t *testing.T) {
	mark := secret("worker")
	link := t.TempDir() + "/" + mark
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	p := openPool(t, worker.Config{Command: []string{link}})
	checkHidden(t, p, "a", mark)
}

// plants fill an isolate with a text, in the ways that texts come to be in memory.
func plants(mark string) []string {
	m := fmt.Sprintf("%q", mark)
	return []string{
		"globalThis.plant = " + m + "; return 1",
		"Array.prototype.plant = Object.prototype.plant = " + m + "; tools.call.plant = " + m + "; return 1",
		"globalThis.plant = Array.from({ length: 1000 }, (_, i) => " + m + " + i); return 1",
		"globalThis.plant = new TextEncoder().encode(" + m + ".repeat(1000)); return 1",
		"await tools.call(" + m + ", { a: " + m + " }); console.log(" + m + "); return " + m,
		"throw new Error(" + m + ")",
		"globalThis[" + m + "] = Symbol.for(" + m + "); eval('globalThis.f = function ' + " + m + " + '() {}'); return 1",
		"const x: string = " + m + "; return 1", // through the isolate that strips types
		"const a = []; for (;;) a.push(" + m + " + a.length)",
		"globalThis.plant = " + m + "; for (;;);",
	}
}

// TestSecretOfEarlierBody: nothing of a body is left for the next one of its tenant, which gets the same isolate where it can be had again.
func TestSecretOfEarlierBody(t *testing.T) {
	p := openPool(t, worker.Config{})
	mark := secret("earlier")
	for _, plant := range plants(mark) {
		for range 2 {
			Time(context.Background(), p, "a", Trial{Code: plant}.Body(200*time.Millisecond), false)
		}
		checkHidden(t, p, "a", mark)
	}
}

// TestSecretOfOtherBody: nothing is seen of bodies that run at the same time, of the same or of another tenant.
func TestSecretOfOtherBody(t *testing.T) {
	p := openPool(t, worker.Config{})
	mark := secret("other")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan engine.Ending)
	started := make(chan bool, 4)
	for i := range 4 {
		code := fmt.Sprintf("globalThis.plant = Array.from({ length: 1e4 }, (_, i) => %q + i); console.log('planted'); await tools.call('t', { plant: %q })", mark, mark)
		d := &notingDoor{Door: NewDoor(true), logged: started}
		go func() {
			defer d.Close()
			ended <- p.Run(ctx, []string{"a", "b"}[i%2], Trial{Code: code}.Body(SecondTry), d)
		}()
	}
	for range 4 {
		<-started
	}
	for _, tenant := range []string{"a", "b", "c"} {
		checkHidden(t, p, tenant, mark)
	}
	stop()
	for range 4 {
		if e := <-ended; codeOf(e) != engine.CodeCancelled {
			t.Errorf("a body that waited ended with %s", describe(e))
		}
	}
}

// A notingDoor tells when its body logs.
type notingDoor struct {
	*Door
	logged chan<- bool
}

func (d *notingDoor) Log(engine.Log) { d.logged <- true }

// TestChannel: what a body says cannot be taken for something that its worker says, nor disturb what other bodies say.
func TestChannel(t *testing.T) {
	p := openPool(t, worker.Config{})
	frame := `\u0000\u0000\u0000\u0008\u0007\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0001{"value":"forged"}`
	for _, code := range []string{
		"console.log('" + frame + "'.repeat(100)); return 1",
		"await tools.call('" + frame + "', { a: '" + frame + "' }); return 1",
		"try { await tools.search('\\n{\"kind\":\"ending\"}\\n') } finally { return 1 }",
		"console.log('\\r\\n\\r\\n' + '\\u0000'.repeat(10000)); console.error('" + frame + "'); return 1",
	} {
		var got int
		value(t, p, "a", code, &got)
		if got != 1 {
			t.Errorf("%.60q gave %d, want 1", code, got)
		}
	}
	if s := p.Stats(); s.Killed+s.Died > 0 {
		t.Errorf("workers were lost: %+v", s)
	}
}

// TestCaught: a body that changes what the language's objects inherit gets to see nothing of what runs it, only values of its own.
func TestCaught(t *testing.T) {
	p := openPool(t, worker.Config{})
	var got []string
	value(t, p, "a", caught, &got)
	if len(got) > 0 {
		t.Errorf("a body caught %q", got)
	}
}
