package depot

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strconv"
)

func (d *depot) inventoryReport(http.ResponseWriter, *http.Request) (int, any, error) {
	var b bytes.Buffer
	b.WriteString("sku,name,pieces,cents\n")
	for _, i := range d.items {
		n, _ := d.pieces(i.SKU)
		fmt.Fprintf(&b, "%s,%s,%d,%d\n", i.SKU, i.Name, n, n*i.Price)
	}
	return http.StatusOK, raw{"text/csv; charset=utf-8", b.Bytes()}, nil
}

func (d *depot) turnoverReport(http.ResponseWriter, *http.Request) (int, any, error) {
	var months []int
	for m := range 12 {
		months = append(months, 1_200_000+m*m*7_919%400_000)
	}
	return http.StatusOK, months, nil
}

func (d *depot) fullReport(http.ResponseWriter, *http.Request) (int, any, error) {
	return http.StatusOK, map[string]any{"items": d.items, "moves": d.moves}, nil
}

func (d *depot) status(http.ResponseWriter, *http.Request) (int, any, error) {
	return http.StatusOK, map[string]any{"open": true, "reads": d.reads, "changes": d.changes}, nil
}

func (d *depot) fireDrill(w http.ResponseWriter, r *http.Request) (int, any, error) {
	status, err := strconv.Atoi(r.PathValue("status"))
	if err != nil || status < 200 || status > 599 {
		return 0, nil, problemf(http.StatusBadRequest, "status is %q; want 200 to 599", r.PathValue("status"))
	}
	if s := r.URL.Query().Get("retryAfter"); s != "" {
		w.Header().Set("Retry-After", s)
	}
	return status, problemf(status, "this is a drill"), nil
}

// picture draws the stripes of a text.
func picture(text string, width, height int) []byte {
	h := fnv.New64a()
	h.Write([]byte(text))
	bits := h.Sum64()
	img := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.White, color.RGBA{uint8(bits), uint8(bits >> 8), 96, 255}})
	for x := range width {
		if bits>>(x*64/width)&1 == 1 {
			for y := range height {
				img.SetColorIndex(x, y, 1)
			}
		}
	}
	var b bytes.Buffer
	png.Encode(&b, img) // which cannot fail
	return b.Bytes()
}
