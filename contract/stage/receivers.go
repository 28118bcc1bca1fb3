package stage

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/phorge-gantry/gantry/contract"
)

// receivers listen on ports that stay the same as long as the stage lives, so
// that options that name one stay the same too and no PHP is started again for
// the sake of a port. Each case has an audience of its own; what connected
// before it belongs to nobody any more.
type receivers struct {
	listeners   map[string]net.Listener // by the name of the receiver
	closed      string                  // an address where nobody listens
	closedFD    int
	certificate tls.Certificate
	serving     sync.WaitGroup

	mu       sync.Mutex
	audience *audience
	accepted map[string]bool // addresses of clients, since the case began
	more     *sync.Cond      // with accepted
}

func newReceivers() *receivers {
	r := &receivers{listeners: map[string]net.Listener{}, closedFD: -1, audience: newAudience(nil)}
	r.more = sync.NewCond(&r.mu)
	return r
}

// open makes sure that the receivers of a world listen, and answers their
// addresses.
func (r *receivers) open(world contract.World) (map[string]string, error) {
	addresses := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(world.Receivers)) {
		l := r.listeners[name]
		if l == nil {
			var err error
			if l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
				return nil, fmt.Errorf("listen for the receiver %s: %w", name, err)
			}
			r.listeners[name] = l
			r.serving.Go(func() { r.accept(name, l) })
		}
		addresses[name] = l.Addr().String()
		if world.Receivers[name].TLS && r.certificate.Certificate == nil {
			var err error
			if r.certificate, err = selfSigned(); err != nil {
				return nil, fmt.Errorf("make a certificate for the receiver %s: %w", name, err)
			}
		}
	}
	return addresses, r.bindClosed()
}

// bindClosed takes a port without listening on it: whoever connects is refused,
// and nobody else can take it meanwhile.
func (r *receivers) bindClosed() error {
	if r.closedFD >= 0 {
		return nil
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket that nobody listens on: %w", err)
	}
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	var bound syscall.Sockaddr
	if err == nil {
		bound, err = syscall.Getsockname(fd)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("take a port that nobody listens on: %w", err), syscall.Close(fd))
	}
	r.closedFD, r.closed = fd, fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
	return nil
}

// begin has the receivers answer as the world says, until finish.
func (r *receivers) begin(world contract.World) *audience {
	a := newAudience(world.Receivers)
	a.certificate = r.certificate
	r.mu.Lock()
	defer r.mu.Unlock()
	r.audience, r.accepted = a, map[string]bool{}
	return a
}

// finish ends what begin began and answers the requests. A connection that
// nobody has accepted yet counts too: connections are accepted in turn, so all
// are when one of our own is.
func (r *receivers) finish(a *audience) ([]contract.Request, error) {
	for name := range a.receivers {
		own, err := net.Dial("tcp4", r.listeners[name].Addr().String())
		if err != nil {
			return nil, fmt.Errorf("connect to the receiver %s: %w", name, err)
		}
		r.mu.Lock()
		for !r.accepted[own.LocalAddr().String()] {
			r.more.Wait()
		}
		r.mu.Unlock()
		own.Close()
	}
	return a.finish(), nil
}

func (r *receivers) accept(name string, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // the stage is closed
		}
		r.mu.Lock()
		a := r.audience
		joined := a.join(conn)
		if r.accepted != nil {
			r.accepted[conn.RemoteAddr().String()] = true
		}
		r.more.Broadcast()
		r.mu.Unlock()
		if !joined {
			conn.Close()
			continue
		}
		r.serving.Go(func() { a.serve(name, conn.(*net.TCPConn)) })
	}
}

// Close ends the receivers.
func (r *receivers) Close() error {
	r.mu.Lock()
	r.audience.finish()
	r.mu.Unlock()
	var problems []error
	for _, l := range r.listeners {
		problems = append(problems, l.Close())
	}
	r.serving.Wait()
	if r.closedFD >= 0 {
		problems = append(problems, syscall.Close(r.closedFD))
		r.closedFD = -1
	}
	return errors.Join(problems...)
}

// selfSigned makes a certificate for 127.0.0.1 that nobody trusts.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "a receiver of contract tests"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
