package tracing

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// complainEvery bounds how often a collector that does not answer is logged.
const complainEvery = time.Minute

// complaints logs what the SDK has to say, which is that spans were lost.
type complaints struct {
	log zerolog.Logger

	mu       sync.Mutex
	last     time.Time
	unlogged int
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.last.IsZero() && now.Sub(c.last) < complainEvery {
		c.unlogged++
		return
	}
	c.log.Warn().Err(err).Int("unlogged", c.unlogged).Msg("traces: spans were lost; tasks go on")
	c.last, c.unlogged = now, 0
}
