package contract

import (
	"fmt"
	"strings"
	"time"
)

// Case is one task, and the world that it starts in.
//
// Every text of a case may hold placeholders, which stand for what is not known
// before it runs:
//
//	{{now}} {{now-300}} {{now+60}}  an epoch, from the database's clock at the start
//	{{receiver NAME}}               127.0.0.1:PORT of that receiver
//	{{closed}}                      127.0.0.1:PORT where nobody listens
type Case struct {
	// Name is unique among the cases of a folder: small letters, digits and
	// dashes. Goldens and reports carry it.
	Name string `yaml:"name"`

	// About says in a sentence what the case is there for.
	About string `yaml:"about,omitempty"`

	// TaskClass and Data are those of the task. Data is the stored bytes.
	TaskClass string `yaml:"taskClass"`
	Data      string `yaml:"data"`

	// Task holds what else the row says.
	Task TaskColumns `yaml:"task,omitempty"`

	// World is what the task finds.
	World World `yaml:"world,omitempty"`

	// Volatile is what differs from run to run of this class, beside what
	// differs always.
	Volatile []Volatile `yaml:"volatile,omitempty"`

	// Declines says that the Go handler is to hand this case to PHP, without a
	// trace of its own.
	Declines bool `yaml:"declines,omitempty"`

	// Deviation declares that Go does something else here on purpose. Its own
	// observation is recorded beside the golden one and is held as exactly.
	Deviation *Deviation `yaml:"deviation,omitempty"`
}

// TaskColumns are columns of the task's row, as in worker_activetask. Zero
// fields are what a task has that was just queued.
type TaskColumns struct {
	FailureCount  int     `yaml:"failureCount,omitempty"`
	Priority      *int    `yaml:"priority,omitempty"` // nil: 2000, the default of scheduleTask
	ObjectPHID    *string `yaml:"objectPHID,omitempty"`
	ContainerPHID *string `yaml:"containerPHID,omitempty"`
}

// World is what a task finds when it starts.
type World struct {
	// Options are options of Phorge's configuration.
	Options map[string]any `yaml:"options,omitempty"`

	// Rows are put into tables, which are named database.table without the
	// namespace: herald.herald_webhook.
	Rows map[string][]Row `yaml:"rows,omitempty"`

	// Receivers are HTTP servers, by name.
	Receivers map[string]Receiver `yaml:"receivers,omitempty"`

	// Locks are the names of PhabricatorGlobalLock that somebody else holds
	// while the task runs, as given to newLock: webhook(PHID-HWBH-1).
	Locks []string `yaml:"locks,omitempty"`
}

// ByOptions orders cases so that those with the same options come together: a
// process is started anew for each set.
func ByOptions(a, b Case) int {
	return strings.Compare(fmt.Sprint(a.World.Options), fmt.Sprint(b.World.Options))
}

// Row is a row by columns: text, whole numbers, true and false as 1 and 0, and
// null. A column that is not named gets its default, or the empty value of its
// type.
type Row map[string]any

// Receiver is an HTTP server that notes every request.
type Receiver struct {
	// TLS speaks HTTPS, with a certificate that nobody trusts.
	TLS bool `yaml:"tls,omitempty"`

	// Answers are given in turn, the last one again and again. None means 200
	// without a body.
	Answers []Answer `yaml:"answers,omitempty"`
}

// Answer is what a receiver does with one request.
type Answer struct {
	Status  int               `yaml:"status,omitempty"` // 200 when 0
	Headers map[string]string `yaml:"headers,omitempty"`
	Body    string            `yaml:"body,omitempty"`
	Delay   time.Duration     `yaml:"delay,omitempty"` // before the answer
	Reset   bool              `yaml:"reset,omitempty"` // no answer: the connection is cut by RST
	Close   bool              `yaml:"close,omitempty"` // no answer: the connection is closed
}

// Volatile declares that a column or a part of a request, or a part of its text,
// differs between two runs of the same side.
type Volatile struct {
	// Column is database.table.column; or request.target, request.body or
	// request.headers.NAME, of every request. Target and body need a pattern.
	Column string `yaml:"column"`

	// Pattern is a regular expression; what its first group, or else all of it,
	// matches is volatile. Empty: the whole value.
	Pattern string `yaml:"pattern,omitempty"`

	// Reason says why, for the reader of the case. Required.
	Reason string `yaml:"reason"`
}

// Deviation is a difference on purpose.
type Deviation struct {
	// ID names the entry of DEVIATIONS.md that gives the reason at length.
	ID string `yaml:"id"`

	// Reason says in a sentence what Go does instead and why.
	Reason string `yaml:"reason"`
}
