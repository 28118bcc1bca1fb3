package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/phorge-gantry/gantry/bridge/gateway"
	"github.com/phorge-gantry/gantry/tasks/metrics"
	"github.com/phorge-gantry/gantry/tasks/token"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

// gatewaySettings are the settings of the gateway, but for tokens, which it
// shares with the API.
var gatewaySettings = []string{
	"gateway", "gateway_host", "gateway_ca", "gateway_listen", "gateway_certificate", "gateway_certificate_key",
	"gateway_query_token", "gateway_max_body",
}

func (a *app) gatewayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Stand in front of the Conduit of a Phorge, and let in who has a token",
		Long: `Pass calls of /api/METHOD on to a Phorge, from those who have a service token, and
for the methods that the token is for. The token, in X-Service-Token or as
Authorization: Bearer, goes no further; callers still authenticate themselves to
Phorge. What Phorge answers comes back byte for byte.

The file of tokens says who may call what, and how often; ` + "`gantry tokens new`" + ` writes
an entry, with --allow. Without a token for a gateway there is nobody to let in, and
it does not start.

The log goes to standard error, with a line for each call: who called what, and what
came of it. The first SIGTERM, SIGINT or SIGHUP lets the calls that are under way
end, within drain_timeout; a second stops at once. The certificate and the tokens are
read when it starts.`,
		Example: `  gantry tokens new build-server --allow 'conduit.ping,harbormaster.*' --tokens /etc/gantry/tokens.yaml
  gantry gateway --gateway https://phorge.example.com/ --tokens /etc/gantry/tokens.yaml
  gantry gateway --gateway http://127.0.0.1/ --gateway-host phorge.example.com --gateway-listen :8150`,
		Args: noArgs,
	}
	addFlags(cmd.Flags(), gatewaySettings...)
	addFlags(cmd.Flags(), "tokens", "metrics", "drain_timeout")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		return a.gateway(cmd.Context(), c)
	}
	return cmd
}

func (a *app) gateway(ctx context.Context, c *config) error {
	first, second, release := stopSignals(ctx)
	defer release()
	stop, cancel := stopAt(first, second, c.DrainTimeout)
	defer cancel()
	log := newLogger(a.err, a.environ, c)
	c.gorge.tell(log, append([]string{"tokens"}, gatewaySettings...)...)

	counts := metrics.New(readVersion().Version)
	g, err := c.newGateway(log, counts.Called)
	if err != nil {
		return err
	}
	defer g.Close()
	server := g.Server()
	if server.TLSConfig, err = c.gatewayTLS(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.GatewayListen)
	if err != nil {
		return coded{fmt.Errorf("gateway: %w", err), exitUsage}
	}
	log.Info().Str("version", readVersion().Version).Str("address", listener.Addr().String()).
		Bool("tls", server.TLSConfig != nil).Str("phorge", c.Gateway).Msg("taking calls for the Conduit of a Phorge")
	if server.TLSConfig == nil && !loopback(listener.Addr()) {
		log.Warn().Msg("without a certificate, what callers send can be read on the way, their tokens too: set gateway_certificate, or have something before it that speaks TLS")
	}
	hangUp, err := c.serveMetrics(counts, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer hangUp()
	context.AfterFunc(first, func() { log.Info().Msg("stopping; a second signal stops at once") })
	return serveUntil(first, stop, server, listener)
}

// serveUntil serves until first ends, and then answers what is under way until
// stop ends.
func serveUntil(first, stop context.Context, server *http.Server, listener net.Listener) error {
	ended := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			ended <- server.ServeTLS(listener, "", "")
			return
		}
		ended <- server.Serve(listener)
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("gateway: %w", err)
	case <-first.Done():
	}
	err := server.Shutdown(stop)
	if errors.Is(err, stop.Err()) {
		err = server.Close() // they have had their time
	}
	if ended := <-ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// newGateway makes the gateway of the configuration. called is told of each call.
func (c *config) newGateway(log zerolog.Logger, called func(method string, status int, took time.Duration)) (*gateway.Gateway, error) {
	if c.Gateway == "" {
		return nil, usagef("name the Phorge with --gateway, GANTRY_GATEWAY or gateway in the configuration file")
	}
	callers, err := c.gatewayCallers()
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(gateway.Config{
		URL: c.Gateway, Host: c.GatewayHost, CAFile: c.GatewayCA, Tokens: callers,
		QueryToken: c.GatewayQueryToken, MaxBody: int64(c.GatewayMaxBody), Called: called, Log: log,
	})
	if err != nil {
		return nil, coded{err, exitUsage}
	}
	return g, nil
}

// gatewayCallers answers who may call the gateway. Without a file it is whoever
// has the token of Gorge.
func (c *config) gatewayCallers() (callers []gateway.Token, err error) {
	if c.Tokens == "" && c.gorge.token != "" {
		return []gateway.Token{{Name: c.gorge.tokenIn, Digests: []string{token.Digest(c.gorge.token)}, Allow: []string{"*"}}}, nil
	}
	entries, _, err := readTokens(c.Tokens)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if len(e.Allow) > 0 {
			callers = append(callers, gateway.Token{
				Name: e.Name, Digests: []string{e.Digest}, Allow: e.Allow, Deny: e.Deny, Exempt: e.Exempt,
				Rate: token.Rate{PerSecond: e.Rate, Burst: e.Burst},
			})
		}
	}
	if len(callers) == 0 {
		return nil, usagef("the file of tokens %s has none for a gateway, so nobody may call: make one with `gantry tokens new NAME --allow METHODS`", c.Tokens)
	}
	return callers, nil
}

// gatewayTLS answers how the gateway speaks TLS; nil when it does not.
func (c *config) gatewayTLS() (*tls.Config, error) {
	if c.GatewayCertificate == "" && c.GatewayCertificateKey == "" {
		return nil, nil
	}
	if c.GatewayCertificate == "" || c.GatewayCertificateKey == "" {
		return nil, usagef("gateway_certificate and gateway_certificate_key go together: set both, or neither")
	}
	pair, err := tls.LoadX509KeyPair(c.GatewayCertificate, c.GatewayCertificateKey)
	if err != nil {
		return nil, coded{fmt.Errorf("gateway_certificate: %w", err), exitUsage}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// loopback reports whether only this machine reaches an address.
func loopback(address net.Addr) bool {
	at, err := netip.ParseAddrPort(address.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// checkGateway looks at the gateway, and asks the Phorge behind it.
func checkGateway(ctx context.Context, c *config) (findings []finding) {
	if c.Gateway == "" {
		return nil
	}
	add := func(l level, message string) { findings = append(findings, finding{l, "gateway", message}) }
	if _, err := c.gatewayTLS(); err != nil {
		add(problem, err.Error())
	}
	g, err := c.newGateway(zerolog.Nop(), nil)
	if err != nil {
		add(problem, err.Error())
		return findings
	}
	defer g.Close()
	if err := g.Ping(ctx); err != nil {
		add(problem, err.Error())
	} else {
		add(ok, c.Gateway+" is a Phorge that answers")
	}
	return findings
}
