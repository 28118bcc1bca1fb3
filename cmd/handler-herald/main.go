// Command handler-herald executes HeraldWebhookWorker, the class by which
// Phorge calls webhooks.
package main

import (
	"github.com/phorge-gantry/gantry/cmd/handler-herald/webhook"
	"github.com/phorge-gantry/gantry/plugins"
)

func main() { plugins.Serve(webhook.Handler()) }
