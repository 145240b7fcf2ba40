package workshop

import (
	"fmt"
	"hash/fnv"
	"net/mail"
	"strings"
	"time"
)

// today is the day at which the workshop's clock stands, a Monday.
const today = "2026-03-02"

// now is the standing clock.
const now = "2026-03-02T08:00:00Z"

type person struct {
	handle, name, title, team string
	leave                     int // days left this year
}

func (p person) email() string { return p.handle + "@workshop.example" }

func people() []person {
	return []person{
		{"ada", "Ada Lindqvist", "Head of Engineering", "engineering", 22},
		{"bram", "Bram Okafor", "Support Lead", "support", 11},
		{"chiara", "Chiara Rossi", "Account Executive", "sales", 17},
		{"duc", "Nguyễn Minh Đức", "Backend Engineer", "engineering", 14},
		{"elif", "Elif Yılmaz", "Product Designer", "engineering", 9},
		{"farid", "Farid Haddad", "Financial Controller", "finance", 25},
		{"greta", "Greta Müller", "People Partner", "people", 19},
		{"hana", "Hana Sato (佐藤花)", "Sales Engineer", "sales", 6},
	}
}

func personByHandle(field, handle string) (person, error) {
	handle = strings.TrimPrefix(handle, "@")
	var known []string
	for _, p := range people() {
		if p.handle == handle {
			return p, nil
		}
		known = append(known, p.handle)
	}
	return person{}, oneOf(field, handle, known)
}

func parseDay(field, s string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return t, fmt.Errorf("%s: %q is not a date such as %s", field, s, today)
	}
	return t, nil
}

func parseStamp(field, s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("%s: %q is not a time such as %s", field, s, now)
	}
	return t.UTC(), nil
}

func parseEmail(field, s string) (string, error) {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s {
		return "", fmt.Errorf("%s: %q is not an e-mail address such as ada@workshop.example", field, s)
	}
	return s, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// number is a deterministic number from 0 to n-1 for the given words.
func number(n int, words ...string) int {
	h := fnv.New32a()
	h.Write([]byte(strings.Join(words, "\x00")))
	return int(h.Sum32() % uint32(n))
}

// matches reports whether every word of query is in one of the texts,
// whatever the case.
func matches(query string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	for _, w := range strings.Fields(strings.ToLower(query)) {
		if !strings.Contains(all, w) {
			return false
		}
	}
	return true
}

// page cuts items to limit, and tells how many there were.
func page[T any](items []T, limit int) ([]T, int) {
	if items == nil {
		items = []T{}
	}
	return items[:min(limit, len(items))], len(items)
}
