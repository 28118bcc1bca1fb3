package queueapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// route is what one method on one path does.
type route struct {
	right  Right // none: any token
	open   bool  // needs no token
	handle func(*call) (answer, error)
	name   string // method and path
}

const tasksPath = "/api/queue/tasks/"

// routes are all the paths, by path and method. {id} stands for a segment.
var routes = map[string]map[string]route{
	"/api/queue/enqueue":       {http.MethodPost: {right: Enqueue, handle: enqueue}},
	"/api/queue/enqueue-event": {http.MethodPost: {right: Enqueue, handle: enqueueEvent}},
	"/api/queue/lease":         {http.MethodPost: {right: Work, handle: lease}},
	"/api/queue/complete":      {http.MethodPost: {right: Work, handle: complete}},
	"/api/queue/fail":          {http.MethodPost: {right: Work, handle: fail}},
	"/api/queue/yield":         {http.MethodPost: {right: Work, handle: yield}},
	"/api/queue/renew":         {http.MethodPost: {right: Work, handle: renew}},
	"/api/queue/settle":        {http.MethodPost: {right: Work, handle: settleMany}},
	"/api/queue/finalize":      {http.MethodPost: {right: Work, handle: finalize}},
	"/api/queue/resolve":       {http.MethodPost: {right: Work, handle: resolve}},
	"/api/queue/cancel":        {http.MethodPost: {right: Operate, handle: cancel}},
	"/api/queue/awaken":        {http.MethodPost: {right: Operate, handle: awaken}},
	"/api/queue/stats":         {http.MethodGet: {right: Read, handle: showStats}},
	"/api/queue/tasks":         {http.MethodGet: {right: Read, handle: list}},
	tasksPath + "{id}":         {http.MethodGet: {right: Read, handle: show}},
	"/api/queue/meta":          {http.MethodGet: {handle: meta}},
	"/":                        {http.MethodGet: {open: true, handle: alive}},
	"/healthz":                 {http.MethodGet: {open: true, handle: alive}},
	"/readyz":                  {http.MethodGet: {open: true, handle: ready}},
	"/metrics":                 {http.MethodGet: {right: Read, handle: metricsPage}},
	"/api/queue/openapi.yaml":  {http.MethodGet: {open: true, handle: document}},
}

// methodError: the path is there, the method is not.
type methodError struct{ allowed []string }

func (e *methodError) Error() string {
	return "this path takes " + strings.Join(e.allowed, ", ") + " only"
}

// find answers the route of a request. Paths are taken as they are: none is
// cleaned and redirected.
func find(r *http.Request) (route, string, error) {
	path, taskID := r.URL.Path, ""
	if id, ok := strings.CutPrefix(path, tasksPath); ok && id != "" && !strings.Contains(id, "/") {
		path, taskID = tasksPath+"{id}", id
	}
	methods, ok := routes[path]
	if !ok {
		return route{}, "", refuse(http.StatusNotFound, codeNotFound, "there is no such path; GET /api/queue/openapi.yaml has them all")
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http leaves the body out
	}
	found, ok := methods[method]
	if !ok {
		return route{}, "", fmt.Errorf("%w", &methodError{slices.Sorted(maps.Keys(methods))})
	}
	found.name = method + " " + path
	return found, taskID, nil
}
