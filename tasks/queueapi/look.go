package queueapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// maxPage bounds the tasks of one page, and maxOffset what an offset passes
	// over: a cursor costs the same on every page, an offset does not.
	maxPage   = 1000
	maxOffset = 10000

	// maxPages bounds how often a store is asked for one page of tasks that
	// match.
	maxPages = 50
)

// stats is a bounded count of a queue. More says that something was not counted
// to its end, so that the number is the least there is.
type stats struct {
	Active   int          `json:"activeCount"`
	Leased   int          `json:"leasedCount"`
	Archived int          `json:"archivedCount"`
	Failed   int          `json:"failedCount"`
	More     bool         `json:"more"`
	AsOf     int64        `json:"asOf"`
	Archive  archiveStats `json:"archive"`
	Classes  []classStats `json:"classes"`
}

type archiveStats struct {
	Succeeded int  `json:"succeededCount"`
	Failed    int  `json:"failedCount"`
	Cancelled int  `json:"cancelledCount"`
	More      bool `json:"more"`
}

type classStats struct {
	Class   string `json:"taskClass"`
	Active  int    `json:"activeCount"`
	Leased  int    `json:"leasedCount"`
	Waiting int    `json:"waitingCount"`
	Failed  int    `json:"failedCount"`
	More    bool   `json:"more"`
}

func (q *queue) count(ctx context.Context) (stats, error) {
	active, err := q.Store.Stats(ctx)
	if err != nil {
		return stats{}, err
	}
	archived, err := q.Store.CountArchived(ctx)
	if err != nil {
		return stats{}, err
	}
	s := stats{
		Archived: archived.Succeeded + archived.Failed + archived.Cancelled,
		More:     archived.More, AsOf: active.Now, Classes: []classStats{},
		Archive: archiveStats{archived.Succeeded, archived.Failed, archived.Cancelled, archived.More},
	}
	for _, c := range active.Classes {
		s.Active += c.Active
		s.Leased += c.Leased
		s.Failed += c.Failing
		s.More = s.More || c.More
		s.Classes = append(s.Classes, classStats{c.Class, c.Active, c.Leased, c.Waiting, c.Failing, c.More})
	}
	return s, nil
}

func showStats(c *call) (answer, error) {
	counted, err := c.queue.counts.get(c.r.Context())
	return answer{Data: counted}, err
}

// list answers a page of tasks by ascending id.
func list(c *call) (answer, error) {
	filter, offset, err := c.filter()
	if err != nil {
		return answer{}, err
	}
	data := c.r.URL.Query().Get("data")
	if data != "" && data != "1" && data != "0" {
		return answer{}, badRequest("data must be 0 or 1")
	}
	filter.WithoutData = data != "1"
	ctx, cancel := c.store()
	defer cancel()
	if filter.After, err = c.pass(ctx, filter, offset); err != nil {
		return answer{}, err
	}
	views := []taskView{}
	a := answer{}
	for range maxPages {
		if filter.After < 0 {
			break
		}
		page, err := c.queue.Store.List(ctx, filter)
		if err != nil {
			return answer{}, err
		}
		for _, r := range page.Tasks {
			v := view(r.Task, r.Archive)
			if !filter.WithoutData {
				v = v.withData(r.Data)
			}
			views = append(views, v)
		}
		filter.Limit -= len(page.Tasks)
		filter.After = page.Next
		a.Next = cursor(page.Next)
		if page.Next == 0 || filter.Limit < 1 {
			break
		}
	}
	a.Data = views
	return a, nil
}

// pass answers after which id the page begins, -1 when there are not so many
// tasks.
func (c *call) pass(ctx context.Context, filter tasks.Filter, offset int) (int64, error) {
	filter.WithoutData = true
	for calls := 0; offset > 0; calls++ {
		if calls == maxPages {
			return 0, badRequest("too many tasks have to be passed over; go on with the cursor")
		}
		filter.Limit = min(offset, maxPage)
		page, err := c.queue.Store.List(ctx, filter)
		if err != nil {
			return 0, err
		}
		offset -= len(page.Tasks)
		if filter.After = page.Next; page.Next == 0 {
			return -1, nil
		}
	}
	return filter.After, nil
}

func cursor(after int64) string {
	if after == 0 {
		return ""
	}
	return strconv.FormatInt(after, 10)
}

// filter reads the query of a listing.
func (c *call) filter() (f tasks.Filter, offset int, err error) {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil { // what cannot be read would count as absent
		return f, 0, badRequest("the query cannot be read: escape what is no letter or digit, also semicolons")
	}
	for name, values := range query {
		if len(values) > 1 {
			return f, 0, badRequest("the parameter %.40q is there more than once", name)
		}
		if !slices.Contains([]string{"state", "taskClass", "objectPHID", "containerPHID", "limit", "offset", "cursor", "data", "token"}, name) {
			return f, 0, badRequest("the parameter %.40q means nothing here", name)
		}
	}
	f = tasks.Filter{State: tasks.State(query.Get("state")), Class: query.Get("taskClass")}
	if f.State == "" {
		f.State = tasks.Active
	}
	if f.State != tasks.Active && f.State != tasks.Archived {
		return f, 0, badRequest("state must be %s or %s", tasks.Active, tasks.Archived)
	}
	if phid := query.Get("objectPHID"); phid != "" {
		f.Objects = []string{phid}
	}
	if phid := query.Get("containerPHID"); phid != "" {
		f.Containers = []string{phid}
	}
	limit, err := c.whole("limit", 100, 1, maxPage)
	if err != nil {
		return f, 0, err
	}
	from, err := c.whole("offset", 0, 0, maxOffset)
	if err != nil {
		return f, 0, err
	}
	if f.After, err = c.whole("cursor", 0, 1, 1<<62); err != nil {
		return f, 0, badRequest("cursor must be the next of an earlier page")
	}
	if f.After > 0 && from > 0 {
		return f, 0, badRequest("a page begins at a cursor or at an offset, not both")
	}
	f.Limit = int(limit)
	return f, int(from), nil
}

// show answers one task, active or archived, with its data and, where the store
// keeps them, its failed attempts.
func show(c *call) (answer, error) {
	id, err := strconv.ParseInt(c.taskID, 10, 64)
	if err != nil || id < 1 {
		return answer{}, badRequest("the id of a task is a whole number above 0")
	}
	ctx, cancel := c.store()
	defer cancel()
	record, err := c.queue.Store.Get(ctx, id)
	if err != nil {
		return answer{}, err
	}
	v := view(record.Task, record.Archive).withData(record.Data)
	attempts, err := c.queue.Store.Attempts(ctx, id, tasks.AttemptsKept)
	if err != nil && !errors.Is(err, tasks.ErrNoAttempts) {
		return answer{}, err
	}
	v.Attempts = viewAttempts(attempts)
	return answer{Data: v}, nil
}

// protocol is the version of this API: it changes when a client would have to.
const protocol = 1

func meta(c *call) (answer, error) {
	capabilities := []string{"attempts", "awaken", "cursor", "fence", "followups", "idempotency", "renew", "settle", "wait"}
	return answer{Data: map[string]any{
		"protocol": protocol, "instance": c.queue.name, "backend": c.queue.Backend, "capabilities": capabilities,
		"executionVersion": executionVersion, "leaseOutcomes": true, // what Gorge's workers ask for
		"limits": map[string]int64{
			"body": c.MaxBody, "tasks": int64(c.MaxTasks), "lease": maxLease, "wait": int64(c.MaxWait.Seconds()),
			"owner": tasks.MaxCaller, "leaseDuration": int64(c.LeaseTime.Seconds()), "retryWait": int64(c.RetryWait.Seconds()),
		},
	}}, nil
}

// health is the answer to probes, which want no envelope.
func health(status int, text string) answer {
	return answer{Data: map[string]string{"status": text}, plain: true, status: status}
}

func alive(*call) (answer, error) { return health(http.StatusOK, "ok"), nil }

// ready answers whether tasks of every instance can be leased and settled. Who
// asks is not known, so the reasons are for the log.
func ready(c *call) (answer, error) {
	for _, name := range slices.Sorted(maps.Keys(c.queues)) {
		if _, err := c.queues[name].ready.get(c.r.Context()); err != nil {
			c.Log.Warn().Str("instance", name).Err(err).Msg("queue API: not ready")
			return health(http.StatusServiceUnavailable, "unavailable"), nil
		}
	}
	return health(http.StatusOK, "ok"), nil
}

func (q *queue) readiness(ctx context.Context) (struct{}, error) {
	return struct{}{}, q.Store.Ready(ctx)
}
