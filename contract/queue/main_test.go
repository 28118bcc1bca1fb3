package queue_test

import (
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
