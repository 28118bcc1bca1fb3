// Package contract says what it means that Go does what PHP did.
//
// A Case is one task and the World that it starts in. Running it on a side,
// PHP or Go, yields an Observation: what the task came to, what it changed in
// the databases, and what it sent. Observations of one case are compared after
// what chance and the clock decide was given common names; see Normalise. What
// PHP does is recorded as a golden observation, so that Go can be held against
// it where there is no Phorge.
//
// This package is the vocabulary and the comparison. Package contract/stage
// runs cases, contract/scratch provides what they run on.
package contract
