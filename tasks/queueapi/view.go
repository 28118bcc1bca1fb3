package queueapi

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/phorge-gantry/gantry/tasks"
)

// taskView is a task as callers see it: the columns of Phorge, with the owner
// that a caller wrote taken apart.
type taskView struct {
	ID            int64   `json:"id"`
	Class         string  `json:"taskClass"`
	Owner         *string `json:"leaseOwner"`
	Fence         int64   `json:"fence,omitempty"`
	Expires       *int64  `json:"leaseExpires"`
	FailureCount  int     `json:"failureCount"`
	FailureTime   *int64  `json:"failureTime"`
	Priority      int     `json:"priority"`
	ObjectPHID    *string `json:"objectPHID"`
	ContainerPHID *string `json:"containerPHID"`
	DateCreated   int64   `json:"dateCreated"`
	DateModified  int64   `json:"dateModified"`

	// Data is the stored text as a string, byte for byte; base64 where that is
	// no UTF-8, which DataEncoding then says.
	Data         *string `json:"data,omitempty"`
	DataEncoding string  `json:"dataEncoding,omitempty"`

	Traceparent string `json:"traceparent,omitempty"` // of a leased task

	*tasks.Archive
	FollowUps []int64       `json:"followups,omitempty"`
	Attempts  []attemptView `json:"attempts,omitempty"`
}

// view shows a task without its data.
func view(t tasks.Task, a *tasks.Archive) taskView {
	v := taskView{
		ID: t.ID, Class: t.Class, Owner: t.Owner, Expires: t.Expires,
		FailureCount: t.FailureCount, FailureTime: t.FailureTime, Priority: t.Priority,
		ObjectPHID: t.ObjectPHID, ContainerPHID: t.ContainerPHID,
		DateCreated: t.DateCreated, DateModified: t.DateModified, Archive: a,
	}
	if t.Owner != nil {
		if caller, ok := tasks.ParseCaller(*t.Owner); ok {
			v.Owner, v.Fence = &caller.Name, caller.Fence
		}
	}
	return v
}

// withData shows the data as well.
func (v taskView) withData(data []byte) taskView {
	switch {
	case data == nil:
	case utf8.Valid(data):
		v.Data = new(string(data))
	default:
		v.Data, v.DataEncoding = new(base64.StdEncoding.EncodeToString(data)), "base64"
	}
	return v
}

// attemptView is a failed attempt, without the machine it failed on.
type attemptView struct {
	Number   int    `json:"attempt"`
	Route    string `json:"route"`
	Category string `json:"category"`
	Reason   string `json:"reason"`
	Duration int64  `json:"durationUs"`
	Epoch    int64  `json:"epoch"`
}

func viewAttempts(attempts []tasks.Attempt) []attemptView {
	views := make([]attemptView, len(attempts))
	for i, a := range attempts {
		views[i] = attemptView{a.Number, a.Route, a.Category, a.Reason, a.Duration, a.Epoch}
	}
	return views
}
