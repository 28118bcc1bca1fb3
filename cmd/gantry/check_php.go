package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// phpFound is what a check knows of PHP.
type phpFound struct {
	route      string   // pool or conduit, or "" when nothing runs PHP
	why        string   // nothing does
	works      bool     // it answered
	classes    []string // that it runs
	publishers []string // of feed stories
	findings   []finding
}

// checkPHP starts one PHP process as the pool does, or asks worker.execute what
// it offers.
func checkPHP(ctx context.Context, c *config) phpFound {
	route, why, err := c.chooseRoute()
	found := phpFound{route: route, why: why}
	switch {
	case err != nil:
		found.why = err.Error()
		found.add(problem, err.Error())
	case route == "pool":
		err = found.pool(ctx, c)
	case route == "conduit":
		err = found.conduit(ctx, c)
	case c.PHP == "off":
		found.add(ok, "php is off: classes without a plugin stay in the queue")
	case !c.ofPhorge():
		found.add(ok, why)
	default:
		found.add(warning, "nothing runs PHP, so classes without a plugin stay in the queue: "+why)
	}
	if err != nil && found.findings == nil {
		found.add(problem, err.Error())
	}
	return found
}

func (f *phpFound) add(l level, message string) {
	f.findings = append(f.findings, finding{l, "php", message})
}

func (f *phpFound) pool(ctx context.Context, c *config) error {
	library, err := c.findLibrary()
	if err != nil {
		return err
	}
	one := *c
	one.PHPProcesses = "1"
	p, err := newPool(&one, zerolog.Nop())
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Start(ctx); err != nil {
		return err
	}
	state := p.State()
	if !state.Ready {
		f.add(problem, "the PHP processes of the pool do not start: "+state.Problem)
		return nil
	}
	f.works, f.classes, f.publishers = true, p.Classes(), p.Publishers()
	f.add(ok, fmt.Sprintf("the pool's processes start with the library %s: PHP %s, Phorge %s, %s",
		library, state.PHP, orDash(state.Phorge), plural(len(f.classes), "class", "classes")))
	return nil
}

func (f *phpFound) conduit(ctx context.Context, c *config) error {
	e, err := newConduit(c, zerolog.Nop())
	if err != nil {
		return err
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	began := time.Now()
	offer, err := e.Check(ctx)
	if err != nil {
		return err
	}
	f.works, f.classes, f.publishers = true, offer.TaskClasses, offer.Publishers
	f.add(ok, fmt.Sprintf("worker.execute answers at %s: PHP %s, Phorge %s, keys %s, %s",
		c.Conduit, offer.PHP, orDash(offer.Phorge), strings.Join(offer.KeyIDs, " and "), plural(len(f.classes), "class", "classes")))
	if len(f.classes) == 0 {
		f.add(problem, "it runs no class: name them there with bin/config set gantry.task-classes")
	}
	if apart := time.Unix(offer.DatabaseTime, 0).Sub(began).Abs(); apart > clockSlack {
		f.add(warning, fmt.Sprintf("the clock of the Phorge's database is %v from the one here, and calls are refused from a minute on: set both by NTP", apart.Round(time.Second)))
	}
	return nil
}

// clockSlack is how far apart clocks may be without a word. Calls are refused
// when they are a minute apart.
const clockSlack = 20 * time.Second

// judgeClass says what is wrong when a class is queued that no plugin takes.
func (f phpFound) judgeClass(class string) (finding, bool) {
	about := "class " + class
	switch {
	case f.route == "":
		return finding{warning, about, "tasks are queued and nothing here runs them; they stay as they are for whoever can"}, true
	case !f.works || slices.Contains(f.classes, class):
		return finding{}, false
	case f.route == "conduit":
		return finding{warning, about, "tasks are queued, no plugin takes them and gantry.task-classes of the Phorge does not name the class; they stay as they are"}, true
	}
	return finding{warning, about, "tasks are queued, no plugin takes them and PHP knows no such class; each attempt fails and is made again after 5 minutes: cancel them, or mend the spelling"}, true
}
