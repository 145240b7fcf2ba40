package depot

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// do sends a request to h and returns the answer.
func do(t *testing.T, h http.Handler, method, path, media, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, base+path, strings.NewReader(body))
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestEveryOperationIsInTheDocument(t *testing.T) {
	d := &depot{}
	text := string(Document())
	for pattern := range d.operations() {
		method, path, _ := strings.Cut(pattern, " ")
		_, rest, found := strings.Cut(text, "\n  "+path+":\n")
		rest, _, _ = strings.Cut(rest, "\n  /")
		if !found || !strings.Contains("\n"+rest, "\n    "+strings.ToLower(method)+":") {
			t.Errorf("%s is not in the document", pattern)
		}
	}
	methods := 0
	for _, m := range []string{"get", "post", "put", "patch", "delete"} {
		methods += strings.Count(text, "\n    "+m+":\n")
	}
	if methods != len(d.operations()) {
		t.Errorf("the document has %d operations, the service %d", methods, len(d.operations()))
	}
}

func TestStory(t *testing.T) {
	h := New("")
	json := "application/json"
	steps := []struct {
		method, path, media, body string
		status                    int
		want                      string // in the answer
	}{
		{"GET", "/items?q=hammer&limit=2", "", "", 200, `"next":"c2"`},
		{"GET", "/items?q=hammer&limit=2&cursor=c2", "", "", 200, `"next":null`},
		{"GET", "/items?limit=0", "", "", 400, `"status":400`},
		{"GET", "/items?tag=wood&tag=popular", "", "", 200, `"sku":"PLA-004"`},
		{"POST", "/items", json, `{"sku":"VIS-100","name":"Vise","category":"hand/vises","price":4900,"supplierSecret":"x"}`, 201, `"pieces":0`},
		{"POST", "/items", json, `{"sku":"VIS-100","name":"Vise","category":"hand/vises","price":4900}`, 409, "already"},
		{"POST", "/items", json, `{"sku":"vise"}`, 422, "three capitals"},
		{"PATCH", "/items/VIS-100", "application/merge-patch+json", `{"price":5000,"reorderAt":null}`, 200, `"price":5000`},
		{"PUT", "/items/VIS-100/notes", "text/plain", "heavy", 204, ""},
		{"GET", "/items/VIS-100/notes", "", "", 200, "heavy"},
		{"DELETE", "/items/VIS-100", "", "", 204, ""},
		{"DELETE", "/items/HAM-300", "", "", 409, "pieces of HAM-300 left"},
		{"GET", "/items/VIS-100", "", "", 404, "no item"},
		{"GET", "/categories", "", "", 200, `"name":"hammers","items":3`},
		{"GET", "/bins?filter%5Bzone%5D=B&filter%5BminFree%5D=1", "", "", 200, `"bin":"B-01"`},
		{"GET", "/bins/A-01", "", "", 200, `"contents":{`},
		{"PUT", "/bins/A-01/capacity", json, `{"pieces":1}`, 409, "lie in A-01"},
		{"PUT", "/bins/A-01/capacity", json, `{"pieces":100}`, 200, `"capacity":100`},
		{"GET", "/routes/C-01,A-02,A-02", "", "", 200, `{"metres":72,"stops":["A-02","C-01"]}`},
		{"GET", "/zones", "", "", 200, `"A":18.5`},
		{"POST", "/stock/moves", json, `{"sku":"GLU-750","from":"door","to":"A-01","pieces":3,"reason":"arrival"}`, 201, `"id":"M-2"`},
		{"POST", "/stock/moves", json, `{"sku":"GLU-750","from":"A-01","to":"A-02","pieces":900}`, 409, "not 900"},
		{"GET", "/stock/moves?sku=GLU-750&since=2026-03-01", "", "", 200, `"reason":"arrival"`},
		{"GET", "/stock?skus=GLU-750%7CHAM-300", "", "", 200, `"sku":"GLU-750"`},
		{"POST", "/stock/counts", "application/x-www-form-urlencoded", "sku=GLU-750&bin=A-01&pieces=1&counters=a&counters=b", 200, `{"after":1,"before":3}`},
		{"GET", "/orders?status=open&status=picked", "", "", 200, `"id":"O-1001"`},
		{"POST", "/orders", json, `{"customer":"Ida","lines":[{"sku":"HAM-300","pieces":2},{"sku":"SAW-022","pieces":1}],"address":{"name":"Ida","city":"Linz","country":"AT"}}`, 201, `"total":7770`},
		{"POST", "/orders", json, `{"customer":"Ida","lines":[{"sku":"NOT-000","pieces":2}]}`, 422, "NOT-000"},
		{"DELETE", "/orders/O-1003/lines/2", "", "", 204, ""},
		{"POST", "/shipments", json, `{"kind":"parcel","order":"O-1003","carrier":"post"}`, 409, "is open"},
		{"POST", "/orders/O-1003/pick", "", "", 200, `"picks":[{"bin":"`},
		{"POST", "/orders/O-1003/pick", "", "", 409, "is picked"},
		{"POST", "/shipments", json, `{"kind":"parcel","order":"O-1003","carrier":"post"}`, 201, `"id":"S-1"`},
		{"GET", "/shipments/S-1", "", "", 200, `"carrier":"post"`},
		{"POST", "/orders/O-1003/cancel", json, `{}`, 409, "is shipped"},
		{"POST", "/orders/O-1001/cancel", "", "", 200, `"status":"cancelled"`},
		{"GET", "/carriers/post/quote?grams=1200&country=CH", "", "", 200, `"cents":844`},
		{"GET", "/carriers/bike/quote?grams=1200&country=CH", "", "", 422, "does not go"},
		{"GET", "/reports/inventory", "", "", 200, "HAM-300,Claw hammer 300 g,"},
		{"GET", "/reports/turnover", "", "", 200, "[1200000,"},
		{"POST", "/drills/503?retryAfter=9", "", "", 503, "drill"},
		{"GET", "/nothing", "", "", 404, ""},
	}
	for _, s := range steps {
		w := do(t, h, s.method, s.path, s.media, s.body)
		if w.Code != s.status || !strings.Contains(w.Body.String(), s.want) {
			t.Errorf("%s %s: %d %s, want %d with %q", s.method, s.path, w.Code, w.Body, s.status, s.want)
		}
		if strings.Contains(w.Body.String(), "supplierSecret") {
			t.Errorf("%s %s tells the supplier's secret: %s", s.method, s.path, w.Body)
		}
	}
	if got := do(t, h, "POST", "/drills/429?retryAfter=9", "", "").Header().Get("Retry-After"); got != "9" {
		t.Errorf("Retry-After is %q, want 9", got)
	}
	if again := do(t, New(""), "GET", "/items", "", ""); again.Body.String() != do(t, New(""), "GET", "/items", "", "").Body.String() {
		t.Error("two depots differ")
	}
}

func TestIdempotencyKey(t *testing.T) {
	h := New("")
	var ids []string
	for _, key := range []string{"a", "a", "b", "", ""} {
		r := httptest.NewRequest("POST", base+"/orders", strings.NewReader(`{"customer":"Ida","lines":[{"sku":"HAM-300","pieces":1}]}`))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var o order
		if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, o.ID)
	}
	if ids[0] != ids[1] || ids[1] == ids[2] || ids[3] == ids[4] {
		t.Errorf("orders %v, want one for each key, and one for each without", ids)
	}
}

func TestImportAndPictures(t *testing.T) {
	h := New("")
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	f, err := form.CreateFormFile("table", "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(f, "sku,name,price\nNEW-001,New,100\nHAM-300,Old,1\nbad,Bad,x\n")
	form.WriteField("category", "supplies")
	form.Close()
	w := do(t, h, "POST", "/imports", form.FormDataContentType(), body.String())
	if want := `{"added":["NEW-001"],"skipped":["HAM-300","bad"]}`; w.Body.String() != want {
		t.Errorf("import: %d %s, want %s", w.Code, w.Body, want)
	}
	w = do(t, h, "GET", "/items/NEW-001/photo", "", "")
	if img, err := png.Decode(w.Body); err != nil || img.Bounds().Dx() != 64 || w.Header().Get("Content-Type") != "image/png" {
		t.Errorf("photo: %v", err)
	}
}

func TestKey(t *testing.T) {
	h := New("k")
	if w := do(t, h, "GET", "/items", "", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("without the key: %d, want 401", w.Code)
	}
	if w := do(t, h, "GET", "/status", "", ""); w.Code != http.StatusOK {
		t.Errorf("the status without the key: %d, want 200", w.Code)
	}
}

func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, New(""), "127.0.0.1:0", func(url string) { ready <- url }) }()
	resp, err := http.Get(<-ready)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !bytes.Equal(b, Document()) {
		t.Errorf("the document has %d bytes, %v", len(b), err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}
