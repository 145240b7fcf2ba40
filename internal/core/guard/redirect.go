package guard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const mostRedirects = 5

// CheckRedirect decides on a redirect, for an [http.Client] around [Client.Transport]; [Client.Do] obeys it by itself. The request to come is
// not sent where the error, a [Refusal], is not nil. At most 5 are followed, none from https to http, none that turns another method
// than GET into one unless it says so (303), and none that takes a body to another origin. What leaves the first origin takes
// no header along but harmless ones, and does not get them back by returning.
func CheckRedirect(next *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	next.Header.Del("Referer") // it holds the query, which may hold a key
	next.URL.User = nil
	sameMethod := next.Method == last.Method
	switch {
	case len(via) > mostRedirects:
		return notFollowed(next, "there were %d before it", mostRedirects)
	case next.URL.Scheme != "http" && next.URL.Scheme != "https":
		return notFollowed(next, "it is no http or https URL")
	case last.URL.Scheme == "https" && next.URL.Scheme == "http":
		return notFollowed(next, "it leaves https")
	case !sameMethod && next.Response.StatusCode != http.StatusSeeOther:
		return notFollowed(next, "the %s would become a %s", last.Method, next.Method)
	case SameOrigin(first.URL, next.URL) && !slices.ContainsFunc(via, func(r *http.Request) bool { return !SameOrigin(first.URL, r.URL) }):
		return nil
	case next.Method != http.MethodGet && next.Method != http.MethodHead:
		return notFollowed(next, "it leads elsewhere, which is followed for GET and HEAD only")
	}
	for k := range next.Header {
		if !slices.Contains([]string{"Accept", "Accept-Language", "Range", "User-Agent"}, k) {
			next.Header.Del(k)
		}
	}
	return nil
}

func notFollowed(next *http.Request, format string, args ...any) error {
	to := (&url.URL{Scheme: next.URL.Scheme, Host: next.URL.Host}).String()
	return &Refusal{Status: next.Response.StatusCode, why: fmt.Sprintf("the redirect to %s is not followed: %s", to, fmt.Sprintf(format, args...))}
}

// SameOrigin reports whether what is meant for a may be told to b: scheme, host and port are the same, or b is the same host at https's own port and a at http's.
func SameOrigin(a, b *url.URL) bool {
	if a.Scheme == b.Scheme {
		return hostPort(a) == hostPort(b)
	}
	return a.Scheme == "http" && b.Scheme == "https" && strings.EqualFold(a.Hostname(), b.Hostname()) &&
		strings.HasSuffix(hostPort(a), ":80") && strings.HasSuffix(hostPort(b), ":443")
}
