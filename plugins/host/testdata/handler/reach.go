package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/phorge-gantry/gantry/plugins"
)

// reach writes a row, sends a request to the address in the text of its order,
// and answers how a run without a shadow ends.
func reach(ctx context.Context, task *plugins.Task) error {
	var o order
	if err := task.Decode(&o); err != nil {
		return err
	}
	if o.Do == "exit" {
		os.Exit(4)
	}
	unlock, err := task.Lock(ctx, "webhook(A)")
	if err != nil {
		return err
	}
	defer unlock()
	var list []string
	if err := task.Option(ctx, "acme.list", &list); err != nil {
		return err
	}
	if _, err := task.DB("herald").Exec(ctx, "INSERT INTO hook (name) VALUES (?)", strings.Join(list, " ")+" caf\xe9"); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, o.Text, strings.NewReader("caf\xe9"))
	if err != nil {
		return err
	}
	request.Header["X-Caf\xe9"] = []string{"\xe9", "b"}
	client := &http.Client{Transport: task.Transport(refusing{})}
	response, err := client.Do(request)
	if err != nil {
		return plugins.Fail(err)
	}
	response.Body.Close()
	if o.Do == "panic" {
		panic(fmt.Sprint("after ", response.Status))
	}
	return nil
}

// refusing sends nothing.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("really sent")
}
