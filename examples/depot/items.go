package depot

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type item struct {
	SKU       string   `json:"sku"`
	Name      string   `json:"name"`
	Category  string   `json:"category"`
	Price     int      `json:"price"` // cents
	Tags      []string `json:"tags,omitempty"`
	ReorderAt *int     `json:"reorderAt,omitempty"`
	Pieces    int      `json:"pieces"`

	Supplier string `json:"supplierSecret,omitempty"` // never answered
	notes    string
}

// shown returns the item as it is answered.
func (d *depot) shown(i *item) item {
	out := *i
	out.Supplier = ""
	out.Pieces, _ = d.pieces(i.SKU)
	return out
}

func (d *depot) item(sku string) (*item, error) {
	for _, i := range d.items {
		if i.SKU == sku {
			return i, nil
		}
	}
	return nil, missing("item", sku)
}

// fill brings the depot into its first state.
func (d *depot) fill() {
	d.taken = map[string]string{}
	five := 5
	for _, i := range []item{
		{SKU: "HAM-300", Name: "Claw hammer 300 g", Category: "hand/hammers", Price: 1890, Tags: []string{"steel", "popular"}, ReorderAt: &five, notes: "Handles are ash.\nKeep dry."},
		{SKU: "HAM-500", Name: "Club hammer 500 g", Category: "hand/hammers", Price: 2450, Tags: []string{"steel"}},
		{SKU: "HAM-050", Name: "Tack hammer 50 g", Category: "hand/hammers", Price: 1120},
		{SKU: "SAW-022", Name: "Dovetail saw", Category: "hand/saws", Price: 3990, Tags: []string{"wood", "fine"}, ReorderAt: &five},
		{SKU: "SAW-045", Name: "Rip saw 45 cm", Category: "hand/saws", Price: 4590, Tags: []string{"wood"}},
		{SKU: "PLA-004", Name: "Smoothing plane No. 4", Category: "hand/planes", Price: 8900, Tags: []string{"wood", "popular"}, ReorderAt: &five},
		{SKU: "CHI-006", Name: "Bevel chisel 6 mm", Category: "hand/chisels", Price: 1590, Tags: []string{"wood"}},
		{SKU: "CHI-025", Name: "Bevel chisel 25 mm", Category: "hand/chisels", Price: 2190, Tags: []string{"wood"}},
		{SKU: "DRI-018", Name: "Cordless drill 18 V", Category: "power/drills", Price: 15900, Tags: []string{"battery", "popular"}, ReorderAt: &five},
		{SKU: "SAN-125", Name: "Random orbit sander 125 mm", Category: "power/sanders", Price: 9900, Tags: []string{"wood"}},
		{SKU: "BAT-018", Name: "Battery 18 V 5 Ah", Category: "power/parts", Price: 7900, Tags: []string{"battery"}},
		{SKU: "GLU-750", Name: "Wood glue 750 g", Category: "supplies", Price: 1290, Tags: []string{"wood"}, ReorderAt: &five},
	} {
		d.items = append(d.items, &i)
	}
	slices.SortFunc(d.items, func(a, b *item) int { return strings.Compare(a.SKU, b.SKU) })
	for i := range 12 {
		zone := "ABC"[i/4 : i/4+1]
		d.bins = append(d.bins, &bin{Bin: zone + "-0" + strconv.Itoa(i%4+1), Zone: zone, Capacity: 60, contents: map[string]int{}})
	}
	for i, it := range d.items {
		d.bins[i].contents[it.SKU] = 3 + i*5%17
		d.bins[(i*5+3)%12].contents[it.SKU] += 2
	}
	d.move("HAM-300", "door", "A-01", 10, "arrival")
	d.orders = []*order{{
		ID: "O-1001", Status: "open", Customer: "Joinery Berg", Lines: []line{{"PLA-004", 1}, {"CHI-006", 4}},
		Address: &address{Name: "Joinery Berg", Street: "Werkgasse 3", City: "Graz", Country: "AT"},
	}, {ID: "O-1002", Status: "cancelled", Customer: "Nora Vidal", Lines: []line{{"DRI-018", 1}}}}
}

func (d *depot) listItems(w http.ResponseWriter, r *http.Request) (int, any, error) {
	q := r.URL.Query()
	var found []item
	for _, i := range d.items {
		words := strings.Fields(strings.ToLower(q.Get("q")))
		named := !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(strings.ToLower(i.Name), word) })
		within := q.Get("category") == "" || i.Category == q.Get("category") || strings.HasPrefix(i.Category, q.Get("category")+"/")
		tagged := !slices.ContainsFunc(q["tag"], func(t string) bool { return !slices.Contains(i.Tags, t) })
		if named && within && tagged {
			found = append(found, d.shown(i))
		}
	}
	from, to, next, err := page(r, len(found))
	if err != nil {
		return 0, nil, err
	}
	w.Header().Set("X-Total-Count", strconv.Itoa(len(found)))
	if next != nil {
		w.Header().Set("Link", nextLink(r, *next))
	}
	return http.StatusOK, map[string]any{"items": append([]item{}, found[from:to]...), "next": next}, nil
}

var skuForm = regexp.MustCompile(`^[A-Z]{3}-[0-9]{3}$`)

func (d *depot) createItem(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var i item
	if err := read(r, &i); err != nil {
		return 0, nil, err
	}
	if err := d.add(&i); err != nil {
		return 0, nil, err
	}
	w.Header().Set("Location", base+"/items/"+i.SKU)
	return http.StatusCreated, d.shown(&i), nil
}

func (d *depot) add(i *item) error {
	switch _, err := d.item(i.SKU); {
	case !skuForm.MatchString(i.SKU):
		return problemf(http.StatusUnprocessableEntity, "sku is %q; want three capitals, a dash and three digits", i.SKU)
	case i.Name == "" || i.Price < 0:
		return problemf(http.StatusUnprocessableEntity, "%s needs a name, and a price that is not negative", i.SKU)
	case err == nil:
		return problemf(http.StatusConflict, "there is an item %s already", i.SKU)
	}
	d.items = append(d.items, i)
	slices.SortFunc(d.items, func(a, b *item) int { return strings.Compare(a.SKU, b.SKU) })
	return nil
}

func (d *depot) getItem(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	i, err := d.item(r.PathValue("sku"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, d.shown(i), nil
}

func (d *depot) updateItem(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	i, err := d.item(r.PathValue("sku"))
	if err != nil {
		return 0, nil, err
	}
	var change struct {
		Name      *string         `json:"name"`
		Price     *int            `json:"price"`
		ReorderAt json.RawMessage `json:"reorderAt"`
	}
	if err := read(r, &change); err != nil {
		return 0, nil, err
	}
	if change.Name != nil {
		i.Name = *change.Name
	}
	if change.Price != nil {
		i.Price = *change.Price
	}
	if change.ReorderAt != nil {
		i.ReorderAt = nil
		if err := json.Unmarshal(change.ReorderAt, &i.ReorderAt); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, d.shown(i), nil
}

func (d *depot) deleteItem(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	i, err := d.item(r.PathValue("sku"))
	if err != nil {
		return 0, nil, err
	}
	if n, _ := d.pieces(i.SKU); n > 0 {
		return 0, nil, problemf(http.StatusConflict, "there are %d pieces of %s left", n, i.SKU)
	}
	d.items = slices.DeleteFunc(d.items, func(other *item) bool { return other == i })
	return http.StatusNoContent, nil, nil
}

func (d *depot) itemPhoto(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	i, err := d.item(r.PathValue("sku"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, raw{"image/png", picture(i.SKU, 64, 64)}, nil
}

func (d *depot) getNotes(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	i, err := d.item(r.PathValue("sku"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, raw{"text/plain; charset=utf-8", []byte(i.notes)}, nil
}

func (d *depot) setNotes(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	i, err := d.item(r.PathValue("sku"))
	if err != nil {
		return 0, nil, err
	}
	text, err := readText(r)
	if err != nil {
		return 0, nil, err
	}
	i.notes = text
	return http.StatusNoContent, nil, nil
}

type category struct {
	Name   string      `json:"name"`
	Items  int         `json:"items"`
	Within []*category `json:"within"`
}

func (d *depot) categoryTree(http.ResponseWriter, *http.Request) (int, any, error) {
	root := &category{Name: "all", Within: []*category{}}
	for _, i := range d.items {
		at := root
		at.Items++
		for part := range strings.SplitSeq(i.Category, "/") {
			k := slices.IndexFunc(at.Within, func(c *category) bool { return c.Name == part })
			if k < 0 {
				k = len(at.Within)
				at.Within = append(at.Within, &category{Name: part, Within: []*category{}})
			}
			at = at.Within[k]
			at.Items++
		}
	}
	return http.StatusOK, root, nil
}

func (d *depot) importItems(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	f, _, err := r.FormFile("table")
	if err != nil {
		return 0, nil, problemf(http.StatusBadRequest, "table: %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) == 0 || strings.Join(rows[0], ",") != "sku,name,price" {
		return 0, nil, problemf(http.StatusUnprocessableEntity, "table: want CSV with the columns sku, name, price")
	}
	out := map[string][]string{"added": {}, "skipped": {}}
	for _, row := range rows[1:] {
		price, err := strconv.Atoi(row[2])
		i := &item{SKU: row[0], Name: row[1], Price: price, Category: r.FormValue("category")}
		if i.Category == "" {
			i.Category = "hand"
		}
		if _, known := d.item(i.SKU); err != nil || known == nil || r.FormValue("dryRun") != "true" && d.add(i) != nil {
			out["skipped"] = append(out["skipped"], row[0])
			continue
		}
		out["added"] = append(out["added"], row[0])
	}
	return http.StatusOK, out, nil
}
