package phorge

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// cut is what happens to a COMMIT on its way.
type cut int

const (
	passed      cut = iota
	neverSent       // the connection ends before the server gets it
	notAnswered     // the connection ends before the client gets the answer
	silence         // no answer comes, and the connection does not end
)

// proxy stands between a store and the server and cuts the next COMMIT.
type proxy struct {
	t      testing.TB
	listen net.Listener
	mu     sync.Mutex
	next   cut
	cuts   int
	open   []net.Conn
}

func newProxy(t testing.TB) *proxy {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listen: listen}
	socket := harness.Shared(t).Socket()
	go func() {
		for {
			client, err := listen.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", socket)
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, client, server)
			p.mu.Unlock()
			p.connect(client, server)
		}
	}()
	t.Cleanup(func() {
		listen.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.open {
			c.Close()
		}
	})
	return p
}

// through makes a store of q use the proxy.
func (p *proxy) through(q *queue) *Store {
	return q.open(func(c *Config) {
		cfg, err := mysql.ParseDSN(c.DSN)
		if err != nil {
			p.t.Fatal(err)
		}
		cfg.Net, cfg.Addr = "tcp", p.listen.Addr().String()
		c.DSN = cfg.FormatDSN()
	})
}

// arm chooses what happens to the next COMMIT, and only to that one.
func (p *proxy) arm(next cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.cuts = next, 0
}

// fired fails the test unless exactly one COMMIT was cut.
func (p *proxy) fired() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cuts != 1 {
		p.t.Errorf("%d COMMITs were cut, want 1", p.cuts)
	}
}

func (p *proxy) take() cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.next
	if p.next = passed; next != passed {
		p.cuts++
	}
	return next
}

func (p *proxy) connect(client, server net.Conn) {
	var mu sync.Mutex
	fate := passed
	end := func() { client.Close(); server.Close() }
	go func() { // requests, packet by packet
		defer end()
		for in := bufio.NewReader(client); ; {
			header := make([]byte, 4)
			if _, err := io.ReadFull(in, header); err != nil {
				return
			}
			packet := make([]byte, int(binary.LittleEndian.Uint32(append(header[:3:3], 0))))
			if _, err := io.ReadFull(in, packet); err != nil {
				return
			}
			if string(packet) == "\x03COMMIT" {
				mu.Lock()
				fate = p.take()
				mu.Unlock()
				if fate == neverSent {
					return
				}
			}
			if _, err := server.Write(append(header, packet...)); err != nil {
				return
			}
		}
	}()
	go func() { // answers
		defer end()
		for buffer := make([]byte, 64<<10); ; {
			n, err := server.Read(buffer)
			if err != nil {
				return
			}
			mu.Lock()
			f := fate
			mu.Unlock()
			switch f {
			case notAnswered:
				return
			case silence:
				continue
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
}
