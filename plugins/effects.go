package plugins

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/plugins/pluginpb"
)

// Effects are what a shadow run would have done.
type Effects struct {
	Requests []Sent    // in the order in which they were made
	Writes   []Written // in the order in which they were run; none that its transaction undid
}

// Sent is a request that a shadow run did not send.
type Sent struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte
}

// Written is a statement whose changes a shadow run did not keep.
type Written struct {
	Database string   // the application
	Query    string   // as the handler gave it
	Args     []string // as text; NULL for nil
	Rows     int64    // changed
}

// message writes effects for the wire. The host reads them.
func (e Effects) message() *pluginpb.Effects {
	m := &pluginpb.Effects{}
	for _, r := range e.Requests {
		sent := &pluginpb.Sent{Method: []byte(r.Method), Url: []byte(r.URL), Body: r.Body}
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			sent.Headers = append(sent.Headers, &pluginpb.Header{Name: []byte(name), Values: bytesOf(r.Header[name])})
		}
		m.Requests = append(m.Requests, sent)
	}
	for _, w := range e.Writes {
		m.Writes = append(m.Writes, &pluginpb.Written{
			Database: strings.ToValidUTF8(w.Database, "\uFFFD"), Query: []byte(w.Query), Args: bytesOf(w.Args), Rows: w.Rows,
		})
	}
	return m
}

func bytesOf(texts []string) [][]byte {
	var all [][]byte
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	return all
}
