package workshop

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// A town has fixture weather: it depends on nothing but its name and the day.
type town struct {
	name     string
	lat, lon float64
	mean     float64 // degrees Celsius in March
}

func towns() []town {
	return []town{
		{"Berlin", 52.52, 13.40, 5}, {"Hanoi", 21.03, 105.85, 20}, {"Lund", 55.70, 13.19, 2}, {"Nairobi", -1.29, 36.82, 20},
		{"Osaka", 34.69, 135.50, 9}, {"Porto", 41.15, -8.61, 12}, {"São Paulo", -23.55, -46.63, 23}, {"Toronto", 43.65, -79.38, -1},
	}
}

func newWeather() area {
	return area{name: "weather", about: "forecasts for eight towns.", tools: weatherTools()}
}

func weatherTools() []tool {
	const dayOut = `{"type":"object","properties":{"date":{"type":"string","format":"date"},"condition":{"type":"string"},
		"high":{"type":"number"},"low":{"type":"number"},"rainMm":{"type":"number","minimum":0}},"required":["date","condition","high","low"]}`
	return []tool{
		{name: "currentWeather", title: "Current weather", hints: readOnly | openWorld,
			about: "Tells temperature, sky and rain at a place, given by the name of the town or by coordinates.",
			in: `{"type":"object","properties":{
				"location":{"oneOf":[
					{"type":"object","properties":{"city":{"type":"string","minLength":2}},"required":["city"],"additionalProperties":false},
					{"type":"object","properties":{"latitude":{"type":"number","minimum":-90,"maximum":90},"longitude":{"type":"number","minimum":-180,"maximum":180}},
						"required":["latitude","longitude"],"additionalProperties":false}]},
				"units":{"type":"string","enum":["metric","imperial"],"default":"metric"}},"required":["location"]}`,
			out: `{"type":"object","properties":{"city":{"type":"string"},"temperature":{"type":"number"},"unit":{"enum":["°C","°F"]},"condition":{"type":"string"}},"required":["city","temperature","unit","condition"]}`,
			run: with(currentWeather)},
		{name: "forecast", title: "Forecast", hints: readOnly | openWorld,
			about: "Forecasts the next days for a town.",
			in:    `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":14,"default":3}},"required":["city"]}`,
			out:   `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"array","items":` + dayOut + `}},"required":["city","days"]}`,
			run:   with(forecast)},
		{name: "compareCities", title: "Compare towns", hints: readOnly | openWorld,
			about: "Ranks towns by warmth or rain today.",
			in: `{"type":"object","properties":{"cities":{"type":"array","items":{"type":"string"},"minItems":2,"maxItems":5,"uniqueItems":true},
				"by":{"type":"string","enum":["warmest","driest"],"default":"warmest"}},"required":["cities"]}`,
			run: with(compareCities)},
		{name: "airQuality", title: "Air quality", hints: readOnly | openWorld | oldTitle,
			about: "Air quality index of a town with advice, as text.",
			in: `{"type":"object","properties":{"city":{"type":"string"},"near":{"type":"object","properties":{"lat":{"type":"number"},"lon":{"type":"number"}},
				"dependentRequired":{"lat":["lon"],"lon":["lat"]}}}}`,
			run: with(airQuality)},
	}
}

func townByName(field, name string) (town, error) {
	var known []string
	for _, t := range towns() {
		if strings.EqualFold(t.name, name) {
			return t, nil
		}
		known = append(known, t.name)
	}
	return town{}, oneOf(field, name, known)
}

// nearest is the town with the least distance in degrees.
func nearest(lat, lon float64) town {
	best, least := town{}, math.Inf(1)
	for _, t := range towns() {
		if d := math.Hypot(t.lat-lat, t.lon-lon); d < least {
			best, least = t, d
		}
	}
	return best
}

func (t town) day(date string) obj {
	sky := []string{"sunny", "cloudy", "light rain", "windy", "thunderstorm"}[number(5, t.name, date, "sky")]
	rain := 0.0
	if sky == "light rain" || sky == "thunderstorm" {
		rain = float64(number(120, t.name, date, "rain"))/10 + 0.2
	}
	high := t.mean + float64(number(80, t.name, date, "high"))/10
	return obj{"date": date, "condition": sky, "high": high, "low": high - 3 - float64(number(60, t.name, date, "low"))/10, "rainMm": rain}
}

func currentWeather(a struct {
	Location struct {
		City                string
		Latitude, Longitude float64
	}
	Units string
}) (any, error) {
	t := nearest(a.Location.Latitude, a.Location.Longitude)
	if a.Location.City != "" {
		var err error
		if t, err = townByName("location.city", a.Location.City); err != nil {
			return nil, err
		}
	}
	d := t.day(today)
	temp, unit := d["high"].(float64), "°C"
	if a.Units == "imperial" {
		temp, unit = temp*9/5+32, "°F"
	}
	return obj{"city": t.name, "temperature": math.Round(temp*10) / 10, "unit": unit, "condition": d["condition"]}, nil
}

func forecast(a struct {
	City string
	Days int
}) (any, error) {
	t, err := townByName("city", a.City)
	if err != nil {
		return nil, err
	}
	start, err := parseDay("today", today)
	if err != nil {
		return nil, err
	}
	var days []obj
	for i := range a.Days {
		days = append(days, t.day(start.AddDate(0, 0, i).Format(time.DateOnly)))
	}
	return obj{"city": t.name, "days": days}, nil
}

func compareCities(a struct {
	Cities []string
	By     string
}) (any, error) {
	best, bestValue := "", math.Inf(1)
	values := obj{}
	for i, c := range a.Cities {
		t, err := townByName(fmt.Sprintf("cities[%d]", i), c)
		if err != nil {
			return nil, err
		}
		key, sign := "rainMm", 1.0
		if a.By == "warmest" {
			key, sign = "high", -1
		}
		v := t.day(today)[key].(float64)
		values[t.name] = v
		if sign*v < bestValue {
			best, bestValue = t.name, sign*v
		}
	}
	return obj{"by": a.By, "first": best, "values": values}, nil
}

func airQuality(a struct {
	City string
	Near *struct{ Lat, Lon float64 }
}) (any, error) {
	var t town
	var err error
	switch {
	case a.City != "":
		t, err = townByName("city", a.City)
	case a.Near != nil:
		t = nearest(a.Near.Lat, a.Near.Lon)
	default:
		err = errors.New("city: a town is needed, or near with lat and lon")
	}
	if err != nil {
		return nil, err
	}
	index := 10 + number(140, t.name, "air")
	advice := "good for a walk"
	if index > 100 {
		advice = "sensitive people should stay inside"
	}
	return fmt.Sprintf("%s: air quality index %d, %s.", t.name, index, advice), nil
}
