package trials

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// walk is a body that returns the list of all that a body can reach, one text for each.
//
//go:embed reach/walk.js
var walk string

// caught is a body that returns what it caught of what runs it, which must be nothing.
//
//go:embed reach/caught.js
var caught string

//go:embed reach/search.js
var search string

// searchFor gives a body that looks for texts that begin with mark, which is ASCII, in all that it can reach and in large MiB of memory and some
// more, or in none for 0. It returns {found, objects, bytes}: what it found, and how many objects and bytes of memory it looked at.
func searchFor(mark string, large int) string {
	codes := strings.Join(strings.Fields(fmt.Sprint([]byte(mark))), ",")
	return strings.NewReplacer("CODES", codes, "LARGE", strconv.Itoa(large)).Replace(search)
}
