package main

import (
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/rs/zerolog"
)

func TestPHPKeepsTheClassWhosePublishersGoDoesNotKnow(t *testing.T) {
	h, err := host.New(host.Config{Manifest: &host.Manifest{Plugins: []host.Plugin{{Classes: map[string]host.Class{
		feedPublisher: {}, "FeedPublisherHTTPWorker": {},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		publishers []string
		kept       bool
	}{
		{"Phorge's own", phorgesPublishers, false},
		{"one of the site", []string{"AcmeFeedWorker", phorgesPublishers[0]}, true},
		{"PHP was not asked yet", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			php := (&standIn{}).route()
			php.publishers = func() []string { return c.publishers }
			classes, others := classesToRun(&config{Classes: map[string]classConfig{feedPublisher: {}}}, h, php, zerolog.New(&log))
			if classes["FeedPublisherHTTPWorker"].Route != "plugin" || others == nil {
				t.Errorf("the classes are %v", classes)
			}
			if route := map[bool]string{true: others.Route, false: "plugin"}[c.kept]; classes[feedPublisher].Route != route {
				t.Errorf("%s runs by %q, want %q", feedPublisher, classes[feedPublisher].Route, route)
			}
			if said := strings.Contains(log.String(), `"publishers":["AcmeFeedWorker"]`); said != c.kept {
				t.Errorf("the log is %s", log.String())
			}
			if classes, _ := classesToRun(&config{}, h, php, zerolog.Nop()); (classes[feedPublisher] == runtime.Class{}) != c.kept {
				t.Errorf("without settings of its own, the classes are %v", classes)
			}
		})
	}
}

func TestCheckNamesPublishersThatAHandlerDoesNotKnow(t *testing.T) {
	t.Setenv(role, "good")
	for _, c := range []struct {
		name, class, publisher string
		warns                  bool
	}{
		{"a publisher of the site", feedPublisher, "AcmeFeedWorker", true},
		{"one of Phorge's own", feedPublisher, "DoorkeeperJIRAFeedWorker", false},
		{"no handler takes the class", "AcmeWorker", "AcmeFeedWorker", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := command(t, newMemory(), "", "config", "check", "--phorge="+loading(t),
				"--plugins="+manifestOf(t, binary(t), c.class, "{}"), "--php-binary="+publishing(t, c.publisher))
			if warns := strings.Contains(findings(got), "warning  class FeedPublisherWorker: libraries of the Phorge publish feed stories by AcmeFeedWorker, "); warns != c.warns {
				t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
			}
		})
	}
}
