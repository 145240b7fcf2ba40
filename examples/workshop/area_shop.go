package workshop

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

type product struct {
	SKU      string  `json:"sku"`
	Name     string  `json:"name"`
	Category string  `json:"category"`
	Price    float64 `json:"price"`
	Stock    int     `json:"stock"`
}

type line struct {
	SKU      string  `json:"sku"`
	Name     string  `json:"name"`
	Quantity int     `json:"quantity"`
	Sum      float64 `json:"sum"`
}

type order struct {
	ID      string  `json:"orderId"`
	Status  string  `json:"status"`
	Lines   []line  `json:"lines"`
	Total   float64 `json:"total"`
	ShipTo  string  `json:"shipTo"`
	Payment string  `json:"payment"`
}

type shop struct {
	products []*product
	cart     []line
	orders   []*order
}

func newShop() area {
	s := &shop{
		products: []*product{
			{"HAM-01", "Claw hammer 16 oz", "tools", 18.90, 40},
			{"SAW-07", "Japanese pull saw", "tools", 34.50, 12},
			{"CLA-03", "Bar clamp 60 cm", "tools", 21.00, 3},
			{"GLU-02", "Wood glue 750 g", "supplies", 9.80, 120},
			{"SND-12", "Sandpaper set 80 to 400", "supplies", 7.25, 200},
			{"APR-05", "Leather apron", "clothing", 64.00, 8},
			{"GLV-04", "Work gloves, size 9", "clothing", 12.40, 0},
			{"BCH-01", "Workbench, beech", "furniture", 389.00, 2},
		},
		orders: []*order{{ID: "ORD-7001", Status: "shipped", Total: 18.90, ShipTo: "Lund, SE", Payment: "card",
			Lines: []line{{"HAM-01", "Claw hammer 16 oz", 1, 18.90}}}},
	}
	return area{name: "shop", about: "a hardware shop with one cart. Prices are in EUR.", tools: s.tools()}
}

func (s *shop) tools() []tool {
	const productOut = `{"type":"object","properties":{"sku":{"type":"string"},"name":{"type":"string"},"category":{"type":"string"},
		"price":{"type":"number","minimum":0},"stock":{"type":"integer","minimum":0}},"required":["sku","name","price","stock"]}`
	const lineOut = `{"type":"object","properties":{"sku":{"type":"string"},"name":{"type":"string"},"quantity":{"type":"integer"},"sum":{"type":"number"}},"required":["sku","quantity","sum"]}`
	const cartOut = `{"type":"object","properties":{"lines":{"type":"array","items":` + lineOut + `},"total":{"type":"number"},"currency":{"const":"EUR"}},"required":["lines","total","currency"]}`
	const orderOut = `{"type":"object","properties":{"orderId":{"type":"string"},"status":{"type":"string"},"lines":{"type":"array","items":` + lineOut + `},
		"total":{"type":"number"},"shipTo":{"type":"string"},"payment":{"type":"string"}},"required":["orderId","status","total"]}`
	return []tool{
		{name: "list_items", title: "Browse the catalogue", hints: readOnly,
			about: "Lists the articles of the hardware shop with price and stock.",
			in: `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{
				"category":{"anyOf":[{"type":"string","enum":["tools","supplies","clothing","furniture"]},{"type":"null"}],"default":null},
				"maxPrice":{"type":"number","exclusiveMinimum":0},
				"words":{"type":"string"},
				"sort":{"type":"string","enum":["name","price","-price"],"default":"name"}},"additionalProperties":false}`,
			out: `{"type":"object","properties":{"items":{"type":"array","items":` + productOut + `}},"required":["items"]}`,
			run: with(s.list)},
		{name: "get_item", title: "Article details", hints: readOnly,
			about: "Returns one article of the shop.",
			in:    `{"type":"object","properties":{"sku":{"type":"string","pattern":"^[A-Z]{3}-[0-9]{2}$"}},"required":["sku"]}`,
			run:   with(s.get)},
		{name: "add_to_cart", title: "Add to cart", hints: additive,
			about: "Puts an article into the cart.",
			in:    `{"type":"object","properties":{"sku":{"type":"string"},"quantity":{"type":"integer","minimum":1,"maximum":99,"default":1}},"required":["sku"]}`,
			run:   with(s.addToCart)},
		{name: "view_cart", title: "View cart", hints: readOnly,
			about: "Show cart",
			in:    `{"type":"object"}`,
			out:   cartOut, run: with(func(struct{}) (any, error) { return s.cartView(), nil })},
		{name: "checkout", title: "Place the order", hints: destructive | openWorld,
			about: "Buys what is in the cart, takes the articles from stock and empties the cart.",
			in: `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{
				"shipTo":{"$ref":"#/definitions/postalAddress"},
				"billTo":{"anyOf":[{"$ref":"#/definitions/postalAddress"},{"type":"null"}]},
				"payment":{"oneOf":[
					{"type":"object","properties":{"method":{"const":"card"},"cardToken":{"type":"string","pattern":"^tok_[a-z0-9]{4,}$"}},"required":["method","cardToken"]},
					{"type":"object","properties":{"method":{"const":"invoice"},"vatId":{"type":"string","minLength":4}},"required":["method","vatId"]}]}},
				"required":["shipTo","payment"],"additionalProperties":false,
				"definitions":{"postalAddress":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string","minLength":1},
					"postcode":{"type":"string"},"country":{"type":"string","pattern":"^[A-Z]{2}$"}},"required":["street","city","country"]}}}`,
			out: orderOut, run: with(s.checkout)},
		{name: "track_order", title: "Track an order", hints: readOnly,
			about: "Tells where an order is.",
			in:    `{"type":"object","properties":{"orderId":{"type":"string"}},"required":["orderId"]}`,
			run:   with(s.track)},
	}
}

func (s *shop) product(sku string) (*product, error) {
	i := slices.IndexFunc(s.products, func(p *product) bool { return p.SKU == sku })
	if i < 0 {
		return nil, missing("article", sku, "list_items")
	}
	return s.products[i], nil
}

func cents(x float64) float64 { return math.Round(x*100) / 100 }

func total(lines []line) float64 {
	t := 0.0
	for _, l := range lines {
		t += l.Sum
	}
	return cents(t)
}

func (s *shop) list(a struct {
	Category    *string
	MaxPrice    float64
	Words, Sort string
}) (any, error) {
	items := []*product{}
	for _, p := range s.products {
		if (a.Category == nil || *a.Category == p.Category) && (a.MaxPrice == 0 || p.Price <= a.MaxPrice) && matches(a.Words, p.Name) {
			items = append(items, p)
		}
	}
	slices.SortFunc(items, func(x, y *product) int {
		switch a.Sort {
		case "price":
			return cmp.Compare(x.Price, y.Price)
		case "-price":
			return cmp.Compare(y.Price, x.Price)
		}
		return strings.Compare(x.Name, y.Name)
	})
	return obj{"items": items}, nil
}

func (s *shop) get(a struct{ SKU string }) (any, error) { return s.product(a.SKU) }

func (s *shop) cartView() obj {
	return obj{"lines": append([]line{}, s.cart...), "total": total(s.cart), "currency": "EUR"}
}

func (s *shop) addToCart(a struct {
	SKU      string
	Quantity int
}) (any, error) {
	p, err := s.product(a.SKU)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.cart, func(l line) bool { return l.SKU == a.SKU })
	if i >= 0 {
		a.Quantity += s.cart[i].Quantity
	}
	if a.Quantity > p.Stock {
		return nil, fmt.Errorf("quantity: %d of %s are wanted, %d are in stock", a.Quantity, p.SKU, p.Stock)
	}
	l := line{p.SKU, p.Name, a.Quantity, cents(float64(a.Quantity) * p.Price)}
	if i >= 0 {
		s.cart[i] = l
	} else {
		s.cart = append(s.cart, l)
	}
	return s.cartView(), nil
}

func (s *shop) checkout(a struct {
	ShipTo  struct{ Street, City, Country string }
	Payment struct{ Method string }
}) (any, error) {
	if len(s.cart) == 0 {
		return nil, fmt.Errorf("the cart is empty; add_to_cart puts something into it")
	}
	for _, l := range s.cart {
		p, err := s.product(l.SKU)
		if err != nil {
			return nil, err
		}
		p.Stock -= l.Quantity
	}
	o := &order{
		ID: fmt.Sprintf("ORD-%d", 7001+len(s.orders)), Status: "accepted", Lines: s.cart, Total: total(s.cart),
		ShipTo: a.ShipTo.City + ", " + a.ShipTo.Country, Payment: a.Payment.Method,
	}
	s.orders, s.cart = append(s.orders, o), nil
	return o, nil
}

func (s *shop) track(a struct{ OrderID string }) (any, error) {
	for _, o := range s.orders {
		if o.ID == a.OrderID {
			return o, nil
		}
	}
	return nil, fmt.Errorf("orderId: there is no order %q; checkout gives the ids", a.OrderID)
}
