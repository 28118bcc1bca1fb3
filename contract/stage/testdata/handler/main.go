// Command handler is the handler binary of the tests of a stage.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/phorge-gantry/gantry/plugins"
)

func main() {
	plugins.Serve(plugins.Handler{
		Class: "AcmeWorker", Handle: handle,
		Databases: []string{"acme"}, Options: []string{"acme.name"},
	})
}

// handle puts a row with the name that the option says, and posts it. With
// "crash" for an address it ends its process, with "panic" it panics, and with
// "hang" it never returns.
func handle(ctx context.Context, task *plugins.Task) error {
	name := "nobody"
	if err := task.Option(ctx, "acme.name", &name); err != nil {
		return err
	}
	_, err := task.DB("acme").Exec(ctx, "INSERT INTO acme_thing (phid, name, bytes, flags, dateCreated) VALUES ('', ?, '', 0, 0)", name)
	if err != nil {
		return err
	}
	var to string
	if err := task.Decode(&to); err != nil {
		return err
	}
	switch to {
	case "crash":
		os.Exit(1)
	case "panic":
		fmt.Fprintln(os.Stderr, "what now?")
		panic("it went wrong")
	case "hang":
		fmt.Fprintln(os.Stderr, "waiting for nothing")
		select {}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+to, strings.NewReader(name))
	if err != nil {
		return err
	}
	response, err := task.Transport(nil).RoundTrip(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
