package workshop

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// perEuro is what one euro buys.
func perEuro() map[string]float64 {
	return map[string]float64{
		"EUR": 1, "USD": 1.08, "GBP": 0.85, "CHF": 0.95, "SEK": 11.2, "JPY": 162.5, "VND": 27_500, "CNY": 7.85, "INR": 90.1,
	}
}

// A unit measures a quantity: a value in it is value*factor+offset in the
// quantity's base unit.
type unit struct {
	quantity       string
	factor, offset float64
}

func units() map[string]unit {
	return map[string]unit{
		"mm": {"length", 0.001, 0}, "cm": {"length", 0.01, 0}, "m": {"length", 1, 0}, "km": {"length", 1000, 0},
		"in": {"length", 0.0254, 0}, "ft": {"length", 0.3048, 0}, "mi": {"length", 1609.344, 0},
		"g": {"mass", 0.001, 0}, "kg": {"mass", 1, 0}, "lb": {"mass", 0.45359237, 0}, "oz": {"mass", 0.028349523125, 0},
		"l": {"volume", 1, 0}, "ml": {"volume", 0.001, 0}, "gal": {"volume", 3.785411784, 0},
		"C": {"temperature", 1, 0}, "F": {"temperature", 5.0 / 9, -160.0 / 9}, "K": {"temperature", 1, -273.15},
	}
}

func newConvert() area {
	return area{name: "convert", about: "currencies at fixed rates, units of measure, the Chinese calendar.", tools: []tool{
		{name: "convert_currency", title: "Convert money", hints: readOnly | idempotent,
			about: "Converts an amount of money from one currency into another at the workshop's fixed rates.",
			in: `{"type":"object","properties":{"amount":{"type":"number","minimum":0},
				"from":{"type":"string","pattern":"^[A-Z]{3}$","description":"ISO 4217 code"},
				"to":{"$ref":"#/properties/from"}},"required":["amount","from","to"],"additionalProperties":false}`,
			out: `{"type":"object","properties":{"amount":{"type":"number"},"currency":{"type":"string"},"rate":{"type":"number","exclusiveMinimum":0}},"required":["amount","currency","rate"]}`,
			run: with(convertCurrency)},
		{name: "convert_unit", title: "Convert a measure", hints: readOnly | idempotent,
			about: "Converts lengths, masses, volumes and temperatures.",
			in: `{"type":"object","properties":{"value":{"type":"number"},"from":{"$ref":"#/$defs/unit"},"to":{"$ref":"#/$defs/unit"}},
				"required":["value","from","to"],
				"$defs":{"unit":{"type":"string","enum":["mm","cm","m","km","in","ft","mi","g","kg","lb","oz","l","ml","gal","C","F","K"]}}}`,
			run: with(convertUnit)},
		{name: "list_currencies", title: "Known currencies", hints: readOnly | idempotent,
			about: "Lists the currencies that can be converted, with their rate to the euro.",
			in:    `{"type":"object","properties":{},"additionalProperties":false}`,
			run:   with(func(struct{}) (any, error) { return obj{"base": "EUR", "rates": perEuro()}, nil })},
		{name: "chinese_zodiac", title: "生肖与干支查询", hints: readOnly | idempotent,
			about: "根据公历年份查询生肖和干支纪年。出生在春节之前的人属于上一年，请把 before_spring_festival 设为 true。返回生肖、天干地支和五行。",
			in: `{"type":"object","properties":{"year":{"type":"integer","minimum":1900,"maximum":2100,"description":"公历年份"},
				"before_spring_festival":{"type":"boolean","default":false,"description":"是否在当年春节之前"}},"required":["year"]}`,
			out: `{"type":"object","properties":{"生肖":{"type":"string"},"干支":{"type":"string"},"五行":{"type":"string","enum":["木","火","土","金","水"]}},"required":["生肖","干支","五行"]}`,
			run: with(chineseZodiac)},
	}}
}

func convertCurrency(a struct {
	Amount   float64
	From, To string
}) (any, error) {
	rates := perEuro()
	known := slices.Sorted(maps.Keys(rates))
	from, ok := rates[a.From]
	if !ok {
		return nil, oneOf("from", a.From, known)
	}
	to, ok := rates[a.To]
	if !ok {
		return nil, oneOf("to", a.To, known)
	}
	return obj{"amount": cents(a.Amount / from * to), "currency": a.To, "rate": to / from}, nil
}

func convertUnit(a struct {
	Value    float64
	From, To string
}) (any, error) {
	from, to := units()[a.From], units()[a.To]
	if from.quantity != to.quantity {
		var fit []string
		for name, u := range units() {
			if u.quantity == from.quantity {
				fit = append(fit, name)
			}
		}
		slices.Sort(fit)
		return nil, fmt.Errorf("to: %q is a %s and %q a %s; allowed are %s", a.To, to.quantity, a.From, from.quantity, strings.Join(fit, ", "))
	}
	v := (a.Value*from.factor + from.offset - to.offset) / to.factor
	return obj{"value": math.Round(v*1e9) / 1e9, "unit": a.To}, nil
}

// chineseZodiac names the year in the cycle of sixty that has its start in
// the year 4.
func chineseZodiac(a struct {
	Year   int
	Before bool `json:"before_spring_festival"`
}) (any, error) {
	n := a.Year - 4
	if a.Before {
		n--
	}
	stem, branch := n%10, n%12
	pick := func(s string, i int) string { return string([]rune(s)[i]) }
	return obj{
		"生肖": pick("鼠牛虎兔龙蛇马羊猴鸡狗猪", branch),
		"干支": pick("甲乙丙丁戊己庚辛壬癸", stem) + pick("子丑寅卯辰巳午未申酉戌亥", branch),
		"五行": pick("木火土金水", stem/2),
	}, nil
}
