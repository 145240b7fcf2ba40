package depot

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type bin struct {
	Bin      string `json:"bin"`
	Zone     string `json:"zone"`
	Capacity int    `json:"capacity"`
	Used     int    `json:"used"`
	contents map[string]int
}

func (b *bin) used() int {
	n := 0
	for _, pieces := range b.contents {
		n += pieces
	}
	return n
}

// A shownBin is a bin as it is answered.
type shownBin struct {
	bin
	Contents map[string]int `json:"contents"`
}

func (b *bin) shown() shownBin {
	out := shownBin{*b, b.contents}
	out.Used = b.used()
	return out
}

func (d *depot) bin(name string) (*bin, error) {
	for _, b := range d.bins {
		if b.Bin == name {
			return b, nil
		}
	}
	return nil, missing("bin", name)
}

// pieces returns how many pieces of an item there are, and in which bins.
func (d *depot) pieces(sku string) (int, map[string]int) {
	n, where := 0, map[string]int{}
	for _, b := range d.bins {
		if p := b.contents[sku]; p > 0 {
			n += p
			where[b.Bin] = p
		}
	}
	return n, where
}

func (d *depot) listBins(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := r.URL.Query()
	least, err := strconv.Atoi("0" + q.Get("filter[minFree]"))
	if err != nil {
		return 0, nil, err
	}
	out := []shownBin{}
	for _, b := range d.bins {
		if zone := q.Get("filter[zone]"); (zone == "" || zone == b.Zone) && b.Capacity-b.used() >= least {
			out = append(out, b.shown())
		}
	}
	return http.StatusOK, out, nil
}

func (d *depot) getBin(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	b, err := d.bin(r.PathValue("bin"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, b.shown(), nil
}

func (d *depot) setCapacity(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	b, err := d.bin(r.PathValue("bin"))
	if err != nil {
		return 0, nil, err
	}
	var wish struct{ Pieces int }
	if err := read(r, &wish); err != nil {
		return 0, nil, err
	}
	if wish.Pieces < b.used() {
		return 0, nil, problemf(http.StatusConflict, "%d pieces lie in %s", b.used(), b.Bin)
	}
	b.Capacity = wish.Pieces
	return http.StatusOK, b.shown(), nil
}

// walkingRoute goes by the names of the bins, as the shelves stand.
func (d *depot) walkingRoute(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	stops := strings.Split(r.PathValue("stops"), ",")
	far := 0
	for _, s := range stops {
		b, err := d.bin(s)
		if err != nil {
			return 0, nil, err
		}
		far = max(far, slices.Index(d.bins, b)+1)
	}
	slices.Sort(stops)
	return http.StatusOK, map[string]any{"stops": slices.Compact(stops), "metres": far * 8}, nil
}

func (d *depot) zones(http.ResponseWriter, *http.Request) (int, any, error) {
	return http.StatusOK, map[string]float64{"A": 18.5, "B": 18, "C": 12.25}, nil
}

type stock struct {
	SKU    string         `json:"sku"`
	Pieces int            `json:"pieces"`
	Bins   map[string]int `json:"bins"`
}

func (d *depot) listStock(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := r.URL.Query()
	var wanted []string
	if s := q.Get("skus"); s != "" {
		wanted = strings.Split(s, "|")
	}
	out := []stock{}
	for _, i := range d.items {
		n, where := d.pieces(i.SKU)
		low := i.ReorderAt != nil && n <= *i.ReorderAt
		if (wanted == nil || slices.Contains(wanted, i.SKU)) && (q.Get("low") != "true" || low) {
			out = append(out, stock{i.SKU, n, where})
		}
	}
	return http.StatusOK, out, nil
}

type move struct {
	ID     string `json:"id"`
	SKU    string `json:"sku"`
	From   string `json:"from"`
	To     string `json:"to"`
	Pieces int    `json:"pieces"`
	Reason string `json:"reason"`
	Day    string `json:"day"`
}

func (d *depot) move(sku, from, to string, pieces int, reason string) move {
	m := move{"M-" + strconv.Itoa(len(d.moves)+1), sku, from, to, pieces, reason, today}
	d.moves = append(d.moves, m)
	return m
}

func (d *depot) listMoves(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := r.URL.Query()
	found := []move{}
	for _, m := range slices.Backward(d.moves) {
		if (q.Get("sku") == "" || q.Get("sku") == m.SKU) && m.Day >= q.Get("since") {
			found = append(found, m)
		}
	}
	from, to, next, err := page(r, len(found))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"moves": found[from:to], "next": next}, nil
}

func (d *depot) moveStock(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	var wish struct {
		SKU, From, To, Reason string
		Pieces                int
	}
	if err := read(r, &wish); err != nil {
		return 0, nil, err
	}
	if _, err := d.item(wish.SKU); err != nil {
		return 0, nil, err
	}
	to, err := d.bin(wish.To)
	if err != nil {
		return 0, nil, err
	}
	if wish.From != "door" {
		from, err := d.bin(wish.From)
		if err != nil {
			return 0, nil, err
		}
		if n := from.contents[wish.SKU]; n < wish.Pieces {
			return 0, nil, problemf(http.StatusConflict, "%s holds %d pieces of %s, not %d", from.Bin, n, wish.SKU, wish.Pieces)
		}
		from.contents[wish.SKU] -= wish.Pieces
	}
	if free := to.Capacity - to.used(); free < wish.Pieces {
		return 0, nil, problemf(http.StatusConflict, "%s has room for %d pieces, not %d", to.Bin, free, wish.Pieces)
	}
	to.contents[wish.SKU] += wish.Pieces
	if wish.Reason == "" {
		wish.Reason = "tidying"
	}
	return http.StatusCreated, d.move(wish.SKU, wish.From, wish.To, wish.Pieces, wish.Reason), nil
}

func (d *depot) countStock(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	if err := r.ParseForm(); err != nil {
		return 0, nil, err
	}
	b, err := d.bin(r.PostForm.Get("bin"))
	if err != nil {
		return 0, nil, err
	}
	i, err := d.item(r.PostForm.Get("sku"))
	if err != nil {
		return 0, nil, err
	}
	n, err := strconv.Atoi(r.PostForm.Get("pieces"))
	if err != nil || n < 0 {
		return 0, nil, problemf(http.StatusBadRequest, "pieces is %q; want a number", r.PostForm.Get("pieces"))
	}
	before := b.contents[i.SKU]
	b.contents[i.SKU] = n
	return http.StatusOK, map[string]int{"before": before, "after": n}, nil
}

func readText(r *http.Request) (string, error) {
	b, err := io.ReadAll(r.Body)
	return string(b), err
}
