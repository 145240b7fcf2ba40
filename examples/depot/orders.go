package depot

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type line struct {
	SKU    string `json:"sku"`
	Pieces int    `json:"pieces"`
}

type address struct {
	Name    string `json:"name"`
	Street  string `json:"street,omitempty"`
	City    string `json:"city"`
	Country string `json:"country"`
}

type order struct {
	ID       string   `json:"id"`
	Status   string   `json:"status"`
	Total    int      `json:"total"`
	Customer string   `json:"customer"`
	Lines    []line   `json:"lines"`
	Address  *address `json:"address,omitempty"`
	Gift     bool     `json:"gift,omitempty"`
	picks    []pick
}

type pick struct {
	Bin    string `json:"bin"`
	SKU    string `json:"sku"`
	Pieces int    `json:"pieces"`
}

// shownOrder returns an order as it is answered.
func (d *depot) shownOrder(o *order) order {
	out := *o
	out.Total = 0
	for _, l := range o.Lines {
		if i, err := d.item(l.SKU); err == nil {
			out.Total += i.Price * l.Pieces
		}
	}
	return out
}

func (d *depot) order(id string) (*order, error) {
	for _, o := range d.orders {
		if o.ID == id {
			return o, nil
		}
	}
	return nil, missing("order", id)
}

func (d *depot) listOrders(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := r.URL.Query()
	out := []order{}
	for _, o := range d.orders {
		if (len(q["status"]) == 0 || slices.Contains(q["status"], o.Status)) && strings.Contains(strings.ToLower(o.Customer), strings.ToLower(q.Get("customer"))) {
			out = append(out, d.shownOrder(o))
		}
	}
	return http.StatusOK, out, nil
}

func (d *depot) createOrder(w http.ResponseWriter, r *http.Request) (int, any, error) {
	key := r.Header.Get("Idempotency-Key")
	if id := d.taken[key]; key != "" && id != "" {
		o, err := d.order(id)
		if err != nil {
			return 0, nil, err
		}
		return http.StatusCreated, d.shownOrder(o), nil
	}
	o := &order{ID: "O-" + strconv.Itoa(1001+len(d.orders)), Status: "open"}
	var wish struct {
		Customer string
		Lines    []line
		Address  *address
		Gift     bool
	}
	if err := read(r, &wish); err != nil {
		return 0, nil, err
	}
	for _, l := range wish.Lines {
		if _, err := d.item(l.SKU); err != nil {
			return 0, nil, problemf(http.StatusUnprocessableEntity, "there is no item %q", l.SKU)
		}
	}
	o.Customer, o.Lines, o.Address, o.Gift = wish.Customer, wish.Lines, wish.Address, wish.Gift
	d.orders = append(d.orders, o)
	d.taken[key] = o.ID
	w.Header().Set("Location", base+"/orders/"+o.ID)
	return http.StatusCreated, d.shownOrder(o), nil
}

func (d *depot) getOrder(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	o, err := d.order(r.PathValue("order"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, d.shownOrder(o), nil
}

func (d *depot) cancelOrder(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	o, err := d.order(r.PathValue("order"))
	if err != nil {
		return 0, nil, err
	}
	if o.Status == "shipped" || o.Status == "cancelled" {
		return 0, nil, problemf(http.StatusConflict, "%s is %s", o.ID, o.Status)
	}
	for _, p := range o.picks {
		if b, err := d.bin(p.Bin); err == nil {
			b.contents[p.SKU] += p.Pieces
		}
	}
	o.Status, o.picks = "cancelled", nil
	return http.StatusOK, d.shownOrder(o), nil
}

func (d *depot) deleteOrderLine(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	o, err := d.order(r.PathValue("order"))
	if err != nil {
		return 0, nil, err
	}
	n, err := strconv.Atoi(r.PathValue("line"))
	switch {
	case err != nil || n < 1 || n > len(o.Lines):
		return 0, nil, missing("line", r.PathValue("line"))
	case o.Status != "open":
		return 0, nil, problemf(http.StatusConflict, "%s is %s", o.ID, o.Status)
	}
	o.Lines = slices.Delete(o.Lines, n-1, n)
	return http.StatusNoContent, nil, nil
}

func (d *depot) pickOrder(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	o, err := d.order(r.PathValue("order"))
	if err != nil {
		return 0, nil, err
	}
	if o.Status != "open" {
		return 0, nil, problemf(http.StatusConflict, "%s is %s", o.ID, o.Status)
	}
	picks := []pick{}
	left := map[string]int{}
	for _, l := range o.Lines {
		left[l.SKU] += l.Pieces
	}
	for _, b := range d.bins { // as the walk goes
		for _, l := range o.Lines {
			if n := min(left[l.SKU], b.contents[l.SKU]); n > 0 {
				picks = append(picks, pick{b.Bin, l.SKU, n})
				left[l.SKU] -= n
			}
		}
	}
	for _, l := range o.Lines {
		if left[l.SKU] > 0 {
			return 0, nil, problemf(http.StatusConflict, "%d pieces of %s are missing", left[l.SKU], l.SKU)
		}
	}
	for _, p := range picks {
		b, _ := d.bin(p.Bin)
		b.contents[p.SKU] -= p.Pieces
	}
	o.Status, o.picks = "picked", picks
	return http.StatusOK, map[string]any{"order": o.ID, "picks": picks}, nil
}

type shipment struct {
	ID      string  `json:"id"`
	Order   string  `json:"order"`
	Kind    string  `json:"kind"`
	Carrier *string `json:"carrier"`
	Day     *string `json:"day"`
}

func (d *depot) shipment(id string) (*shipment, error) {
	for _, s := range d.shipments {
		if s.ID == id {
			return s, nil
		}
	}
	return nil, missing("shipment", id)
}

func (d *depot) createShipment(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	var s shipment
	if err := read(r, &s); err != nil {
		return 0, nil, err
	}
	o, err := d.order(s.Order)
	switch {
	case err != nil:
		return 0, nil, err
	case o.Status != "picked":
		return 0, nil, problemf(http.StatusConflict, "%s is %s", o.ID, o.Status)
	case s.Kind == "parcel" && o.Address == nil:
		return 0, nil, problemf(http.StatusUnprocessableEntity, "%s has no address", o.ID)
	}
	s.ID = "S-" + strconv.Itoa(len(d.shipments)+1)
	d.shipments = append(d.shipments, &s)
	o.Status = "shipped"
	return http.StatusCreated, s, nil
}

func (d *depot) getShipment(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	s, err := d.shipment(r.PathValue("shipment"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s, nil
}

func (d *depot) shipmentLabel(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	s, err := d.shipment(r.PathValue("shipment"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, raw{"image/png", picture(s.ID, 96, 32)}, nil
}

func (d *depot) shippingQuote(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	carrier, q := r.PathValue("carrier"), r.URL.Query()
	first, each, days := 0, 0, 0
	switch carrier {
	case "bike":
		first, each, days = 400, 30, 0
	case "post":
		first, each, days = 350, 12, 3
	case "express":
		first, each, days = 990, 25, 1
	default:
		return 0, nil, missing("carrier", carrier)
	}
	grams, err := strconv.Atoi(q.Get("grams"))
	if err != nil || grams < 1 {
		return 0, nil, problemf(http.StatusBadRequest, "grams is %q; want a number", q.Get("grams"))
	}
	if country := q.Get("country"); country != "" && country != "AT" {
		if carrier == "bike" {
			return 0, nil, problemf(http.StatusUnprocessableEntity, "bike does not go to %s", country)
		}
		first, days = 2*first, days+2
	}
	currency := r.Header.Get("X-Currency")
	if currency == "" {
		currency = "EUR"
	}
	return http.StatusOK, map[string]any{"carrier": carrier, "cents": first + (grams+99)/100*each, "currency": currency, "days": days}, nil
}
