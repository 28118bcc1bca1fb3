package main

import (
	"context"
	"errors"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the queue over HTTP to other programs",
		Long: `Serve the queue over HTTP, so that programs that are not Phorge enqueue, lease and
settle tasks. GET /api/queue/openapi.yaml describes every path. The queue is that of
a Phorge, one SQLite file, which is made when it is not there, or a Redis; with
several instances, the token of a caller says which one it works on.

Without tokens it listens on this machine only, and everybody on it may do
everything. ` + "`gantry tokens new`" + ` makes tokens.

The log goes to standard error, with a line for each call. GET /readyz is 200 when
tasks can be leased and settled, else 503. The first SIGTERM, SIGINT or SIGHUP lets
the calls that are under way end, within drain_timeout; a second stops at once.`,
		Example: `  gantry serve --sqlite queue.db
  gantry serve --phorge /opt/phorge --api :8090 --tokens /etc/gantry/tokens.yaml`,
		Args: noArgs,
	}
	addFlags(cmd.Flags(), apiSettings...)
	addFlags(cmd.Flags(), "metrics", "drain_timeout", "pickup_delay")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		return a.serve(cmd.Context(), c)
	}
	return cmd
}

// serve joins stores and the API.
func (a *app) serve(ctx context.Context, c *config) error {
	first, second, release := stopSignals(ctx)
	defer release()
	stop, cancel := stopAt(first, second, c.DrainTimeout)
	defer cancel()
	log := newLogger(a.err, a.environ, c)
	c.gorge.tell(log, append([]string{"dsn"}, apiSettings...)...)

	seen := c.observe(log)
	defer func() { seen.close(second, log) }()
	queues, err := a.openQueues(log.WithContext(first), c)
	if err != nil {
		return err
	}
	defer closeQueues(queues)
	defer seen.metrics.Close() // before the stores
	for _, q := range queues {
		seen.metrics.Instance(q.name).Queue(q.store)
	}
	api, err := newAPI(c, queues, log)
	if err != nil {
		return err
	}
	listener, err := listenAPI(api, c)
	if err != nil {
		return err
	}
	hangUp, err := c.serveMetrics(seen.metrics, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer hangUp()
	announceAPI(log, queues, listener.Addr().String())
	context.AfterFunc(first, func() {
		log.Info().Msg("stopping; a second signal stops at once")
	})
	return api.Serve(first, stop, listener)
}

// announceAPI logs what is served, and where.
func announceAPI(log zerolog.Logger, queues []queue, address string) {
	for _, q := range queues {
		if err := untold(q.store); err != nil {
			log.Warn().Str("instance", q.name).Err(err).Msg("Gantry's own tables cannot be used")
		}
		log.Info().Str("version", readVersion().Version).Str("address", address).Str("instance", q.name).
			Str("store", q.config.storeName()).Msg("serving the queue over HTTP")
	}
}
