package main

import (
	"slices"
	"strings"

	"github.com/rs/zerolog"
)

// feedPublisher queues a task for every publisher of feed stories that the
// libraries of a Phorge have. cmd/handler-feed does that in Go, where nobody
// knows of any but Phorge's own: of the tasks for the others, it would queue none.
const feedPublisher = "FeedPublisherWorker"

var phorgesPublishers = []string{"DoorkeeperAsanaFeedWorker", "DoorkeeperJIRAFeedWorker"}

// ofTheSite answers the publishers that are none of Phorge's own.
func ofTheSite(publishers []string) []string {
	return slices.DeleteFunc(slices.Clone(publishers), func(class string) bool { return slices.Contains(phorgesPublishers, class) })
}

// keeps reports whether PHP has to run a class although a handler takes it.
func (p *phpRoute) keeps(class string, log zerolog.Logger) bool {
	if class != feedPublisher || p.publishers == nil {
		return false
	}
	own := ofTheSite(p.publishers())
	if len(own) > 0 {
		log.Warn().Str("taskClass", class).Strs("publishers", own).
			Msg("libraries of the Phorge publish feed stories by classes of their own, which the handler does not know of: PHP keeps the class")
	}
	return len(own) > 0
}

// checkPublishers looks for publishers of feed stories that a handler would leave
// out.
func checkPublishers(php phpFound, taken map[string]bool) []finding {
	own := ofTheSite(php.publishers)
	if !taken[feedPublisher] || len(own) == 0 {
		return nil
	}
	return []finding{{warning, "class " + feedPublisher, "libraries of the Phorge publish feed stories by " + strings.Join(own, ", ") +
		", which the handler does not know of, so `gantry run` leaves the class to PHP: take it out of the manifest"}}
}
