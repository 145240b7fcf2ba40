package workshop

import (
	"fmt"
	"slices"
	"strings"
)

type account struct {
	ID       string  `json:"accountId"`
	Name     string  `json:"name"`
	Industry string  `json:"industry"`
	Country  string  `json:"country"`
	Seats    float64 `json:"seats"`
}

type deal struct {
	ID        string   `json:"dealId"`
	AccountID string   `json:"accountId"`
	Title     string   `json:"title"`
	Stage     string   `json:"stage"`
	Amount    *float64 `json:"amount"`
	CloseDate *string  `json:"closeDate"`
}

type crm struct {
	accounts   []account
	deals      []*deal
	leads      int
	activities []obj
}

func newCRM() area {
	amount := func(x float64) *float64 { return &x }
	closing := "2026-03-31"
	c := &crm{
		accounts: []account{
			{"acc-1", "Northwind", "logistics", "NO", 40}, {"acc-2", "Fabrikam", "manufacturing", "ES", 220},
			{"acc-3", "Contoso Bank", "finance", "DE", 1500}, {"acc-4", "Sông Hồng Foods", "food", "VN", 65},
		},
		deals: []*deal{
			{"deal-11", "acc-1", "40 seats, yearly", "proposal", amount(9600), &closing},
			{"deal-12", "acc-3", "Pilot for the back office", "qualified", amount(48_000), nil},
			{"deal-13", "acc-2", "Extension", "won", amount(26_400), nil},
		},
	}
	return area{name: "crm", about: "customers, deals and the sales pipeline.", tools: c.tools()}
}

func (c *crm) tools() []tool {
	const dealOut = `{"type":"object","properties":{"dealId":{"type":"string"},"accountId":{"type":"string"},"title":{"type":"string"},"stage":{"type":"string"},
		"amount":{"type":["number","null"]},"closeDate":{"type":["string","null"],"format":"date"}},"required":["dealId","accountId","stage","amount"]}`
	return []tool{
		{name: "crm.findAccounts", title: "Find customers", hints: readOnly,
			about: "Finds customer accounts with a filter that can be nested: all, any, or a comparison of one field.",
			in: `{"type":"object","properties":{"filter":{"$ref":"#/$defs/filter"},"limit":{"type":"integer","minimum":1,"maximum":100,"default":10}},
				"$defs":{"filter":{"oneOf":[
					{"type":"object","properties":{"all":{"type":"array","items":{"$ref":"#/$defs/filter"},"minItems":1}},"required":["all"],"additionalProperties":false},
					{"type":"object","properties":{"any":{"type":"array","items":{"$ref":"#/$defs/filter"},"minItems":1}},"required":["any"],"additionalProperties":false},
					{"type":"object","properties":{"field":{"type":"string","enum":["name","industry","country","seats"]},"op":{"type":"string","enum":["eq","contains","gte","lte"]},
						"value":{"type":["string","number"]}},"required":["field","op","value"],"additionalProperties":false}]}}}`,
			out: `{"type":"object","properties":{"accounts":{"type":"array","items":{"type":"object","properties":{"accountId":{"type":"string"},"name":{"type":"string"}},"required":["accountId","name"]}},
				"total":{"type":"integer"}},"required":["accounts","total"]}`,
			run: with(c.findAccounts)},
		{name: "crm.createLead", title: "Create a lead",
			about: "Records somebody who may become a customer.",
			in: `{"type":"object","properties":{"person":{"type":"string","minLength":1},"email":{"type":"string","format":"email"},
				"source":{"enum":["web","fair","referral",null],"default":null},
				"score":{"type":"number","minimum":0,"maximum":1},
				"custom":{"type":"object","additionalProperties":{"type":["string","number","boolean"]},"maxProperties":20}},"required":["person","email"]}`,
			run: with(c.createLead)},
		{name: "crm.updateDeal", title: "Change a deal", hints: destructive | idempotent,
			about: "Changes stage, amount or closing date of a deal. null clears amount or date.",
			in: `{"type":"object","properties":{"dealId":{"type":"string"},
				"patch":{"allOf":[{"$ref":"#/$defs/stagePatch"},{"type":"object","properties":{
					"amount":{"anyOf":[{"type":"number","minimum":0},{"type":"null"}]},"closeDate":{"anyOf":[{"type":"string","format":"date"},{"type":"null"}]}}}]}},
				"required":["dealId","patch"],
				"$defs":{"stagePatch":{"type":"object","properties":{"stage":{"type":"string","enum":["lead","qualified","proposal","won","lost"]}}}}}`,
			out: dealOut, run: with(c.updateDeal)},
		{name: "crm.logActivity", title: "Log an activity", hints: additive,
			about: "Records a call, a meeting or an e-mail with a customer.",
			in: `{"type":"object","properties":{"accountId":{"type":"string"},
				"activity":{"oneOf":[
					{"type":"object","properties":{"type":{"type":"string","const":"call"},"minutes":{"type":"integer","minimum":1}},"required":["type","minutes"]},
					{"type":"object","properties":{"type":{"type":"string","const":"meeting"},"participants":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["type","participants"]},
					{"type":"object","properties":{"type":{"type":"string","const":"email"},"subject":{"type":"string"}},"required":["type","subject"]}]}},
				"required":["accountId","activity"]}`,
			run: with(c.logActivity)},
		{name: "crm.pipelineSummary", title: "Pipeline summary", hints: readOnly,
			about: "Sums the deals of each stage up.",
			in:    `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{}}`,
			out: `{"type":"object","properties":{"stages":{"type":"object","additionalProperties":{"type":"object","properties":{"deals":{"type":"integer"},"amount":{"type":"number"}},
				"required":["deals","amount"]}},"activities":{"type":"integer"}},"required":["stages"]}`,
			run: with(c.summary)},
	}
}

// filter is a tree; exactly one of All, Any and Field is set.
type filter struct {
	All, Any  []filter
	Field, Op string
	Value     any
}

func (f filter) keeps(a account) (bool, error) {
	switch {
	case f.Any != nil:
		return anyKeeps(f.Any, a)
	case f.Field != "":
		return f.compare(a)
	}
	for _, g := range f.All {
		if ok, err := g.keeps(a); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func anyKeeps(fs []filter, a account) (bool, error) {
	for _, g := range fs {
		if ok, err := g.keeps(a); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (f filter) compare(a account) (bool, error) {
	if f.Field == "seats" {
		want, ok := f.Value.(float64)
		if !ok || f.Op == "contains" {
			return false, fmt.Errorf("filter: seats is a number; allowed are eq, gte and lte with a number, not %s with %v", f.Op, f.Value)
		}
		return f.Op == "eq" && a.Seats == want || f.Op == "gte" && a.Seats >= want || f.Op == "lte" && a.Seats <= want, nil
	}
	want, ok := f.Value.(string)
	if !ok || f.Op == "gte" || f.Op == "lte" {
		return false, fmt.Errorf("filter: %s is a text; allowed are eq and contains with a text, not %s with %v", f.Field, f.Op, f.Value)
	}
	got := map[string]string{"name": a.Name, "industry": a.Industry, "country": a.Country}[f.Field]
	if f.Op == "eq" {
		return strings.EqualFold(got, want), nil
	}
	return matches(want, got), nil
}

func (c *crm) findAccounts(a struct {
	Filter filter
	Limit  int
}) (any, error) {
	var found []account
	for _, acc := range c.accounts {
		ok, err := a.Filter.keeps(acc)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, acc)
		}
	}
	accounts, total := page(found, a.Limit)
	return obj{"accounts": accounts, "total": total}, nil
}

func (c *crm) createLead(a struct{ Person, Email string }) (any, error) {
	if _, err := parseEmail("email", a.Email); err != nil {
		return nil, err
	}
	c.leads++
	owner := []string{"chiara", "hana"}[c.leads%2]
	return obj{"leadId": fmt.Sprintf("lead-%d", c.leads), "owner": owner}, nil
}

func (c *crm) updateDeal(a struct {
	DealID string
	Patch  map[string]any
}) (any, error) {
	i := slices.IndexFunc(c.deals, func(d *deal) bool { return d.ID == a.DealID })
	if i < 0 {
		return nil, fmt.Errorf("dealId: there is no deal %q", a.DealID)
	}
	d := *c.deals[i]
	if v, ok := a.Patch["stage"].(string); ok {
		d.Stage = v
	}
	if v, given := a.Patch["amount"]; given {
		d.Amount = nil
		if n, ok := v.(float64); ok {
			d.Amount = &n
		}
	}
	if v, given := a.Patch["closeDate"]; given {
		d.CloseDate = nil
		if s, ok := v.(string); ok {
			if _, err := parseDay("patch.closeDate", s); err != nil {
				return nil, err
			}
			d.CloseDate = &s
		}
	}
	*c.deals[i] = d
	return d, nil
}

func (c *crm) logActivity(a struct {
	AccountID string
	Activity  obj
}) (any, error) {
	i := slices.IndexFunc(c.accounts, func(acc account) bool { return acc.ID == a.AccountID })
	if i < 0 {
		return nil, missing("account", a.AccountID, "crm.findAccounts")
	}
	c.activities = append(c.activities, a.Activity)
	return obj{"activityId": fmt.Sprintf("act-%d", len(c.activities)), "account": c.accounts[i].Name, "type": a.Activity["type"]}, nil
}

func (c *crm) summary(struct{}) (any, error) {
	type sum struct {
		Deals  int     `json:"deals"`
		Amount float64 `json:"amount"`
	}
	stages := map[string]sum{}
	for _, d := range c.deals {
		s := stages[d.Stage]
		s.Deals++
		if d.Amount != nil {
			s.Amount += *d.Amount
		}
		stages[d.Stage] = s
	}
	return obj{"stages": stages, "activities": len(c.activities)}, nil
}
