package redis

import (
	"math"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

var inf = math.Inf(1)

func TestMain(m *testing.M) { harness.Main(m) }
