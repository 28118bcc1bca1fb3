package main

import (
	"context"
	"sync"

	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/rs/zerolog"
)

// startHeartbeat begins to tell Phorge that its queue is drained, until stop is
// called.
func startHeartbeat(c *config, log zerolog.Logger) (stop func(), err error) {
	dsn, err := c.daemonDSN()
	if err != nil {
		return nil, err
	}
	h, err := phorge.NewHeartbeat(phorge.HeartbeatConfig{DSN: dsn})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		h.Run(ctx, func(err error) {
			if err != nil {
				log.Warn().Err(err).Msg("Phorge will take it that its daemons do not run")
				return
			}
			log.Info().Msg("Phorge knows again that its queue is drained")
		})
	})
	return func() {
		cancel()
		running.Wait()
	}, nil
}
