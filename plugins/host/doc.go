// Package host runs handler binaries: it reads the manifest, checks the
// binaries against their pins, starts them under hashicorp/go-plugin,
// supervises them and executes tasks in them.
//
// One process runs per binary, and a second one once it is needed. Its life is a small state machine:
//
//	stopped ─▶ starting ─▶ ready ─▶ draining ─▶ stopped
//	              ▲  │                  │
//	              │  ▼                  │
//	              └─ backoff ◀──────────┘
//
// All the work of a process travels over one stream. A task that was sent is
// taken as started: when the process dies of itself, every task that it held
// counts as crashed, because any of them may be what killed it. That holds
// for tasks it had not got to yet by microseconds too; the other way round, a
// task that kills its process at once would never be counted and would do so
// for ever. Such suspects run alone from then on, in a second process of their
// binary, so that the culprit takes nobody down with it again (suspect.go).
//
// A binary that uses Phorge's databases is told of them once, when its process
// has started (site.go): that takes `phorge: true` in the manifest.
//
// The Host is a tasks.Executor. Its Shadow runs a task for show.
package host
