package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

func TestFrameRoundTrip(t *testing.T) {
	answer := engine.Answer{ID: 3, Value: []byte(`{"a":"<&>\u2028"}`), Now: 17}
	out, err := encode(kindAnswer, 1<<40, answer)
	if err != nil {
		t.Fatal(err)
	}
	stream := append(out, bare(kindCancel, 7)...)
	r := bytes.NewReader(stream)
	f, err := readFrame(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode[engine.Answer](f)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(answer, got); diff != "" || f.kind != kindAnswer || f.body != 1<<40 {
		t.Errorf("readFrame(encode(%v)) = kind %d, body %d, %s", answer, f.kind, f.body, diff)
	}
	if f, err = readFrame(r); err != nil || f.kind != kindCancel || f.body != 7 || f.payload != nil {
		t.Errorf("readFrame(bare) = %v, %v", f, err)
	}
	if _, err = readFrame(r); !errors.Is(err, io.EOF) {
		t.Errorf("readFrame() at the end = %v, want %v", err, io.EOF)
	}
}

// header makes a header without regard to what is allowed.
func header(k kind, reserved byte, length uint32) []byte {
	h := bare(k, 1)
	h[2] = reserved
	binary.LittleEndian.PutUint32(h[4:], length)
	return h
}

func TestReadFrameRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []byte
		want error
	}{
		{"kind 0", header(0, 0, 0), errFrame},
		{"kind between the directions", header(7, 0, 0), errFrame},
		{"reserved", header(kindAsk, 1, 0), errFrame},
		{"8 MiB and a byte", header(kindAsk, 0, maxPayload+1), errFrame},
		{"4 GiB", header(kindLog, 0, 1<<32-1), errFrame},
		{"large settings", header(kindReady, 0, maxSmall+1), errFrame},
		{"cancel with a payload", header(kindCancel, 0, 1), errFrame},
		{"half a header", header(kindAsk, 0, 0)[:5], io.ErrUnexpectedEOF},
		{"no payload", header(kindAsk, 0, 5), io.ErrUnexpectedEOF},
		{"half a payload", append(header(kindAsk, 0, 5), "[1"...), io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			allocated := testing.AllocsPerRun(1, func() {
				if _, err := readFrame(bytes.NewReader(tt.in)); !errors.Is(err, tt.want) {
					t.Errorf("readFrame() = %v, want %v", err, tt.want)
				}
			})
			if allocated > 20 {
				t.Errorf("readFrame() made %v allocations", allocated)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	_, err := encode(kindEnding, 1, engine.Ending{Value: []byte(`"` + strings.Repeat("x", maxPayload) + `"`)})
	if !errors.Is(err, errFrameSize) {
		t.Errorf("encode(too long) = %v, want %v", err, errFrameSize)
	}
	if _, err := encode(kindAnswer, 1, engine.Answer{Value: []byte(`{"a":`)}); err == nil {
		t.Error("encode(no JSON) = nil, want an error")
	}
}

// Whatever is read can be written again to the same bytes.
func FuzzFramesRead(f *testing.F) {
	f.Add(bare(kindCancel, 1))
	f.Add(append(header(kindAsk, 0, 2), "[]"...))
	f.Add(header(kindLog, 0, 1<<32-1))
	f.Add(append(bare(kindPause, 1), bare(kindResume, 1)...))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		var out []byte
		for {
			fr, err := readFrame(r)
			if err != nil {
				break
			}
			h := bare(fr.kind, fr.body)
			if err := putHeader(h, fr.kind, fr.body, len(fr.payload)); err != nil {
				t.Fatal(err)
			}
			out = append(append(out, h...), fr.payload...)
		}
		if !bytes.HasPrefix(in, out) {
			t.Errorf("read %x of %x", out, in)
		}
	})
}
