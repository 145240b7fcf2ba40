package workshop

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

type booking struct {
	Ref       string   `json:"ref"`
	Kind      string   `json:"kind"`
	Traveller string   `json:"traveller"`
	Route     string   `json:"route"`
	Date      string   `json:"date"`
	Price     float64  `json:"price"`
	Currency  string   `json:"currency"`
	Status    string   `json:"status"`
	Seats     []string `json:"seats,omitempty"`
}

type agency struct {
	bookings []*booking
	seats    map[string]int // taken on each coach, by route and day
}

func airports() []string { return []string{"ARN", "BER", "CPH", "HAN", "KIX", "NBO", "OPO", "YYZ"} }

// bookTripAbout is long on purpose: real servers put their whole policy into
// a description.
const bookTripAbout = `Books a business trip by air: it reserves the flights, issues the ticket and charges the cost centre. Use it only after search_flights has returned the flight numbers, and only when the traveller has agreed to the price. The booking is made at once and costs money.

WHO TRAVELS. The traveller's name must be written exactly as in the passport, family name last. Titles, nicknames and initials lead to refusal at the gate. Travellers under 18 cannot be booked with this tool. For a group of more than nine people ask the travel desk, because airlines quote groups separately and hold the seats for a few days without charge. A colleague may book for another colleague; the confirmation then goes to both.

ITINERARY. Give the legs in the order in which they are flown. Each leg names the flight number as returned by search_flights and the date of departure in local time of the airport of departure. A return trip is two legs, an open-jaw trip is two legs with different airports, and a stop of more than 24 hours makes two trips. Connections of less than 50 minutes in Europe or 90 minutes elsewhere are refused, because missed connections have cost more than the waiting. Night flights that land before 06:00 count as the day before for the allowance.

CABIN AND FARE. Economy is booked for every leg of less than six hours. Premium economy may be asked for from six hours on, business from ten hours on and only with the approval of the head of the team, whose handle then stands in the field approvedBy. Fares that can be changed are preferred where the difference is below 60 EUR. First class does not exist here.

PAYMENT. Every trip is paid by a cost centre, four digits, first digit 1 to 7. The amount is charged in EUR at the rate of the day. Private extensions of a trip are possible up to five days; the traveller pays the difference, and the tool must then be called with split set to true. Receipts are stored for ten years.

CHANGES. A booking can be cancelled with cancel_booking within 24 hours without charge. Later the rules of the fare apply. No-shows are charged in full.

LUGGAGE. One bag of 23 kg is included on flights of more than three hours. Musical instruments, surfboards, bicycles and kayaks must be announced as bulky sports equipment with the booking, and cost 75 EUR for each leg.`

func newTravel() area {
	a := &agency{seats: map[string]int{}}
	a.bookings = []*booking{{Ref: "TRV-2001", Kind: "flight", Traveller: "Hana Sato", Route: "CPH-BER", Date: "2026-03-10", Price: 148, Currency: "EUR", Status: "ticketed"}}
	return area{name: "travel", about: "flights for business trips and coaches in Viet Nam. Bookings cost money: ask before you book.", tools: a.tools()}
}

func (a *agency) tools() []tool {
	const bookingOut = `{"type":"object","properties":{"ref":{"type":"string","pattern":"^(TRV|XE)-[0-9]+$"},"kind":{"enum":["flight","coach"]},"traveller":{"type":"string"},
		"route":{"type":"string"},"date":{"type":"string","format":"date"},"price":{"type":"number"},"currency":{"type":"string"},
		"status":{"type":"string"},"seats":{"type":"array","items":{"type":"string"}}},"required":["ref","kind","price","currency","status"]}`
	return []tool{
		{name: "search_flights", title: "Search flights", hints: readOnly | openWorld,
			about: "Finds flights between two airports on a day, with prices for all passengers.",
			in: `{"type":"object","properties":{
				"from":{"type":"string","pattern":"^[A-Z]{3}$","description":"IATA code"},"to":{"$ref":"#/properties/from"},
				"date":{"type":"string","format":"date"},
				"returnDate":{"anyOf":[{"type":"string","format":"date"},{"type":"null"}],"default":null},
				"passengers":{"type":"integer","minimum":1,"maximum":9,"default":1},
				"cabin":{"type":"string","enum":["economy","premium","business"],"default":"economy"}},"required":["from","to","date"]}`,
			out: `{"type":"object","properties":{"flights":{"type":"array","items":{"type":"object","properties":{"flightNumber":{"type":"string"},"route":{"type":"string"},
				"departs":{"type":"string","format":"date-time"},"price":{"type":"number"}},"required":["flightNumber","departs","price"]}}},"required":["flights"]}`,
			run: with(searchFlights)},
		{name: "book_trip", title: "Book a business trip", hints: destructive | openWorld, about: bookTripAbout,
			in: `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{
				"traveller":{"type":"object","properties":{"fullName":{"type":"string","minLength":3},"born":{"type":"string","format":"date"},
					"passport":{"type":"object","properties":{"number":{"type":"string","pattern":"^[A-Z0-9]{6,9}$"},"country":{"type":"string","pattern":"^[A-Z]{2}$"}},"required":["number","country"]}},
					"required":["fullName","born","passport"]},
				"itinerary":{"type":"object","properties":{"legs":{"type":"array","minItems":1,"maxItems":6,"items":{"type":"object","properties":{
					"flightNumber":{"type":"string","pattern":"^[A-Z]{2}[0-9]{3}$"},"date":{"type":"string","format":"date"}},"required":["flightNumber","date"]}},
					"bulkyItems":{"type":"integer","minimum":0,"maximum":3,"default":0}},"required":["legs"]},
				"payment":{"type":"object","properties":{"costCentre":{"type":"string","pattern":"^[1-7][0-9]{3}$"},"approvedBy":{"type":["string","null"]},"split":{"type":"boolean","default":false}},"required":["costCentre"]},
				"contact":{"type":"object","properties":{"email":{"type":"string","format":"email"},"phone":{"type":"string"}},"required":["email"]}},
				"required":["traveller","itinerary","payment","contact"],"additionalProperties":false}`,
			out: bookingOut, run: with(a.bookTrip)},
		{name: "list_bookings", title: "List bookings", hints: readOnly,
			about: "Lists the trips that were booked here.",
			in:    `{"type":"object","properties":{"status":{"type":"string","enum":["ticketed","cancelled"]}}}`,
			out:   `{"type":"object","properties":{"bookings":{"type":"array","items":` + bookingOut + `}},"required":["bookings"]}`,
			run:   with(a.list)},
		{name: "cancel_booking", title: "Cancel a booking", hints: destructive | idempotent,
			about: "Cancels a flight or coach booking.",
			in:    `{"type":"object","properties":{"ref":{"type":"string"}},"required":["ref"],"additionalProperties":false}`,
			run:   with(a.cancel)},
		{name: "dat_ve_xe", title: "Đặt vé xe khách", hints: additive | openWorld,
			about: "Đặt vé xe khách đường dài giữa các thành phố ở Việt Nam. Cho biết điểm đi, điểm đến, ngày đi, số ghế và loại xe; trả về mã vé, số ghế và tổng tiền bằng đồng. Mỗi chuyến có 34 ghế.",
			in: `{"type":"object","properties":{
				"diem_di":{"type":"string","enum":["Hải Phòng","Hà Nội","Huế","Đà Nẵng","TP. Hồ Chí Minh","Cần Thơ"],"description":"Điểm đi"},
				"diem_den":{"$ref":"#/properties/diem_di","description":"Điểm đến"},
				"ngay":{"type":"string","format":"date","description":"Ngày đi"},
				"so_ghe":{"type":"integer","minimum":1,"maximum":6,"default":1},
				"loai_xe":{"type":"string","enum":["ghế ngồi","giường nằm"],"default":"ghế ngồi"},
				"ho_ten":{"type":"string","minLength":2,"description":"Họ và tên hành khách"}},
				"required":["diem_di","diem_den","ngay","ho_ten"]}`,
			out: bookingOut, run: with(a.bookCoach)},
	}
}

func (a *agency) add(prefix string, b booking) *booking {
	b.Ref, b.Status = fmt.Sprintf("%s-%d", prefix, 2001+len(a.bookings)), "ticketed"
	a.bookings = append(a.bookings, &b)
	return &b
}

// upcoming checks that a day of travel is not over.
func upcoming(field, day string) error {
	if _, err := parseDay(field, day); err != nil {
		return err
	}
	if day < today {
		return fmt.Errorf("%s: %s is in the past; today is %s", field, day, today)
	}
	return nil
}

func fare(words ...string) float64 { return float64(60 + number(900, words...)) }

func searchFlights(a struct {
	From, To, Date string
	ReturnDate     *string
	Passengers     int
	Cabin          string
}) (any, error) {
	for field, code := range map[string]string{"from": a.From, "to": a.To} {
		if !slices.Contains(airports(), code) {
			return nil, oneOf(field, code, airports())
		}
	}
	if a.From == a.To {
		return nil, fmt.Errorf("to: %s is the airport of departure", a.To)
	}
	if err := upcoming("date", a.Date); err != nil {
		return nil, err
	}
	flights := flightsOn(a.From, a.To, a.Date, a.Cabin, a.Passengers)
	if a.ReturnDate != nil {
		if err := upcoming("returnDate", *a.ReturnDate); err != nil {
			return nil, err
		}
		if *a.ReturnDate < a.Date {
			return nil, fmt.Errorf("returnDate: %s is before date (%s)", *a.ReturnDate, a.Date)
		}
		flights = append(flights, flightsOn(a.To, a.From, *a.ReturnDate, a.Cabin, a.Passengers)...)
	}
	return obj{"flights": flights}, nil
}

func flightsOn(from, to, date, cabin string, passengers int) []obj {
	factor := map[string]float64{"economy": 1, "premium": 1.7, "business": 3.4}[cabin]
	var flights []obj
	for i, hour := range []int{6, 11, 18} {
		no := fmt.Sprintf("WS%d", 100+number(800, from, to)+i)
		flights = append(flights, obj{"flightNumber": no, "route": from + "-" + to,
			"departs": fmt.Sprintf("%sT%02d:%02d:00Z", date, hour, 5*number(12, no)),
			"price":   cents(fare(no, date) * factor * float64(passengers))})
	}
	return flights
}

func (a *agency) bookTrip(in struct {
	Traveller struct{ FullName, Born string }
	Itinerary struct {
		Legs       []struct{ FlightNumber, Date string }
		BulkyItems int
	}
	Contact struct{ Email string }
}) (any, error) {
	born, err := parseDay("traveller.born", in.Traveller.Born)
	if err != nil {
		return nil, err
	}
	if first, _ := time.Parse(time.DateOnly, in.Itinerary.Legs[0].Date); born.AddDate(18, 0, 0).After(first) {
		return nil, fmt.Errorf("traveller.born: %s is under 18 on the day of travel; minors cannot be booked here", in.Traveller.FullName)
	}
	if _, err := parseEmail("contact.email", in.Contact.Email); err != nil {
		return nil, err
	}
	price := 0.0
	var route []string
	for i, l := range in.Itinerary.Legs {
		if err := upcoming(fmt.Sprintf("itinerary.legs[%d].date", i), l.Date); err != nil {
			return nil, err
		}
		price += fare(l.FlightNumber, l.Date) + 75*float64(in.Itinerary.BulkyItems)
		route = append(route, l.FlightNumber)
	}
	return a.add("TRV", booking{Kind: "flight", Traveller: in.Traveller.FullName, Route: strings.Join(route, " "),
		Date: in.Itinerary.Legs[0].Date, Price: price, Currency: "EUR"}), nil
}

func (a *agency) list(in struct{ Status string }) (any, error) {
	found := []*booking{}
	for _, b := range a.bookings {
		if in.Status == "" || in.Status == b.Status {
			found = append(found, b)
		}
	}
	return obj{"bookings": found}, nil
}

func (a *agency) cancel(in struct{ Ref string }) (any, error) {
	for _, b := range a.bookings {
		if b.Ref == in.Ref {
			b.Status = "cancelled"
			return b, nil
		}
	}
	return nil, missing("booking", in.Ref, "list_bookings")
}

// bookCoach sells seats on the road from Hải Phòng to Cần Thơ.
func (a *agency) bookCoach(in struct {
	From  string `json:"diem_di"`
	To    string `json:"diem_den"`
	Day   string `json:"ngay"`
	Seats int    `json:"so_ghe"`
	Coach string `json:"loai_xe"`
	Name  string `json:"ho_ten"`
}) (any, error) {
	if in.From == in.To {
		return nil, fmt.Errorf("diem_den: điểm đến phải khác điểm đi (%s)", in.From)
	}
	if err := upcoming("ngay", in.Day); err != nil {
		return nil, err
	}
	km := map[string]int{"Hải Phòng": 0, "Hà Nội": 120, "Huế": 790, "Đà Nẵng": 890, "TP. Hồ Chí Minh": 1840, "Cần Thơ": 2010}
	distance := km[in.To] - km[in.From]
	price := 900 * max(distance, -distance)
	if in.Coach == "giường nằm" {
		price = price * 13 / 10
	}
	trip := strings.Join([]string{in.From, in.To, in.Day, in.Coach}, "/")
	taken := a.seats[trip]
	if taken+in.Seats > 34 {
		return nil, fmt.Errorf("so_ghe: chuyến này chỉ còn %d ghế", 34-taken)
	}
	a.seats[trip] += in.Seats
	var seats []string
	for i := range in.Seats {
		seats = append(seats, fmt.Sprintf("A%02d", taken+i+1))
	}
	return a.add("XE", booking{Kind: "coach", Traveller: in.Name, Route: in.From + " → " + in.To, Date: in.Day,
		Price: float64(price * in.Seats), Currency: "VND", Seats: seats}), nil
}
