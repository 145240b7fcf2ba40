package platform

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"
	_ "time/tzdata" // zones also where the system has none

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func tools() []tool {
	return []tool{
		define(contracts.Tool{
			Name: "date_add", Title: "Add to a date",
			Description: "Adds years, months, weeks, days, hours, minutes and seconds, each positive or negative, to a date or a point in time. " +
				"The 31st plus a month is the last day of a shorter month.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{
				"date":{"type":"string","description":"A date such as 2026-02-28, or a point in time in RFC 3339 such as 2026-02-28T09:30:00+01:00."},
				"years":{"type":"integer"},"months":{"type":"integer"},"weeks":{"type":"integer"},"days":{"type":"integer"},
				"hours":{"type":"integer"},"minutes":{"type":"integer"},"seconds":{"type":"integer"},
				"timezone":{"type":"string","description":"IANA name of the zone to count and answer in, such as Europe/Berlin. Default: that of date, UTC for a mere date."}
				},"required":["date"],"additionalProperties":false}`),
			OutputSchema: json.RawMessage(moment),
		}, true, dateAdd),
		define(contracts.Tool{
			Name: "now", Title: "Current date and time",
			Description: "Tells the current date and time.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{
				"timezone":{"type":"string","description":"IANA name of the time zone, such as Europe/Berlin. Default UTC."}},"additionalProperties":false}`),
			OutputSchema: json.RawMessage(moment),
		}, false, now),
		define(contracts.Tool{
			Name: "uuid", Title: "Make UUIDs",
			Description: "Makes universally unique identifiers: random ones (version 4) or ones that sort by time (version 7).",
			InputSchema: json.RawMessage(`{"type":"object","properties":{
				"version":{"type":"integer","enum":[4,7],"description":"Default 4."},
				"count":{"type":"integer","minimum":1,"maximum":100,"description":"How many. Default 1."}},"additionalProperties":false}`),
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"uuids":{"type":"array","items":{"type":"string"}}},"required":["uuids"]}`),
		}, false, uuids),
		define(contracts.Tool{
			Name: "wait", Title: "Wait",
			Description: "Waits for a number of seconds, 60 at most, and then answers.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{
				"seconds":{"type":"number","minimum":0,"maximum":60}},"required":["seconds"],"additionalProperties":false}`),
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"waited":{"type":"number","description":"Seconds."}},"required":["waited"]}`),
		}, true, wait),
	}
}

// moment is the schema of a point in time.
const moment = `{"type":"object","properties":{
	"iso":{"type":"string","description":"The point in time in RFC 3339."},
	"date":{"type":"string"},"time":{"type":"string"},"weekday":{"type":"string"},
	"timezone":{"type":"string"},"unix":{"type":"integer","description":"Seconds since 1970."}},
	"required":["iso","date","time","weekday","timezone","unix"]}`

func momentOf(t time.Time) map[string]any {
	zone := t.Location().String()
	if zone == "" { // an offset without a name
		zone = t.Format("-07:00")
	}
	return map[string]any{
		"iso": t.Format(time.RFC3339), "date": t.Format(time.DateOnly), "time": t.Format(time.TimeOnly),
		"weekday": t.Weekday().String(), "timezone": zone, "unix": t.Unix(),
	}
}

// zone returns the named zone, and fallback for "".
func zone(name string, fallback *time.Location) (*time.Location, error) {
	if name == "" {
		return fallback, nil
	}
	l, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("timezone: %q is not known; want an IANA name such as Europe/Berlin", name)
	}
	return l, nil
}

func now(_ context.Context, a struct {
	Timezone string `json:"timezone"`
}) (any, error) {
	l, err := zone(a.Timezone, time.UTC)
	if err != nil {
		return nil, err
	}
	return momentOf(time.Now().In(l)), nil
}

type dateAddArgs struct {
	Date     string `json:"date"`
	Years    int    `json:"years"`
	Months   int    `json:"months"`
	Weeks    int    `json:"weeks"`
	Days     int    `json:"days"`
	Hours    int    `json:"hours"`
	Minutes  int    `json:"minutes"`
	Seconds  int    `json:"seconds"`
	Timezone string `json:"timezone"`
}

func dateAdd(_ context.Context, a dateAddArgs) (any, error) {
	l, err := zone(a.Timezone, time.UTC)
	if err != nil {
		return nil, err
	}
	t, err := time.ParseInLocation(time.DateOnly, a.Date, l)
	if err != nil {
		if t, err = time.ParseInLocation(time.RFC3339, a.Date, time.UTC); err != nil {
			return nil, fmt.Errorf("date: %q is neither a date such as 2026-02-28 nor a point in time such as 2026-02-28T09:30:00Z", a.Date)
		}
		if a.Timezone != "" {
			t = t.In(l)
		}
	}
	const most = 1_000_000_000 // far beyond any use, and far from overflow
	for name, n := range map[string]int{
		"years": a.Years, "months": a.Months, "weeks": a.Weeks, "days": a.Days, "hours": a.Hours, "minutes": a.Minutes, "seconds": a.Seconds,
	} {
		if n < -most || n > most {
			return nil, fmt.Errorf("%s: %d; want -%d to %[3]d", name, n, most)
		}
	}
	t = addMonths(t, 12*a.Years+a.Months).AddDate(0, 0, 7*a.Weeks+a.Days)
	seconds := 3600*int64(a.Hours) + 60*int64(a.Minutes) + int64(a.Seconds)
	t = time.Unix(t.Unix()+seconds, int64(t.Nanosecond())).In(t.Location())
	if y := t.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("the result is in the year %d; want 0 to 9999", y)
	}
	return momentOf(t), nil
}

// addMonths adds months and stays in the month it comes to, where that is shorter.
func addMonths(t time.Time, n int) time.Time {
	first := time.Date(t.Year(), t.Month(), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location()).AddDate(0, n, 0)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), last)-1)
}

func uuids(_ context.Context, a struct {
	Version int  `json:"version"`
	Count   *int `json:"count"`
}) (any, error) {
	n := 1
	if a.Count != nil {
		n = *a.Count
	}
	if n < 1 || n > 100 {
		return nil, fmt.Errorf("count: %d; want 1 to 100", n)
	}
	if a.Version != 0 && a.Version != 4 && a.Version != 7 {
		return nil, fmt.Errorf("version: %d; want 4 or 7", a.Version)
	}
	out := make([]string, n)
	for i := range out {
		out[i] = uuid(a.Version)
	}
	return map[string][]string{"uuids": out}, nil
}

func uuid(version int) string {
	var b [16]byte
	rand.Read(b[:])
	if version == 7 {
		ms := time.Now().UnixMilli()
		for i := range 6 {
			b[i] = byte(ms >> (40 - 8*i))
		}
	} else {
		version = 4
	}
	b[6] = b[6]&0x0f | byte(version)<<4
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
