package pool

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

func frame(t testing.TB, header any, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := writeFrame(&b, header, body)
	if err != nil || n != b.Len() {
		t.Fatal(n, err)
	}
	return b.Bytes()
}

func TestAFrameIsLengthsHeaderAndBody(t *testing.T) {
	got := frame(t, map[string]int{"a": 1}, []byte("\xff\x00"))
	if want := "\x00\x00\x00\x07\x00\x00\x00\x02{\"a\":1}\xff\x00"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFramesAreReadUntilTheEnd(t *testing.T) {
	whole := frame(t, "é", []byte("body"))
	for cut := range whole {
		_, _, err := readFrame(bytes.NewReader(whole[:cut]))
		if want := map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[cut == 0]; err != want {
			t.Errorf("after %d bytes: %v, want %v", cut, err, want)
		}
	}
	r := bytes.NewReader(append(whole, whole...))
	for range 2 {
		header, body, err := readFrame(r)
		if err != nil || string(header) != `"é"` || string(body) != "body" {
			t.Errorf("%q %q %v", header, body, err)
		}
	}
	if _, _, err := readFrame(r); err != io.EOF {
		t.Errorf("after the last frame: %v", err)
	}
}

func TestALengthThatLiesTakesNoMemory(t *testing.T) {
	announced := "\x00\x10\x00\x00\x10\x00\x00\x00" + strings.Repeat("x", maxHeader)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := readFrame(strings.NewReader(announced))
	runtime.ReadMemStats(&after)
	if err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > maxBody/8 {
		t.Errorf("%d bytes were taken for a frame of 256 MiB of which 1 MiB came", took)
	}
}

func TestAHeaderThatIsNotUTF8IsRefused(t *testing.T) {
	if _, err := decodeAnswer([]byte("{\"type\":\"\xff\"}")); !errors.Is(err, errFrame) {
		t.Errorf("%v", err)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(frame(f, answer{Type: "ready", Protocol: 1, Classes: []string{"A"}}, nil))
	f.Add(frame(f, answer{Type: "outcome", Outcome: []byte(`{"kind":"succeeded"}`)}, []byte("body")))
	f.Add([]byte("\x00\x00\x00\x1f\x00\x00\x00\x00{\"outcome\":{\"followUps\":{}}    }"))
	f.Add([]byte("PHP Warning:  oh no"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		for {
			before := r.Len()
			header, body, err := readFrame(r)
			if err != nil {
				return
			}
			if read := before - r.Len(); read != 8+len(header)+len(body) {
				t.Fatalf("%d bytes were read for a header of %d and a body of %d", read, len(header), len(body))
			}
			if _, err := decodeAnswer(header); err != nil && !errors.Is(err, errFrame) {
				t.Fatal(err)
			}
		}
	})
}
