package outputs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/toolcrib/toolcrib/internal/core/cut"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A note says what was cut of a result and how to read on.
type note struct {
	what cut.Parts
	size int64           // of the whole
	more *contracts.More // nil where the whole is not kept
	why  string          // it is not
}

// text returns the note, with each cut or, where it has to be short, without.
func (n note) text(long bool) string {
	s := "cut"
	if long {
		s += ": " + n.what.Tell()
	}
	s += fmt.Sprintf("; the whole result has %d bytes", n.size)
	if n.more == nil {
		return s + "; " + n.why
	}
	return s + fmt.Sprintf("; to read on call %s with %s", ReadID, n.next())
}

// next returns the arguments that read on where the first cut is.
func (n note) next() json.RawMessage {
	args := struct {
		Handle string `json:"handle"`
		Path   string `json:"path,omitempty"`
		Offset int64  `json:"offset,omitempty"`
	}{Handle: n.more.Handle}
	if len(n.what.List) > 0 {
		args.Path, args.Offset = n.what.List[0].Path, n.what.List[0].Shown
	}
	return cut.Encode(args)
}

// block returns the note as a content block of at most size bytes.
func (n note) block(size int) json.RawMessage {
	for _, long := range []bool{true, false} {
		if b := contracts.TextResult("["+n.text(long)+"]", nil).Content[0]; len(b) < size {
			return b
		}
	}
	n.what = cut.Parts{}
	return contracts.TextResult("["+n.text(false)+"]", nil).Content[0]
}

func readerOf(b []byte) io.Reader { return bytes.NewReader(b) }
