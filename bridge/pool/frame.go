package pool

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A frame is the length of the header and that of the body, both as uint32 in
// network order; the header, a JSON object; and the body, any bytes.
const (
	maxHeader = 1 << 20
	maxBody   = 256 << 20
)

// smallBody is what is written together with its header.
const smallBody = 32 << 10

// errFrame: what was read is no frame.
var errFrame = errors.New("that is no frame")

// writeFrame writes one frame, which is within the limits, and answers how many
// bytes of it were written.
func writeFrame(w io.Writer, header any, body []byte) (n int, err error) {
	text, err := json.Marshal(header)
	if err != nil {
		return 0, err
	}
	frame := make([]byte, 0, 8+len(text)+min(len(body), smallBody))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(text)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(body)))
	frame = append(frame, text...)
	if len(body) <= smallBody {
		return w.Write(append(frame, body...))
	}
	if n, err = w.Write(frame); err != nil {
		return n, err
	}
	m, err := w.Write(body)
	return n + m, err
}

// readFrame reads one frame. At the end of r it answers io.EOF between frames
// and io.ErrUnexpectedEOF within one.
func readFrame(r io.Reader) (header, body []byte, err error) {
	var lengths [8]byte
	if _, err := io.ReadFull(r, lengths[:]); err != nil {
		return nil, nil, err
	}
	h, b := binary.BigEndian.Uint32(lengths[:4]), binary.BigEndian.Uint32(lengths[4:])
	if h == 0 || h > maxHeader || b > maxBody {
		return nil, nil, fmt.Errorf("%w: it begins with %q", errFrame, lengths)
	}
	if header, err = readPart(r, h); err != nil {
		return nil, nil, err
	}
	if body, err = readPart(r, b); err != nil {
		return nil, nil, err
	}
	return header, body, nil
}

// readPart reads n bytes. Memory is taken for what arrives, not for what was
// announced.
func readPart(r io.Reader, n uint32) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	var part bytes.Buffer
	if _, err := io.CopyN(&part, r, int64(n)); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return part.Bytes(), nil
}
