package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// protocol is the version of what service and worker say to each other. Both are of one build; another version means that the
// worker's file was replaced while the service ran.
const protocol = 1

// What one frame may carry. A longer one ends the connection before anything is allocated for it.
const (
	headerSize = 16
	maxPayload = 8 << 20
	maxSmall   = 64 << 10 // of frames that carry settings only
)

// A kind says what a frame is. The numbers of hello and ready are the same in every version of the protocol.
type kind uint8

// The kinds: hello to cancel go to the worker, ready to ending come from it.
const (
	kindHello  kind = 1 // hello, once
	kindRun    kind = 2 // an engine.Body
	kindAnswer kind = 3 // an engine.Answer
	kindPause  kind = 4 // nothing: the body's clock stands still
	kindResume kind = 5 // nothing: it goes on
	kindCancel kind = 6 // nothing: the body is to end
	kindReady  kind = 16
	kindAsk    kind = 17 // an engine.Ask
	kindLog    kind = 18 // an engine.Log
	kindEnding kind = 19 // an engine.Ending; nothing of that body follows
)

// limit is the longest payload of a frame of this kind, -1 if there is no such kind.
func (k kind) limit() int {
	switch k {
	case kindHello, kindReady:
		return maxSmall
	case kindRun, kindAnswer, kindAsk, kindLog, kindEnding:
		return maxPayload
	case kindPause, kindResume, kindCancel:
		return 0
	}
	return -1
}

// A frame is one message: sixteen bytes, little-endian (kind, three zero bytes, length of the payload, number of the body),
// and the payload, which is JSON or nothing.
type frame struct {
	kind    kind
	body    uint64 // 0 where the frame is about no body
	payload []byte
}

var (
	errFrame     = errors.New("malformed frame")     // what no sound peer sends
	errFrameSize = errors.New("message is too long") // what must not be sent
)

// putHeader writes the header of a frame with n bytes of payload to the first headerSize bytes of dst.
func putHeader(dst []byte, k kind, body uint64, n int) error {
	if limit := k.limit(); n > limit {
		return fmt.Errorf("%w: %d bytes, at most %d fit into kind %d", errFrameSize, n, limit, k)
	}
	dst[0], dst[1], dst[2], dst[3] = byte(k), 0, 0, 0
	binary.LittleEndian.PutUint32(dst[4:], uint32(n))
	binary.LittleEndian.PutUint64(dst[8:], body)
	return nil
}

// readFrame reads one frame. The payload is the caller's. At the end of the stream between two frames the error is io.EOF.
func readFrame(r io.Reader) (frame, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: kind(h[0]), body: binary.LittleEndian.Uint64(h[8:])}
	n := binary.LittleEndian.Uint32(h[4:])
	limit := f.kind.limit()
	switch {
	case limit < 0:
		return frame{}, fmt.Errorf("%w: unknown kind %d", errFrame, f.kind)
	case h[1]|h[2]|h[3] != 0:
		return frame{}, fmt.Errorf("%w: reserved bytes are set", errFrame)
	case int64(n) > int64(limit):
		return frame{}, fmt.Errorf("%w: kind %d with %d bytes, at most %d are allowed", errFrame, f.kind, n, limit)
	}
	if n == 0 {
		return f, nil
	}
	f.payload = make([]byte, n)
	if _, err := io.ReadFull(r, f.payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	return f, nil
}

// encode makes the bytes of a frame that carries v. Text in v keeps its bytes: nothing is escaped for HTML.
func encode(k kind, body uint64, v any) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, headerSize))
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a frame of kind %d: %w", k, err)
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return out, putHeader(out, k, body, len(out)-headerSize)
}

// bare makes the bytes of a frame that carries nothing.
func bare(k kind, body uint64) []byte {
	out := make([]byte, headerSize)
	out[0] = byte(k)
	binary.LittleEndian.PutUint64(out[8:], body)
	return out
}

// hello is the first frame to a worker: what it is to be.
type hello struct {
	Protocol int      `json:"protocol"`
	Budget   int64    `json:"budget"`  // bytes that its isolates may hold together
	Bodies   int      `json:"bodies"`  // bodies at once
	Images   int      `json:"images"`  // files of snapshots, from descriptor fdImages on
	Layers   []string `json:"layers"`  // those that were made around it
	Require  []string `json:"require"` // those without which it must not run a body
}

// ready is the first frame from a worker. It is sent once no step back is possible.
type ready struct {
	Protocol int      `json:"protocol"`
	Layers   []string `json:"layers"` // all that are active
}
