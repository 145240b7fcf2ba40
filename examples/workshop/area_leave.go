package workshop

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

type leaveRequest struct {
	ID       string `json:"id"`
	Employee string `json:"employee"`
	From     string `json:"from"`
	To       string `json:"to"`
	Days     int    `json:"days"`
	Status   string `json:"status"`
	Note     string `json:"note,omitempty"`
}

type leaveOffice struct {
	requests []*leaveRequest
	left     map[string]int // days left this year, by handle
}

func newLeave() area {
	l := &leaveOffice{left: map[string]int{}}
	for _, p := range people() {
		l.left[p.handle] = p.leave
	}
	l.requests = []*leaveRequest{{ID: "leave-81", Employee: "duc", From: "2026-03-16", To: "2026-03-20", Days: 5, Status: "pending"}}
	return area{name: "leave", about: "people, their leave and its approval.", tools: l.tools()}
}

func (l *leaveOffice) tools() []tool {
	const requestOut = `{"type":"object","properties":{"id":{"type":"string"},"employee":{"type":"string"},"from":{"type":"string","format":"date"},"to":{"type":"string","format":"date"},
		"days":{"type":"integer"},"status":{"type":"string","enum":["pending","approved","rejected"]},"note":{"type":"string"}},"required":["id","employee","days","status"]}`
	return []tool{
		{name: "list-employees", title: "List colleagues", hints: readOnly,
			about: "Lists the people of the workshop with their role and team.",
			in:    `{"type":"object","properties":{"team":{"type":"string","enum":["engineering","support","sales","finance","people"]}},"required":[]}`,
			run:   with(listEmployees)},
		{name: "leave-balance", title: "Leave balance", hints: readOnly,
			about: "Tells how many days of leave somebody has left this year.",
			in:    `{"type":"object","properties":{"employee":{"type":"string","description":"Handle, such as duc"}},"required":["employee"]}`,
			run:   with(l.balance)},
		{name: "request-leave", title: "Ask for leave", hints: additive,
			about: "Files a request for annual leave. Weekends do not count; the request waits for a decision.",
			in: `{"type":"object","properties":{"employee":{"type":"string"},"from":{"type":"string","format":"date"},"to":{"type":"string","format":"date"},
				"note":{"type":"string","maxLength":500}},"required":["employee","from","to"],"additionalProperties":false}`,
			out: requestOut, run: with(l.request)},
		{name: "decide-leave", title: "Approve or reject leave", hints: destructive,
			about: "Decides a pending request. Approved days are taken from the balance.",
			in: `{"type":"object","properties":{"id":{"type":"string"},
				"decision":{"oneOf":[{"const":"approved","title":"Approve"},{"const":"rejected","title":"Reject"}]},
				"note":{"type":["string","null"]}},"required":["id","decision"]}`,
			run: with(l.decide)},
		{name: "berechne-urlaubstage", title: "Urlaubstage berechnen", hints: readOnly | idempotent,
			about: "Berechnet, wie viele Urlaubstage ein Zeitraum kostet. Samstage, Sonntage und die gesetzlichen Feiertage des gewählten Bundeslandes zählen nicht mit; die Feiertage werden aufgeführt.",
			in: `{"type":"object","properties":{"von":{"type":"string","format":"date","description":"Erster Urlaubstag"},
				"bis":{"type":"string","format":"date","description":"Letzter Urlaubstag"},
				"bundesland":{"type":"string","enum":["BE","BY","HH","NW"],"default":"BE"}},"required":["von","bis"],"additionalProperties":false}`,
			out: `{"type":"object","properties":{"urlaubstage":{"type":"integer","minimum":0},"feiertage":{"type":"array","items":{"type":"object","properties":{
				"datum":{"type":"string","format":"date"},"name":{"type":"string"}},"required":["datum","name"]}}},"required":["urlaubstage","feiertage"]}`,
			run: with(germanLeave)},
	}
}

func listEmployees(a struct{ Team string }) (any, error) {
	found := []obj{}
	for _, p := range people() {
		if a.Team == "" || a.Team == p.team {
			found = append(found, obj{"handle": p.handle, "name": p.name, "role": p.title, "team": p.team, "email": p.email()})
		}
	}
	return obj{"employees": found}, nil
}

func (l *leaveOffice) pending(handle string) int {
	n := 0
	for _, r := range l.requests {
		if r.Employee == handle && r.Status == "pending" {
			n += r.Days
		}
	}
	return n
}

func (l *leaveOffice) balance(a struct{ Employee string }) (any, error) {
	p, err := personByHandle("employee", a.Employee)
	if err != nil {
		return nil, err
	}
	return obj{"employee": p.handle, "daysLeft": l.left[p.handle], "pending": l.pending(p.handle)}, nil
}

// workdays calls f for each Monday to Friday of a period of at most a year.
func workdays(fromField, from, toField, to string, f func(time.Time)) error {
	first, err := parseDay(fromField, from)
	if err != nil {
		return err
	}
	last, err := parseDay(toField, to)
	if err != nil {
		return err
	}
	if last.Before(first) || last.After(first.AddDate(1, 0, 0)) {
		return fmt.Errorf("%s: %s must be from %s to a year later", toField, to, from)
	}
	for d := first; !d.After(last); d = d.AddDate(0, 0, 1) {
		if wd := d.Weekday(); wd != time.Saturday && wd != time.Sunday {
			f(d)
		}
	}
	return nil
}

func (l *leaveOffice) request(a struct{ Employee, From, To, Note string }) (any, error) {
	p, err := personByHandle("employee", a.Employee)
	if err != nil {
		return nil, err
	}
	days := 0
	if err := workdays("from", a.From, "to", a.To, func(time.Time) { days++ }); err != nil {
		return nil, err
	}
	if free := l.left[p.handle] - l.pending(p.handle); days == 0 || days > free {
		return nil, fmt.Errorf("to: the period has %d working days; allowed are 1 to %d for %s", days, free, p.handle)
	}
	r := &leaveRequest{ID: fmt.Sprintf("leave-%d", 81+len(l.requests)), Employee: p.handle, From: a.From, To: a.To, Days: days, Status: "pending", Note: a.Note}
	l.requests = append(l.requests, r)
	return r, nil
}

func (l *leaveOffice) decide(a struct {
	ID, Decision string
	Note         *string
}) (any, error) {
	i := slices.IndexFunc(l.requests, func(r *leaveRequest) bool { return r.ID == a.ID })
	if i < 0 {
		return nil, fmt.Errorf("id: there is no leave request %q; request-leave gives the ids", a.ID)
	}
	r := l.requests[i]
	if r.Status != "pending" {
		return nil, fmt.Errorf("request %s is already %s", r.ID, r.Status)
	}
	r.Status = a.Decision
	if a.Note != nil {
		r.Note = *a.Note
	}
	if a.Decision == "approved" {
		l.left[r.Employee] -= r.Days
	}
	return r, nil
}

func germanLeave(a struct{ Von, Bis, Bundesland string }) (any, error) {
	days, holidays := 0, []obj{}
	err := workdays("von", a.Von, "bis", a.Bis, func(d time.Time) {
		if name := germanHoliday(d, a.Bundesland); name != "" {
			holidays = append(holidays, obj{"datum": d.Format(time.DateOnly), "name": name})
			return
		}
		days++
	})
	if err != nil {
		return nil, err
	}
	return obj{"urlaubstage": days, "feiertage": holidays}, nil
}

// germanHoliday names the public holiday of a day, or nothing.
func germanHoliday(d time.Time, state string) string {
	in := func(states string) bool { return strings.Contains(states, state) }
	switch d.Format("01-02") {
	case "01-01":
		return "Neujahr"
	case "05-01":
		return "Tag der Arbeit"
	case "10-03":
		return "Tag der Deutschen Einheit"
	case "12-25", "12-26":
		return "Weihnachten"
	}
	easter := easterSunday(d.Year())
	switch int(d.Sub(easter).Hours() / 24) {
	case -2:
		return "Karfreitag"
	case 1:
		return "Ostermontag"
	case 39:
		return "Christi Himmelfahrt"
	case 50:
		return "Pfingstmontag"
	}
	switch day := d.Format("01-02"); {
	case day == "03-08" && in("BE"):
		return "Frauentag"
	case day == "01-06" && in("BY"):
		return "Heilige Drei Könige"
	case day == "10-31" && in("HH"):
		return "Reformationstag"
	case day == "11-01" && in("BY NW"):
		return "Allerheiligen"
	case d.Equal(easter.AddDate(0, 0, 60)) && in("BY NW"):
		return "Fronleichnam"
	}
	return ""
}

// easterSunday is Butcher's computation for the Gregorian calendar.
func easterSunday(year int) time.Time {
	a, b, c := year%19, year/100, year%100
	h := (19*a + b - b/4 - (b-(b+8)/25+1)/3 + 15) % 30
	l := (32 + 2*(b%4) + 2*(c/4) - h - c%4) % 7
	m := (a + 11*h + 22*l) / 451
	n := h + l - 7*m + 114
	return time.Date(year, time.Month(n/31), n%31+1, 0, 0, 0, 0, time.UTC)
}
