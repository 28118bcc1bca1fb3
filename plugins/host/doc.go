// Package host runs handler binaries: it reads the manifest, checks the
// binaries against their pins, starts them under hashicorp/go-plugin,
// supervises them and executes tasks in them.
//
// One process runs per binary. Its life is a small state machine:
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
// for ever.
//
// The Host is a tasks.Executor.
package host
