// Command handler-testworker executes PhabricatorTestWorker, the class that
// Phorge's own `bin/worker flood` queues. The task's data says what happens:
//
//	duration              seconds to sleep; fractions are allowed
//	doWork                fail-temporary, fail-permanent, or anything else to succeed
//	getRequiredLeaseTime  seconds
//	getMaximumRetryCount  a number
//	getWaitBeforeRetry    seconds
//
// Values are read as loosely as PHP reads them, so that both routes come to
// the same outcome for the same data.
package main

import "github.com/phorge-gantry/gantry/plugins"

func main() { plugins.Serve(handler()) }
