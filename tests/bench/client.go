package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// client is a connection to the API. A client of net/http would cost more than
// what is measured.
type client struct {
	connection net.Conn
	from       *bufio.Reader
	owner      string // of leases
}

func dial(ctx context.Context, address string) (*client, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := connection.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		return nil, err
	}
	return &client{connection: connection, from: bufio.NewReaderSize(connection, 64<<10)}, nil
}

// post makes a call and answers the body of its answer, which must be 200.
func (c *client) post(path, body string) ([]byte, error) {
	owner := ""
	if c.owner != "" {
		owner = "X-Lease-Owner: " + c.owner + "\r\n"
	}
	_, err := fmt.Fprintf(c.connection, "POST /api/queue/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		path, owner, len(body), body)
	if err != nil {
		return nil, err
	}
	status, err := c.from.ReadString('\n')
	if err != nil {
		return nil, err
	}
	length, err := c.length()
	if err != nil {
		return nil, err
	}
	answer := make([]byte, length)
	if _, err := io.ReadFull(c.from, answer); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 200 ") {
		return nil, fmt.Errorf("%s answered %s: %.300s", path, strings.TrimSpace(status), answer)
	}
	return answer, nil
}

// length reads the head to its end and answers how long the body is.
func (c *client) length() (int, error) {
	length := -1
	for {
		line, err := c.from.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line == "\r\n" {
			break
		}
		if value, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, fmt.Errorf("an answer does not say how long it is")
	}
	return length, nil
}
