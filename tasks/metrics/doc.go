// Package metrics counts for Prometheus what the other rooms do. They know
// nothing of it: they report through small interfaces of their own, which the
// types here implement, and `gantry` joins the two.
//
// A scrape never scans a table. Depth, age and leases come from bounded counts of
// the store that are at most sampleEvery old, however often and by however many
// they are asked for, and a store that does not answer holds up no scrape for
// longer than a moment. Everything else is counted as it happens, or read from
// what a room has in memory.
//
// Names of classes come from whoever queues tasks, and so do the methods that are
// called through the gateway: each kind has a bounded number of values as a
// label, and what comes later is counted together, as "other". The classes that
// are known from the start are always told apart.
package metrics
