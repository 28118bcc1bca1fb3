package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const twoInstances = `
slots: 8
lease: 30s
php: off
classes: {All: {slots: 1}}
instances:
  alpha:
    dsn: u@tcp(db:3306)/alpha_worker
    slots: 3
    classes: {Own: {slots: 2}}
  beta: {sqlite: beta.db, php: auto}
`

func TestAnInstanceHasItsOwnSettingsOverThoseOfTheFile(t *testing.T) {
	c, err := load(t, twoInstances, []string{"GANTRY_LEASE=20s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.instances) != 2 || c.Slots != 8 || len(c.queues()) != 2 {
		t.Fatalf("instances %v, slots %d", c.instances, c.Slots)
	}
	alpha, beta := c.instances[0], c.instances[1]
	if alpha.Instance != "alpha" || alpha.DSN != "u@tcp(db:3306)/alpha_worker" || alpha.Slots != 3 || alpha.PHP != "off" || alpha.SQLite != "" {
		t.Errorf("alpha is %+v", alpha)
	}
	if len(alpha.Classes) != 2 || *alpha.Classes["Own"].Slots != 2 || *alpha.Classes["All"].Slots != 1 {
		t.Errorf("the classes of alpha are %+v", alpha.Classes)
	}
	if beta.Instance != "beta" || beta.DSN != "" || filepath.Base(beta.SQLite) != "beta.db" || !filepath.IsAbs(beta.SQLite) || beta.Slots != 8 || beta.PHP != "auto" || len(beta.Classes) != 1 {
		t.Errorf("beta is %+v", beta)
	}
	for _, one := range c.instances {
		if one.Lease != 20*time.Second || one.origin["lease"] != "environment" || !strings.HasSuffix(one.origin["php"], "gantry.yaml") {
			t.Errorf("%s: lease %v from %s, php from %s", one.Instance, one.Lease, one.origin["lease"], one.origin["php"])
		}
	}
}

func TestACommandForOneQueueIsToldWhichInstance(t *testing.T) {
	c, err := load(t, twoInstances, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.one(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "say which one with --instance; they are alpha, beta") {
		t.Errorf("without a name: %v", err)
	}
	c, err = load(t, twoInstances, []string{"GANTRY_INSTANCE=beta"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if one, err := c.one(); err != nil || one.Instance != "beta" || filepath.Base(one.SQLite) != "beta.db" {
		t.Errorf("with a name: %+v, %v", one, err)
	}
}

func TestWhoeverNamesAStoreMeansNoInstance(t *testing.T) {
	c, err := load(t, twoInstances, nil, []string{"--sqlite=q.db"})
	if err != nil {
		t.Fatal(err)
	}
	if one, err := c.one(); err != nil || one.SQLite != "q.db" || c.instances != nil {
		t.Errorf("%+v, %v", one, err)
	}
}

func TestInstancesMayShareARedis(t *testing.T) {
	c, err := load(t, "redis: redis://db:6379/0\ninstances: {alpha: , beta: {slots: 2}}", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range c.queues() {
		if one.Redis != "redis://db:6379/0" || one.backend() != "redis" {
			t.Errorf("%s: %q", one.Instance, one.Redis)
		}
	}
}

func TestAQueueIsCalledAsItsInstanceOrItsNamespace(t *testing.T) {
	for _, c := range []struct {
		c    config
		want string
	}{
		{config{DSN: "u@tcp(db:3306)/acme_worker"}, "acme"},
		{config{SQLite: "q.db"}, "default"},
		{config{Redis: "redis://db/"}, "default"},
		{config{SQLite: "q.db", Instance: "jobs"}, "jobs"},
	} {
		if got, err := c.c.instanceName(); err != nil || got != c.want {
			t.Errorf("it is called %q, %v; want %q", got, err, c.want)
		}
	}
}

func TestCheckShowsTheSettingsOfInstancesWithoutSecrets(t *testing.T) {
	c, err := load(t, `
instances:
  alpha: {dsn: "u:hunter2@tcp(db:3306)/alpha_worker"}
  beta: {redis: "redis://u:hunter2@db/1?token=hunter2"}
`, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, r := range c.report() {
		if strings.Contains(r.Value, "hunter") {
			t.Errorf("%s shows a password: %s", r.Name, r.Value)
		}
		shown = append(shown, r.Name+"="+r.Value)
	}
	for _, want := range []string{
		"instances.alpha.dsn=u:***@tcp(db:3306)/alpha_worker", "instances.alpha.instance=alpha", "instances.beta.redis=redis://u:***@db/1?***",
	} {
		if !slices.Contains(shown, want) {
			t.Errorf("%s is not shown: %v", want, shown)
		}
	}
}
