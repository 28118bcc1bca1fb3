// Package feed generates cases of the classes that publish the stories of the
// feed. The cases that were recorded are in the files beside it.
package feed

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/draw"
)

const (
	task   = "PHID-TASK-one00000000000000000"
	other  = "PHID-TASK-two00000000000000000"
	alice  = "PHID-USER-alice000000000000000"
	nobody = "PHID-USER-nobody00000000000000"
	herald = "PHID-APPS-PhabricatorHeraldApplication"

	key = 4294967296000001 // of the epoch 1000000
	uri = "http://{{receiver hook}}/feed"
)

// Generate answers a case: a story about a task, mostly one that loads, and a
// task of the queue for it.
func Generate(t *rapid.T) contract.Case {
	c := contract.Case{Name: "property", TaskClass: "FeedPublisherWorker"}
	if !draw.Chance(t, "publisher", 2) {
		c.TaskClass = "FeedPublisherHTTPWorker"
	}
	c.Data = data(t, c.TaskClass)
	c.Task = draw.Task(t)
	c.World.Options = options(t)
	c.World.Receivers = map[string]contract.Receiver{"hook": {Answers: []contract.Answer{answer(t)}}}
	c.World.Rows = rows(t)
	if c.World.Options["asana.workspace-id"] == "7" {
		// PHP keeps the providers that it saw first until it is started anew, as
		// it is when options change: so the two change together.
		c.World.Rows["auth.auth_providerconfig"] = []contract.Row{{
			"phid": "PHID-AUTH-jira0000000000000000", "providerClass": "PhabricatorJIRAAuthProvider",
			"providerType": "jira", "providerDomain": "jira", "isEnabled": 1, "properties": "{}",
		}}
	}
	return c
}

func data(t *rapid.T, class string) string {
	if draw.Chance(t, "odd data", 4) {
		return draw.Pick(t, "data", `null`, `[]`, `{"key":null}`, `{"key":[]}`, `{"key":-1}`, `{"key":7}`, `"key"`, `{`, `{"uri":"`+uri+`"}`)
	}
	text := fmt.Sprintf(draw.Pick(t, "key", `{"key":%d`, `{"key":"%d"`), key)
	if class == "FeedPublisherHTTPWorker" {
		to := quoted(uri)
		if draw.Chance(t, "other URI", 4) {
			to = draw.Pick(t, "uri", quoted(uri+"/"), `null`, `0`, `false`, `[]`, `""`)
		}
		text += `,"uri":` + to
	}
	return text + "}"
}

// options are few sets, because PHP is started anew for each.
func options(t *rapid.T) map[string]any {
	set := map[string]any{
		"phabricator.base-uri": "http://phorge.example.com/",
		"cluster.instance":     "feed",
		"feed.http-hooks":      []any{"http://b.example.com/é", uri},
	}
	if draw.Chance(t, "other options", 5) {
		switch draw.Pick(t, "options", "none", "asana", "all", "silent") {
		case "none":
			delete(set, "feed.http-hooks")
		case "asana":
			set["asana.workspace-id"] = "4711"
		case "all":
			set["asana.workspace-id"] = "7"
		case "silent":
			set["phabricator.silent"] = true
		}
	}
	return set
}

func answer(t *rapid.T) contract.Answer {
	a := contract.Answer{Status: draw.Pick(t, "status", 200, 200, 200, 201, 204, 299, 300, 304, 400, 404, 500, 503)}
	switch rapid.IntRange(0, 19).Draw(t, "answer") {
	case 0:
		a = contract.Answer{Reset: true}
	case 1:
		a = contract.Answer{Close: true}
	case 2:
		a.Delay = 10 * time.Millisecond
	case 3:
		a.Body = "a body\r\n\r\nHTTP/1.1 500 no"
	}
	return a
}

// rows are a story, what it is about, and what happened to that.
func rows(t *rapid.T) map[string][]contract.Row {
	world := map[string][]contract.Row{}
	if !draw.Chance(t, "no task", 5) {
		world["maniphest.maniphest_task"] = []contract.Row{{
			"id": rapid.IntRange(1, 99999).Draw(t, "id"), "phid": task, "authorPHID": alice, "status": "open", "priority": 90,
			"title": text(t, "title"), "viewPolicy": "no-one", "editPolicy": "no-one", "properties": "{}", "subtype": "default",
		}}
	}
	if !draw.Chance(t, "no user", 2) {
		world["user.user"] = []contract.Row{{
			"phid": alice, "userName": draw.Pick(t, "userName", "alice", "al.ice_1"), "realName": text(t, "realName"), "isApproved": 1,
			// What PHP would otherwise fill when it shows the user.
			"availabilityCache": `{"until":null,"eventPHID":null,"availability":null}`, "availabilityCacheTTL": 4294967295,
		}}
		world["user.user_cache"] = []contract.Row{{
			"userPHID": alice, "cacheIndex": "y_FPXujT93U3", "cacheKey": "user.profile.image.uri.v1", "cacheType": "user.profile",
			"cacheData": "ph88DaiCp.Ku,http://phorge.example.com/alice.png",
		}}
	}
	phids := transactions(t, world)
	world["feed.feed_storydata"] = []contract.Row{story(t, phids)}
	if !draw.Chance(t, "no reference", 5) {
		world["feed.feed_storyreference"] = []contract.Row{
			{"objectPHID": task, "chronologicalKey": key}, {"objectPHID": alice, "chronologicalKey": key},
		}
	}
	return world
}

func story(t *rapid.T, transactions []string) contract.Row {
	row := contract.Row{
		"id": 7, "phid": "PHID-STRY-one00000000000000000", "chronologicalKey": key,
		"storyType": "PhabricatorApplicationTransactionFeedStory", "authorPHID": draw.Pick(t, "storyAuthor", alice, nobody, herald, ""),
	}
	about := task
	if draw.Chance(t, "about", 5) {
		about = draw.Pick(t, "object", "PHID-DREV-none0000000000000000", "PHID-TASK-gone0000000000000000")
	}
	members := []string{`"objectPHID":` + quoted(about)}
	if draw.Chance(t, "token", 2) {
		row["storyType"] = "PhabricatorTokenGivenFeedStory"
		members = append(members, `"authorPHID":`+quoted(draw.Pick(t, "giver", alice, nobody, herald, "PHID-APPS-Nothing")),
			`"tokenPHID":"PHID-TOKN-`+draw.Pick(t, "token", "like-1", "heart-2", "medal-4", "coin-3", "misc-2", "emoji-1", "none")+`"`)
	} else {
		if draw.Chance(t, "a transaction is gone", 4) {
			transactions = append(transactions, "PHID-XACT-TASK-gone00000000000")
		}
		list, _ := json.Marshal(transactions)
		members = append(members, `"transactionPHIDs":`+string(list))
	}
	for range rapid.IntRange(0, 3).Draw(t, "extras") {
		members = append(members, quoted(text(t, "key"))+":"+anyJSON(t, 3))
	}
	row["storyData"] = "{" + strings.Join(rapid.Permutation(members).Draw(t, "members"), ",") + "}"
	if draw.Chance(t, "odd story", 6) {
		row["storyData"] = draw.Pick(t, "storyData", "null", "[]", "7", "{")
	}
	return row
}
