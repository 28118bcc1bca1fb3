package feed

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

// errText says that the text of a story is not known here.
var errText = plugins.Decline("the text of the story needs more of Phorge than its rows")

// text answers what renderText of the story does: a string, or nil where PHP
// has an object, which http_build_query leaves out. That is so for every title
// with a handle that a modular transaction renders itself, because pht() makes
// HTML of it even where text is wanted.
func (s *story) text(ctx context.Context, task *plugins.Task) (any, error) {
	if err := speaksEnglish(ctx, task); err != nil {
		return nil, err
	}
	object := fmt.Sprintf("T%d: %s", s.object.id, s.object.title)
	if s.primary == nil {
		phid, _ := s.data.Get("authorPHID").(string)
		author, err := nameOf(ctx, task, phid)
		token, _ := s.data.Get("tokenPHID").(string)
		return fmt.Sprintf("%s awarded %s a %s token.", author, object, tokens[token]), err
	}
	author, err := nameOf(ctx, task, s.primary.author)
	if err != nil {
		return nil, err
	}
	return s.primary.title(ctx, task, author, object)
}

// speaksEnglish declines when PHP would not print Phorge's own English.
func speaksEnglish(ctx context.Context, task *plugins.Task) error {
	var override json.RawMessage
	if err := task.Option(ctx, "translation.override", &override); err != nil {
		return err
	}
	locale := "en_US"
	if err := task.Option(ctx, "locale.command", &locale); err != nil {
		return err
	}
	if phpenc.Truth(phpenc.DecodeJSON(override)) || locale != "en_US" {
		return plugins.Decline("Phorge's English is translated")
	}
	return nil
}

// nameOf answers the link name of an author's handle, which is there for users
// who are not, too. Other authors than users are declined, but for Herald.
func nameOf(ctx context.Context, task *plugins.Task, phid string) (name string, err error) {
	switch {
	case phid == "PHID-APPS-PhabricatorHeraldApplication":
		return "Herald", nil
	case !strings.HasPrefix(phid, "PHID-USER-"):
		return "", errText
	}
	err = task.DB("user").QueryRow(ctx, "SELECT userName FROM user WHERE phid = ?", phid).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return "Unknown Object (User)", nil
	}
	return name, err
}

// title answers what getTitleForFeed of ManiphestTransaction does for text.
func (x *transaction) title(ctx context.Context, task *plugins.Task, author, object string) (any, error) {
	before, isText := x.before.(string)
	after, isTextToo := x.after.(string)
	both := isText && isTextToo
	switch {
	case x.kind == "core:create", x.kind == "title" && x.before == nil:
		return author + " created " + object + ".", nil
	case x.kind == "title" && both:
		return fmt.Sprintf(`%s renamed %s from "%s" to "%s".`, author, object, before, after), nil
	case x.kind == "core:comment":
		return author + " added a comment to " + object + ".", nil
	case x.kind == "description":
		return author + " updated the task description for " + object + ".", nil
	case x.kind == "core:subscribers":
		return author + " updated subscribers of " + object + ".", nil
	case x.kind == "core:view-policy":
		return author + " changed the visibility for " + object + ".", nil
	case x.kind == "core:edit-policy", x.kind == "core:join-policy", x.kind == "core:interact-policy":
		policy := strings.TrimSuffix(strings.TrimPrefix(x.kind, "core:"), "-policy")
		return author + " changed the " + policy + " policy for " + object + ".", nil
	case x.kind == "cover-image" && x.before == nil:
		return author + " added a cover image to " + object + ".", nil
	case x.kind == "cover-image":
		return author + " updated the cover image for " + object + ".", nil
	case x.kind == "reassign" && isTextOrNull(x.before) && isTextOrNull(x.after):
		switch {
		case after == x.author:
			return author + " claimed " + object + ".", nil
		case !phpenc.Truth(x.after):
			return author + " placed " + object + " up for grabs.", nil
		}
		return nil, nil
	case x.rendersHandles():
		return nil, nil
	case x.kind == "status" && both:
		return x.statusTitle(ctx, task, author, object)
	case x.kind == "priority":
		return x.priorityTitle(ctx, task, author, object)
	}
	return nil, errText
}

// statusTitle answers that of ManiphestTaskStatusTransaction.
func (x *transaction) statusTitle(ctx context.Context, task *plugins.Task, author, object string) (any, error) {
	if err := unset(ctx, task, "maniphest.statuses"); err != nil {
		return nil, err
	}
	before, known := statuses[x.before.(string)]
	after, knownToo := statuses[x.after.(string)]
	switch {
	case !known || !knownToo:
		return nil, errText
	case x.flag("commitPHID"):
		return nil, nil
	case after.closed && !before.closed && after.name == "Duplicate":
		return author + " closed " + object + " as a duplicate.", nil
	case after.closed && !before.closed:
		return fmt.Sprintf(`%s closed %s as "%s".`, author, object, after.name), nil
	case !after.closed && before.closed:
		return fmt.Sprintf(`%s reopened %s as "%s".`, author, object, after.name), nil
	}
	return fmt.Sprintf(`%s changed the status of %s from "%s" to "%s".`, author, object, before.name, after.name), nil
}

// priorityTitle answers that of ManiphestTaskPriorityTransaction.
func (x *transaction) priorityTitle(ctx context.Context, task *plugins.Task, author, object string) (any, error) {
	if err := unset(ctx, task, "maniphest.priorities", "maniphest.default-priority"); err != nil {
		return nil, err
	}
	before, _ := phpenc.Text(x.before)
	after, _ := phpenc.Text(x.after)
	old, known := priorities[before]
	now, knownToo := priorities[after]
	if !known || !knownToo {
		return nil, errText
	}
	from, _ := strconv.Atoi(before)
	to, _ := strconv.Atoi(after)
	switch {
	case before == untriaged:
		return fmt.Sprintf(`%s triaged %s as "%s" priority.`, author, object, now), nil
	case from > to:
		return fmt.Sprintf(`%s lowered the priority of %s from "%s" to "%s".`, author, object, old, now), nil
	}
	return fmt.Sprintf(`%s raised the priority of %s from "%s" to "%s".`, author, object, old, now), nil
}

// unset declines when an administrator set one of the options.
func unset(ctx context.Context, task *plugins.Task, keys ...string) error {
	for _, key := range keys {
		var value json.RawMessage
		if err := task.Option(ctx, key, &value); err != nil {
			return err
		}
		if value != nil {
			return plugins.Decline("the option " + key + " is set")
		}
	}
	return nil
}
