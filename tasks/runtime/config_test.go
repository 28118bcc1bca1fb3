package runtime

import (
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks/storetest"
)

func TestBadConfigurationsAreRefusedByName(t *testing.T) {
	store := storetest.NewMemory(func() int64 { return 0 })
	good := only("A", &worker{})
	for _, c := range []struct {
		config Config
		says   string
	}{
		{Config{Classes: good}, "store"},
		{Config{Store: store}, "class"},
		{Config{Store: store, Classes: good, Slots: -1}, "Slots is -1"},
		{Config{Store: store, Classes: good, LeaseTime: time.Millisecond}, "LeaseTime is 1ms"},
		{Config{Store: store, Classes: map[string]Class{"A": {}}}, `class "A": it has no executor`},
		{Config{Store: store, Classes: map[string]Class{"A": {Executor: &worker{}, Deadline: -1}}}, "Deadline is -1ns"},
		{Config{Store: store, Classes: good, OtherClasses: func() []string { return nil }}, "OtherClasses is set and Others is not"},
		{Config{Store: store, Others: &Class{}}, "the other classes: it has no executor"},
		{Config{Store: store, Others: &Class{Executor: &worker{}, Limit: &Limit{}}}, "its limit does not say how many slots"},
	} {
		if _, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("New answers %v, want it to say %q", err, c.says)
		}
	}
}
