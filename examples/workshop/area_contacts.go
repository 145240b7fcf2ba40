package workshop

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type contact struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Company string    `json:"company"`
	Emails  []address `json:"emails"`
	Phone   *string   `json:"phone"`
	Notes   string    `json:"notes"`
}

type address struct {
	Kind    string `json:"kind"`
	Address string `json:"address"`
}

type book struct {
	contacts []*contact
	last     int
}

func newContacts() area {
	b := &book{last: 10}
	for _, p := range people() {
		b.add(contact{Name: p.name, Company: "Workshop", Emails: []address{{"work", p.email()}}, Notes: p.title})
	}
	for _, s := range []struct{ name, company, email string }{
		{"Ingrid Berg", "Northwind", "ingrid.berg@northwind.example"},
		{"Jorge Álvarez", "Fabrikam", "jorge@fabrikam.example"},
		{"Jorge Alvarez", "Fabrikam", "j.alvarez@fabrikam.example"},
	} {
		b.add(contact{Name: s.name, Company: s.company, Emails: []address{{"work", s.email}}})
	}
	return area{name: "contacts", about: "the address book of colleagues and customers.", tools: b.tools()}
}

func (b *book) tools() []tool {
	const contactOut = `{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"company":{"type":"string"},
		"emails":{"type":"array","items":{"type":"object","properties":{"kind":{"type":"string"},"address":{"type":"string","format":"email"}},"required":["kind","address"]}},
		"phone":{"type":["string","null"]},"notes":{"type":"string"}},"required":["id","name","emails"]}`
	return []tool{
		{name: "find_contact", title: "Find a contact", hints: readOnly,
			about: "Looks a person up by name and returns the best match with e-mail addresses and telephone number.",
			in:    `{"type":"object","properties":{"name":{"type":"string","minLength":2}},"required":["name"]}`,
			out:   contactOut, run: with(b.findByName)},
		{name: "add_contact", title: "Add a contact", hints: additive,
			about: "Adds a person to the address book.",
			in: `{"type":"object","properties":{
				"name":{"type":"string","minLength":1},
				"company":{"type":"string","default":""},
				"emails":{"type":"array","minItems":1,"items":{"type":"object","properties":{
					"kind":{"type":"string","enum":["work","home","other"]},"address":{"type":"string","format":"email"}},
					"required":["kind","address"],"additionalProperties":false}},
				"phone":{"type":["string","null"],"nullable":true,"pattern":"^\\+[1-9][0-9]{6,14}$","description":"E.164, such as +4930123456"}},
				"required":["name","emails"],"additionalProperties":false}`,
			out: contactOut, run: with(b.create)},
		{name: "update_contact", title: "Change a contact", hints: destructive | idempotent,
			about: "Overwrites some fields of a contact. An empty text clears the field.",
			in: `{"type":"object","properties":{"contact_id":{"type":"string"},
				"fields":{"type":"object","propertyNames":{"enum":["name","company","phone","notes"]},"additionalProperties":{"type":"string"},"minProperties":1}},
				"required":["contact_id","fields"]}`,
			run: with(b.update)},
		{name: "merge_contacts", title: "Merge duplicate contacts", hints: destructive,
			about: "Moves the addresses of duplicates to the contact that is kept, and deletes the duplicates.",
			in: `{"type":"object","properties":{"keep":{"type":"string"},
				"duplicates":{"type":"array","items":{"$ref":"#/properties/keep"},"minItems":1,"uniqueItems":true}},"required":["keep","duplicates"]}`,
			run: with(b.merge)},
		{name: "contact_photo", title: "Picture of a contact", hints: readOnly,
			about: "Returns the picture of a contact as a PNG image.",
			in: `{"type":"object","properties":{"contact_id":{"type":"string"},
				"size":{"type":"integer","minimum":16,"maximum":512,"multipleOf":8,"default":64,"description":"Pixels a side."}},"required":["contact_id"]}`,
			run: with(b.photo)},
		{name: "search", title: "Search contacts", hints: readOnly,
			about: "Finds people by words of the name, the company, the addresses or the notes.",
			in:    `{"type":"object","properties":{"query":{"type":"string","minLength":1},"company":{"type":"string"}},"required":["query"]}`,
			run:   with(b.search)},
	}
}

func (b *book) add(c contact) *contact {
	b.last++
	c.ID = fmt.Sprintf("con-%d", b.last)
	b.contacts = append(b.contacts, &c)
	return &c
}

func (b *book) find(id string) (*contact, error) {
	i := slices.IndexFunc(b.contacts, func(c *contact) bool { return c.ID == id })
	if i < 0 {
		return nil, missing("contact", id, "find_contact")
	}
	return b.contacts[i], nil
}

func (b *book) findByName(a struct{ Name string }) (any, error) {
	for _, c := range b.contacts {
		if strings.EqualFold(c.Name, a.Name) {
			return c, nil
		}
	}
	for _, c := range b.contacts {
		if matches(a.Name, c.Name) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("name: nobody is called %q", a.Name)
}

func (b *book) create(a struct {
	Name, Company string
	Emails        []address
	Phone         *string
}) (any, error) {
	for i, e := range a.Emails {
		if _, err := parseEmail(fmt.Sprintf("emails[%d].address", i), e.Address); err != nil {
			return nil, err
		}
	}
	return b.add(contact{Name: a.Name, Company: a.Company, Emails: a.Emails, Phone: a.Phone}), nil
}

func (b *book) update(a struct {
	ID     string `json:"contact_id"`
	Fields map[string]string
}) (any, error) {
	c, err := b.find(a.ID)
	if err != nil {
		return nil, err
	}
	if name, ok := a.Fields["name"]; ok {
		if name == "" {
			return nil, fmt.Errorf("fields.name: the name of %s cannot be empty", c.ID)
		}
		c.Name = name
	}
	if company, ok := a.Fields["company"]; ok {
		c.Company = company
	}
	if notes, ok := a.Fields["notes"]; ok {
		c.Notes = notes
	}
	if phone, ok := a.Fields["phone"]; ok {
		c.Phone = nil
		if phone != "" {
			c.Phone = &phone
		}
	}
	return c, nil
}

func (b *book) merge(a struct {
	Keep       string
	Duplicates []string
}) (any, error) {
	keep, err := b.find(a.Keep)
	if err != nil {
		return nil, err
	}
	var gone []*contact
	for _, id := range a.Duplicates {
		c, err := b.find(id)
		if err != nil {
			return nil, err
		}
		if c == keep {
			return nil, fmt.Errorf("duplicates: %s is the contact to keep", id)
		}
		gone = append(gone, c)
	}
	for _, c := range gone {
		for _, e := range c.Emails {
			if !slices.Contains(keep.Emails, e) {
				keep.Emails = append(keep.Emails, e)
			}
		}
	}
	b.contacts = slices.DeleteFunc(b.contacts, func(c *contact) bool { return slices.Contains(gone, c) })
	return keep, nil
}

// photo draws a mirrored pattern of 8 by 8 fields that depends on the name.
func (b *book) photo(a struct {
	ID   string `json:"contact_id"`
	Size int
}) (any, error) {
	c, err := b.find(a.ID)
	if err != nil {
		return nil, err
	}
	ink := color.RGBA{uint8(number(200, c.Name, "r")), uint8(number(200, c.Name, "g")), uint8(number(200, c.Name, "b")), 255}
	img := image.NewPaletted(image.Rect(0, 0, a.Size, a.Size), color.Palette{color.White, ink})
	for y := range a.Size {
		for x := range a.Size {
			col, row := x*8/a.Size, y*8/a.Size
			col = min(col, 7-col)
			img.SetColorIndex(x, y, uint8(number(2, c.Name, fmt.Sprint(col, row))))
		}
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		return nil, fmt.Errorf("draw the picture of %s: %w", c.ID, err)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.ImageContent{Data: buf.Bytes(), MIMEType: "image/png"},
		&mcp.TextContent{Text: c.Name},
	}}, nil
}

func (b *book) search(a struct{ Query, Company string }) (any, error) {
	found := []*contact{}
	for _, c := range b.contacts {
		texts := []string{c.Name, c.Company, c.Notes}
		for _, e := range c.Emails {
			texts = append(texts, e.Address)
		}
		if matches(a.Query, texts...) && (a.Company == "" || strings.EqualFold(a.Company, c.Company)) {
			found = append(found, c)
		}
	}
	return obj{"contacts": found, "total": len(found)}, nil
}
