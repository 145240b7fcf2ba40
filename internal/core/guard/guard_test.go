package guard

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func parsed(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// serve serves h on 127.0.0.1 and counts the connections made to it.
func serve(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	ts := httptest.NewUnstartedServer(h)
	ts.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			n.Add(1)
		}
	}
	ts.Start()
	t.Cleanup(ts.Close)
	return ts, &n
}

func hello(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }

// get returns the body of url as c gets it.
func get(t *testing.T, c *Client, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// refused fails the test unless err is a Refusal that says want.
func refused(t *testing.T, what string, err error, want string) {
	t.Helper()
	r, ok := errors.AsType[*Refusal](err)
	if !ok || !strings.Contains(r.Error(), want) {
		t.Errorf("%s: %v, want a refusal that says %q", what, err, want)
	}
}

func TestOnlyAllowedAddresses(t *testing.T) {
	ts, connections := serve(t, hello)
	port := parsed(t, ts.URL).Port()
	for name, cfg := range map[string]Config{
		"zero":               {},
		"another network":    {Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		"another name":       {Named: []*url.URL{parsed(t, "http://192.168.1.1:"+port)}},
		"another port named": {Named: []*url.URL{parsed(t, "http://127.0.0.1:1")}},
	} {
		for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
			_, err := get(t, New(cfg), "http://"+host+":"+port)
			refused(t, name+" "+host, err, "not allowed")
		}
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections reached the server, want none", n)
	}
	for name, cfg := range map[string]Config{
		"private": {Private: true},
		"network": {Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		"named":   {Named: []*url.URL{parsed(t, ts.URL)}},
	} {
		if got, err := get(t, New(cfg), ts.URL); err != nil || got != "hello" {
			t.Errorf("%s: %q, %v, want hello", name, got, err)
		}
	}
}

func TestANamedAddressIsAllowedWhateverItIs(t *testing.T) {
	metadata := parsed(t, "http://169.254.169.254/latest")
	c := New(Config{Named: []*url.URL{metadata}})
	if err := check(netip.MustParseAddr("169.254.169.254"), true, []netip.Prefix{c.named[hostPort(metadata)]}); err != nil {
		t.Errorf("an address that is named: %v, want nil", err)
	}
}

// names is a name server that answers each question with the next of some addresses, the last one for ever.
func names(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			question := buf[12:n]
			end := bytes.IndexByte(question, 0) + 5 // type and class follow the name
			answer := binary.BigEndian.AppendUint16(nil, binary.BigEndian.Uint16(buf))
			isA := binary.BigEndian.Uint16(question[end-4:]) == 1
			count := byte(0)
			if isA {
				count = 1
			}
			answer = append(answer, 0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0)
			answer = append(answer, question[:end]...)
			if isA {
				a := netip.MustParseAddr(addresses[0]).As4()
				if len(addresses) > 1 {
					addresses = addresses[1:]
				}
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				answer = append(answer, a[:]...)
			}
			conn.WriteTo(answer, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestANameThatChangesItsAddress(t *testing.T) {
	ts, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "hello")
	})
	port := parsed(t, ts.URL).Port()
	c := New(Config{Resolver: names(t, "127.0.0.1", "127.0.0.2"), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if got, err := get(t, c, "http://changing.example:"+port); err != nil || got != "hello" {
		t.Fatalf("while the address is allowed: %q, %v", got, err)
	}
	_, err := get(t, c, "http://changing.example:"+port)
	refused(t, "once the address is another", err, "127.0.0.2 is a loopback address")
}

func TestRedirects(t *testing.T) {
	type seen struct{ method, path, key, auth, referer, body string }
	var last atomic.Pointer[seen]
	record := func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		last.Store(&seen{r.Method, r.URL.Path, r.Header.Get("X-Key"), r.Header.Get("Authorization"), r.Header.Get("Referer"), string(b)})
	}
	var home *httptest.Server
	other, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			http.Redirect(w, r, home.URL+"/end", http.StatusFound)
			return
		}
		record(w, r)
	})
	home, _ = serve(t, func(w http.ResponseWriter, r *http.Request) {
		to := func(status int, url string) { http.Redirect(w, r, url, status) }
		switch r.URL.Path {
		case "/302":
			to(302, "/end")
		case "/303":
			to(303, "/end")
		case "/307":
			to(307, "/end")
		case "/away":
			to(302, other.URL+"/end")
		case "/away307":
			to(307, other.URL+"/end")
		case "/boomerang":
			to(302, other.URL+"/back")
		case "/loop":
			to(302, "/loop")
		case "/file":
			to(302, "file:///etc/passwd")
		case "/private":
			to(302, "http://127.0.0.3:"+parsed(t, home.URL).Port()+"/end")
		default:
			record(w, r)
		}
	})
	c := New(Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	all := seen{key: "k", auth: "a"}
	tests := []struct {
		method, path string
		want         seen   // at the end, where it is reached
		refused      string // else
	}{
		{"GET", "/302", seen{method: "GET", key: "k", auth: "a"}, ""},
		{"POST", "/303", seen{method: "GET", key: "k", auth: "a"}, ""},
		{"POST", "/307", seen{method: "POST", key: "k", auth: "a", body: "b"}, ""},
		{"POST", "/302", all, "the POST would become a GET"},
		{"GET", "/away", seen{method: "GET"}, ""},
		{"GET", "/boomerang", seen{method: "GET"}, ""},
		{"POST", "/away307", all, "for GET and HEAD only"},
		{"GET", "/loop", all, "there were 5 before it"},
		{"GET", "/file", all, "no http or https URL"},
		{"GET", "/private", all, "127.0.0.3 is a loopback address"},
	}
	for _, tt := range tests {
		last.Store(nil)
		var body io.Reader
		if tt.method == "POST" {
			body = strings.NewReader("b")
		}
		r, err := http.NewRequestWithContext(t.Context(), tt.method, home.URL+tt.path+"?key=secret", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Key", "k")
		r.Header.Set("Authorization", "a")
		resp, err := c.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		what := tt.method + " " + tt.path
		if tt.refused != "" {
			refused(t, what, err, tt.refused)
			if last.Load() != nil {
				t.Errorf("%s reached %+v", what, *last.Load())
			}
			if r, _ := errors.AsType[*Refusal](err); r != nil && tt.path != "/private" && r.Status < 300 {
				t.Errorf("%s: status %d, want that of the redirect", what, r.Status)
			}
			continue
		}
		tt.want.path = "/end"
		if got := last.Load(); err != nil || got == nil || *got != tt.want {
			t.Errorf("%s: reached %+v, %v, want %+v", what, got, err, tt.want)
		}
	}
}

func TestNoDowngrade(t *testing.T) {
	plain, connections := serve(t, hello)
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(secure.Close)
	c := New(Config{Private: true})
	c.base.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	_, err := get(t, c, secure.URL)
	refused(t, "https to http", err, "it leaves https")
	if connections.Load() > 0 {
		t.Error("the redirect was followed")
	}
}

func TestSameOrigin(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"https://a.example/x", "https://A.example:443/y", true},
		{"http://a.example", "http://a.example:80", true},
		{"http://a.example", "https://a.example", true},
		{"https://a.example", "http://a.example", false},
		{"http://a.example:8080", "https://a.example:8443", false},
		{"http://a.example:8080", "https://a.example", false},
		{"https://a.example", "https://b.example", false},
		{"https://a.example", "https://x.a.example", false},
		{"https://a.example", "https://a.example:444", false},
	}
	for _, tt := range tests {
		if got := SameOrigin(parsed(t, tt.a), parsed(t, tt.b)); got != tt.want {
			t.Errorf("SameOrigin(%s, %s) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestBounds(t *testing.T) {
	const most = 1000
	ts, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fits":
			io.WriteString(w, strings.Repeat("x", most))
		case "/long":
			io.WriteString(w, strings.Repeat("x", most+1))
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(make([]byte, 10<<20))
			z.Close()
		case "/slow":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/header":
			w.Header().Set("X-Long", strings.Repeat("x", mostHeader+1))
		}
	})
	c := New(Config{Private: true, MaxBody: most, Timeout: 20 * time.Second})
	if got, err := get(t, c, ts.URL+"/fits"); err != nil || len(got) != most {
		t.Errorf("a body that just fits: %d bytes, %v", len(got), err)
	}
	for _, path := range []string{"/long", "/bomb"} {
		if got, err := get(t, c, ts.URL+path); !errors.Is(err, ErrTooLarge) || len(got) != most {
			t.Errorf("%s: %d bytes, %v, want %d and ErrTooLarge", path, len(got), err, most)
		}
	}
	if _, err := get(t, c, ts.URL+"/header"); err == nil {
		t.Error("a header of any length is taken")
	}
	hasty := New(Config{Private: true, Timeout: 50 * time.Millisecond})
	if _, err := get(t, hasty, ts.URL+"/slow"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a body without end: %v, want a deadline", err)
	}
}

// A request whose answer is lost is not sent again, however harmless its method looks.
func TestNothingIsSentTwice(t *testing.T) {
	var lost atomic.Int32
	ts, connections := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/warm" {
			hello(w, r)
			return
		}
		lost.Add(1)
		if b, _ := io.ReadAll(r.Body); r.Method == http.MethodGet && (len(b) > 0 || r.ContentLength != 0 || len(r.TransferEncoding) > 0) {
			t.Errorf("a GET has a body: %d, %v", r.ContentLength, r.TransferEncoding)
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	for method, key := range map[string]string{"GET": "", "HEAD": "", "OPTIONS": "", "PUT": "", "POST": "a key"} {
		c := New(Config{Private: true})
		connections.Store(0)
		if _, err := get(t, c, ts.URL+"/warm"); err != nil { // a connection that was used before is the one whose requests are repeated
			t.Fatal(err)
		}
		var body io.Reader
		if method == "POST" {
			body = strings.NewReader("b")
		}
		r, err := http.NewRequestWithContext(t.Context(), method, ts.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		lost.Store(0)
		resp, err := c.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		if err == nil || lost.Load() != 1 || connections.Load() != 1 {
			t.Errorf("%s: %v after %d requests on %d connections, want an error after one", method, err, lost.Load(), connections.Load())
		}
	}
}

func TestProxies(t *testing.T) {
	proxy, asked := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "by proxy to "+r.URL.Host) })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	if _, err := get(t, New(Config{Resolver: names(t, "127.0.0.1")}), "http://target.example"); err == nil || asked.Load() > 0 {
		t.Errorf("the proxy of the environment was asked: %v", err)
	}
	c := New(Config{Proxy: parsed(t, proxy.URL)})
	if got, err := get(t, c, "http://target.example/x"); err != nil || got != "by proxy to target.example" {
		t.Errorf("by the proxy: %q, %v", got, err)
	}
	_, err := get(t, c, "http://10.0.0.1/x")
	refused(t, "a private address behind the proxy", err, "10.0.0.1 is a private address")
}

func TestOnlyHTTP(t *testing.T) {
	for _, u := range []string{"ftp://example.com/secret?key=1", "file:///etc/passwd", "http:///x", "example.com"} {
		_, err := get(t, New(Config{}), u)
		if err == nil {
			t.Errorf("%s is fetched", u)
		}
	}
}
