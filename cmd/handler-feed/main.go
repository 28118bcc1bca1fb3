// Command handler-feed executes FeedPublisherWorker and FeedPublisherHTTPWorker,
// which tell feed.http-hooks, Asana and JIRA of what happens. What it does not
// know of a story, PHP does: both classes need `fallback: php`.
package main

import (
	"github.com/phorge-gantry/gantry/cmd/handler-feed/feed"
	"github.com/phorge-gantry/gantry/plugins"
)

func main() { plugins.Serve(feed.Publisher(), feed.HTTPPublisher()) }
