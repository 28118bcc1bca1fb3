package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/plugins/pluginpb"
	"github.com/phorge-gantry/gantry/tasks"
)

// TestMain is main when the test binary is started as a handler binary.
func TestMain(m *testing.M) {
	if os.Getenv(pluginpb.Handshake().MagicCookieKey) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestAHostRunsTasksOfFlood(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugins.yaml")
	content := "plugins:\n  - path: " + self + "\n    classes: {PhabricatorTestWorker: {}}\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Pin(path); err != nil {
		t.Fatal(err)
	}
	manifest, err := host.LoadManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Manifest: manifest})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !h.Ready("PhabricatorTestWorker") {
		t.Fatal(h.List()[0].Problem)
	}

	flooded := tasks.Task{ID: 1, Class: "PhabricatorTestWorker", Data: []byte(`{"duration":0}`)}
	if got := h.Execute(t.Context(), flooded, nil); got.Kind != tasks.Succeeded {
		t.Errorf("a task of flood came to %s: %s", got.Kind, got.Reason)
	}
	leased := tasks.Task{ID: 2, Class: "PhabricatorTestWorker", Data: []byte(`{"getRequiredLeaseTime":86400}`)}
	var lease time.Duration
	if got := h.Execute(t.Context(), leased, func(d time.Duration) { lease = d }); got.Kind != tasks.Succeeded || lease != 24*time.Hour {
		t.Errorf("a task that requires a day came to %s with %v", got.Kind, lease)
	}
	asleep := tasks.Task{ID: 3, Class: "PhabricatorTestWorker", Data: []byte(`{"duration":3600}`)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got := h.Execute(ctx, asleep, nil); got.Kind == tasks.Succeeded {
		t.Error("an hour passed in no time")
	}
	if restarts := h.List()[0].Restarts; restarts != 0 {
		t.Errorf("the sleeper had to be killed; %d restarts", restarts)
	}
}
