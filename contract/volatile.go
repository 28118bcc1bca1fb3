package contract

import (
	"regexp"
	"strings"

	"github.com/phorge-gantry/gantry/tasks"
)

// What differs between any two runs of a case, or belongs to what runs it, is
// declared here and nowhere else. Everything else is compared to the byte.

// volatileTables are left out: tables, and databases, which end in a dot.
var volatileTables = map[string]string{
	"cache.":                        "caches come and go",
	"conduit.conduit_methodcalllog": "who calls over Conduit is logged, and a case does not say who calls",
	"daemon.":                       "whoever drains the queue reports there",
	"gantry.":                       "Gantry's own books",
	"multimeter.":                   "one request of a thousand is sampled",
	"worker.lisk_counter":           "ids are reserved in blocks; but no counter is ever set back",
}

// volatileColumns are compared by what their values mean.
var volatileColumns = map[string]struct {
	means  func(n *namer, c cell, value string) string
	reason string
}{
	"worker.worker_activetask.leaseOwner":    {(*namer).owner, "that of the case's lease is made of counters and chance; its crashes are kept"},
	"worker.worker_archivetask.leaseOwner":   {(*namer).owner, "that of the case's lease is made of counters and chance; its crashes are kept"},
	"worker.worker_activetask.leaseExpires":  {(*namer).expiry, "it counts from the moment of the lease or of the outcome; the distance is kept"},
	"worker.worker_archivetask.leaseExpires": {(*namer).expiry, "it counts from the moment of the lease or of the outcome; the distance is kept"},
	"worker.worker_archivetask.duration":     {(*namer).duration, "a success takes some microseconds, or not even one; anything else has 0"},
	"worker.worker_activetask.id":            {(*namer).task, "ids come from a counter that never goes back"},
	"worker.worker_archivetask.id":           {(*namer).task, "ids come from a counter that never goes back"},
	"worker.worker_activetask.dataID":        {(*namer).data, "ids come from a counter that never goes back"},
	"worker.worker_archivetask.dataID":       {(*namer).data, "ids come from a counter that never goes back"},
	"worker.worker_taskdata.id":              {(*namer).data, "ids come from a counter that never goes back"},
}

// volatileHeaders are compared in part.
var volatileHeaders = map[string]struct {
	means  func(value string) string
	reason string
}{
	"User-Agent": {agent, "behind Arcanist/1.0 stands the version of curl, or Gantry"},
}

// volatileTexts are looked for in all texts, of rows, requests and follow-ups.
var volatileTexts = []struct {
	find   *regexp.Regexp
	means  func(n *namer, found string) string
	reason string
}{
	{regexp.MustCompile(`\b127\.0\.0\.1:[0-9]+\b`), (*namer).address, "receivers get whatever port is free"},
	{tenDigits, (*namer).epoch, "the clock goes on; moments of a short run are all the same, of a long one those of its beginning, middle and end, and others keep their distance from its start"},
	{regexp.MustCompile(`\bPHID-[A-Z]{4}-(?:[a-z0-9]{20}|[A-Z]{4}-[a-z0-9]{15})\b`), (*namer).phid, "what is new has a random PHID; which one stands where is kept"},
}

// tenDigits are an epoch, from 2001 to 2286.
var tenDigits = regexp.MustCompile(`\b[0-9]{10}\b`)

// category answers what stands for the category of an outcome. The runtime
// names a failure without one as it does here. A temporary failure is one attempt,
// whether a PHP Exception, a PHP Error or an error in Go ended it. The others
// count no attempt, so nothing keeps their category.
func category(kind tasks.Kind, category string) string {
	switch {
	case kind == tasks.Retry && (category == "exception" || category == "error" || category == ""):
		return tasks.CategoryTemporary
	case kind == tasks.Failed && category == "":
		return tasks.CategoryPermanent
	case kind == tasks.Crashed && category == "":
		return tasks.CategoryCrash
	case kind == tasks.Yielded && category == "yield":
		return ""
	}
	return category
}

// installed is where a Phorge lies, in the message of a PHP Error. A reason is
// not compared, but is recorded, and says nothing of the machine.
var installed = regexp.MustCompile(`(^|[\s"'(])/[^\s"':]*/((?:phorge|arcanist)/)`)

var agents = regexp.MustCompile(`^Arcanist/1\.0 (cURL/[0-9][0-9A-Za-z.+-]*|Gantry)$`)

// agent keeps what PHP's HTTPSFuture says of itself, and plugins/fetch after it.
func agent(value string) string { return agents.ReplaceAllString(value, "Arcanist/1.0 {{curl}}") }

// counterTable is LiskDAO::COUNTER_TABLE_NAME, in whatever database.
const counterTable = ".lisk_counter"

// setBack names that a counter was set back, or is gone: ids would be given out
// twice. From where to where depends on what ran before.
func setBack(c *Change) {
	if !strings.HasSuffix(c.Table, counterTable) || c.Kind == Added {
		return
	}
	if c.Kind == Changed {
		v := c.Columns["counterValue"]
		if v.Before == nil || v.After == nil || natural(*v.After, *v.Before) >= 0 {
			return
		}
	}
	c.Columns = map[string]Values{"counterValue": {After: new("{{set back}}")}}
}

func (c Change) isSetBack() bool {
	v := c.Columns["counterValue"].After
	return v != nil && *v == "{{set back}}"
}
