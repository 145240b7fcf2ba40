package workshop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

type event struct {
	ID        string   `json:"id"`
	Calendar  string   `json:"calendar"`
	Title     string   `json:"title"`
	Start     string   `json:"start"`
	End       string   `json:"end"`
	Attendees []string `json:"attendees"`
	Location  *string  `json:"location"`
	Status    string   `json:"status"`
}

type calendar struct {
	events []*event
	last   int
}

func newCalendar() area {
	c := &calendar{last: 100}
	for _, s := range []struct{ cal, title, start, minutes, who string }{
		{"team", "Weekly planning", "2026-03-02T09:00:00Z", "60m", "ada duc elif"},
		{"team", "Support hand-over", "2026-03-02T13:30:00Z", "30m", "bram ada"},
		{"personal", "Dentist", "2026-03-03T07:30:00Z", "45m", "elif"},
		{"sales", "Quarterly review with Northwind", "2026-03-04T14:00:00Z", "90m", "chiara hana farid"},
		{"team", "Design critique", "2026-03-05T10:00:00Z", "60m", "elif duc"},
		{"personal", "Parents' evening", "2026-03-06T17:00:00Z", "90m", "greta"},
	} {
		start, _ := time.Parse(time.RFC3339, s.start)
		d, _ := time.ParseDuration(s.minutes)
		var who []string
		for _, h := range strings.Fields(s.who) {
			who = append(who, h+"@workshop.example")
		}
		c.add(event{Calendar: s.cal, Title: s.title, Attendees: who}, start, d)
	}
	return area{name: "calendar", about: "team, sales and personal calendars. Look for a free slot before creating a meeting.", tools: c.tools()}
}

func (c *calendar) tools() []tool {
	const eventOut = `{"type":"object","properties":{
		"id":{"type":"string"},"calendar":{"type":"string"},"title":{"type":"string"},
		"start":{"type":"string","format":"date-time"},"end":{"type":"string","format":"date-time"},
		"attendees":{"type":"array","items":{"type":"string","format":"email"}},
		"location":{"type":["string","null"]},"status":{"type":"string","enum":["confirmed","cancelled"]}},
		"required":["id","calendar","title","start","end","status"]}`
	const eventsOut = `{"type":"object","properties":{"events":{"type":"array","items":{"$ref":"#/$defs/event"}},"total":{"type":"integer"}},
		"required":["events","total"],"$defs":{"event":` + eventOut + `}}`
	return []tool{
		{name: "list-events", title: "List events", hints: readOnly,
			about: "Lists the events of one or several calendars between two days, earliest first.",
			in: `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{
				"calendar":{"description":"One calendar name or several; all if left out.","anyOf":[
					{"type":"string","pattern":"^[a-z]{1,32}$"},
					{"type":"array","items":{"type":"string","pattern":"^[a-z]{1,32}$"},"minItems":1,"maxItems":5}]},
				"from":{"type":"string","format":"date","default":"2026-03-02","description":"First day, inclusive."},
				"to":{"type":"string","format":"date","default":"2026-03-31","description":"Last day, inclusive."},
				"max":{"type":"integer","minimum":1,"maximum":100,"default":20}},
				"additionalProperties":false}`,
			out: eventsOut, run: with(c.list)},
		{name: "create-event", title: "Create an event", hints: additive,
			about: "Puts a meeting or appointment into a calendar, with attendees, a place and an optional repetition. A repeated event becomes one event for each occurrence.",
			in: `{"type":"object","properties":{
				"title":{"type":"string","minLength":1,"maxLength":200},
				"start":{"type":"string","format":"date-time","description":"RFC 3339, for example 2026-03-04T10:00:00Z"},
				"end":{"type":"string","format":"date-time"},
				"calendar":{"type":"string","enum":["team","sales","personal"],"default":"team"},
				"attendees":{"type":"array","items":{"type":"string","format":"email"},"uniqueItems":true,"default":[]},
				"location":{"anyOf":[{"type":"string","minLength":1},{"type":"null"}],"default":null},
				"recurrence":{"$ref":"#/$defs/recurrence"}},
				"required":["title","start","end"],"additionalProperties":false,
				"$defs":{"recurrence":{"type":"object","description":"How the event repeats.","properties":{
					"freq":{"type":"string","enum":["daily","weekly"]},
					"count":{"type":"integer","minimum":2,"maximum":52}},"required":["freq","count"],"additionalProperties":false}}}`,
			out: eventsOut, run: with(c.create)},
		{name: "move-event", title: "Move an event", hints: destructive,
			about: "Gives an event another time and keeps its length. Say either the new start or by how many minutes to shift it.",
			in: `{"type":"object","properties":{
				"id":{"type":"string","pattern":"^evt-[0-9]+$"},
				"start":{"type":"string","format":"date-time"},
				"by-minutes":{"type":"integer","not":{"const":0}}},
				"required":["id"],"oneOf":[{"required":["start"]},{"required":["by-minutes"]}],"additionalProperties":false}`,
			run: with(c.move)},
		{name: "cancel-event", title: "Cancel an event", hints: destructive | idempotent,
			about: "Calls an event off. The event stays visible as cancelled.",
			in: `{"type":"object","properties":{"id":{"type":"string","pattern":"^evt-[0-9]+$"},
				"reason":{"type":["string","null"],"description":"Told to the attendees."}},"required":["id"]}`,
			run: with(c.cancel)},
		{name: "find-free-slot", title: "Find a free slot", hints: readOnly | oldTitle,
			about: "Finds the first time of a working day (09:00 to 17:00 UTC) at which all the named people are free.",
			in: `{"type":"object","properties":{
				"attendees":{"type":"array","items":{"type":"string","format":"email"},"minItems":1},
				"day":{"type":"string","format":"date"},
				"minutes":{"type":"integer","enum":[15,30,45,60,90,120]}},"required":["attendees","day","minutes"]}`,
			out: `{"type":"object","properties":{"found":{"type":"boolean"},"start":{"type":"string"},"end":{"type":"string"}},"required":["found"]}`,
			run: with(c.freeSlot)},
		{name: "search", title: "Search the calendars", hints: readOnly,
			about: "Finds events by words of the title, the place or the attendees.",
			in:    `{"type":"object","properties":{"query":{"type":"string","minLength":1}},"required":["query"]}`,
			out:   eventsOut, run: with(c.search)},
	}
}

func (c *calendar) add(e event, start time.Time, length time.Duration) *event {
	c.last++
	e.ID, e.Status = fmt.Sprintf("evt-%d", c.last), "confirmed"
	e.Start, e.End = stamp(start), stamp(start.Add(length))
	if e.Attendees == nil {
		e.Attendees = []string{}
	}
	c.events = append(c.events, &e)
	return &e
}

func (c *calendar) find(id string) (*event, error) {
	i := slices.IndexFunc(c.events, func(e *event) bool { return e.ID == id })
	if i < 0 {
		return nil, missing("event", id, "list-events")
	}
	return c.events[i], nil
}

func (c *calendar) list(a struct {
	Calendar any
	From, To string
	Max      int
}) (any, error) {
	if _, err := parseDay("from", a.From); err != nil {
		return nil, err
	}
	if _, err := parseDay("to", a.To); err != nil {
		return nil, err
	}
	if a.To < a.From {
		return nil, fmt.Errorf("to: %s is before from (%s)", a.To, a.From)
	}
	wanted := func(name string) bool {
		switch v := a.Calendar.(type) {
		case string:
			return v == name
		case []any:
			return slices.Contains(v, any(name))
		}
		return true
	}
	var found []*event
	for _, e := range c.events {
		if day := e.Start[:len(today)]; wanted(e.Calendar) && day >= a.From && day <= a.To {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(x, y *event) int { return strings.Compare(x.Start, y.Start) })
	events, total := page(found, a.Max)
	return obj{"events": events, "total": total}, nil
}

func (c *calendar) create(a struct {
	event
	Recurrence *struct {
		Freq  string
		Count int
	}
}) (any, error) {
	start, err := parseStamp("start", a.Start)
	if err != nil {
		return nil, err
	}
	end, err := parseStamp("end", a.End)
	if err != nil {
		return nil, err
	}
	if !end.After(start) {
		return nil, fmt.Errorf("end: %s is not after start (%s)", a.End, a.Start)
	}
	for i, who := range a.Attendees {
		if _, err := parseEmail(fmt.Sprintf("attendees[%d]", i), who); err != nil {
			return nil, err
		}
	}
	count, days := 1, 1
	if r := a.Recurrence; r != nil {
		count = r.Count
		if r.Freq == "weekly" {
			days = 7
		}
	}
	var made []*event
	for i := range count {
		made = append(made, c.add(a.event, start.AddDate(0, 0, i*days), end.Sub(start)))
	}
	return obj{"events": made, "total": count}, nil
}

func (c *calendar) move(a struct {
	ID, Start string
	ByMinutes int `json:"by-minutes"`
}) (any, error) {
	e, err := c.find(a.ID)
	if err != nil {
		return nil, err
	}
	if e.Status == "cancelled" {
		return nil, fmt.Errorf("event %s is cancelled and cannot be moved", e.ID)
	}
	start, _ := parseStamp("start", e.Start)
	end, _ := parseStamp("end", e.End)
	length := end.Sub(start)
	start = start.Add(time.Duration(a.ByMinutes) * time.Minute)
	if a.Start != "" {
		if start, err = parseStamp("start", a.Start); err != nil {
			return nil, err
		}
	}
	e.Start, e.End = stamp(start), stamp(start.Add(length))
	return e, nil
}

func (c *calendar) cancel(a struct {
	ID     string
	Reason *string
}) (any, error) {
	e, err := c.find(a.ID)
	if err != nil {
		return nil, err
	}
	e.Status = "cancelled"
	text := fmt.Sprintf("Cancelled %q.", e.Title)
	if a.Reason != nil {
		text += " Told the attendees: " + *a.Reason
	}
	return text, nil
}

func (c *calendar) freeSlot(a struct {
	Attendees []string
	Day       string
	Minutes   int
}) (any, error) {
	day, err := parseDay("day", a.Day)
	if err != nil {
		return nil, err
	}
	if wd := day.Weekday(); wd == time.Saturday || wd == time.Sunday {
		return nil, errors.New("day: " + a.Day + " is no working day; allowed are Monday to Friday")
	}
	length := time.Duration(a.Minutes) * time.Minute
	closing := day.Add(17 * time.Hour)
	for start := day.Add(9 * time.Hour); !start.Add(length).After(closing); start = start.Add(15 * time.Minute) {
		if from, to := stamp(start), stamp(start.Add(length)); !c.busy(a.Attendees, from, to) {
			return obj{"found": true, "start": from, "end": to}, nil
		}
	}
	return obj{"found": false}, nil
}

func (c *calendar) busy(who []string, from, to string) bool {
	return slices.ContainsFunc(c.events, func(e *event) bool {
		return e.Status == "confirmed" && e.Start < to && from < e.End &&
			slices.ContainsFunc(e.Attendees, func(w string) bool { return slices.Contains(who, w) })
	})
}

func (c *calendar) search(a struct{ Query string }) (any, error) {
	found := []*event{}
	for _, e := range c.events {
		place := ""
		if e.Location != nil {
			place = *e.Location
		}
		if matches(a.Query, e.Title, place, strings.Join(e.Attendees, " ")) {
			found = append(found, e)
		}
	}
	return obj{"events": found, "total": len(found)}, nil
}
