// Package plugins is what the author of a handler binary imports: a Go
// program that executes tasks of Phorge's queue.
//
//	func main() {
//		plugins.Serve(plugins.Handler{
//			Class:  "AcmeGreetingWorker",
//			Handle: greet,
//		})
//	}
//
//	func greet(ctx context.Context, task *plugins.Task) error {
//		var data struct{ Name string }
//		if err := task.Decode(&data); err != nil {
//			return err
//		}
//		fmt.Fprintln(os.Stderr, "Hello", data.Name)
//		return nil
//	}
//
// A Handler answers to a subclass of PhabricatorWorker: Handle to doWork, and
// MaxRetries, WaitBeforeRetry and RequiredLease to the methods of like names.
// What Handle returns decides what becomes of the task:
//
//	nil              it succeeded; follow-ups given to Task.Queue are queued
//	Yield(d)         it waits for d; no failure is counted
//	Fail(err)        it failed for good
//	Decline(reason)  this one task goes to the fallback of its class
//	any other error  this attempt failed; the task is tried again later
//
// A panic is a failed attempt. What a handler prints, to standard output or
// standard error, is logged by Gantry. Its context ends when the task is
// cancelled, when its lease is lost and when Gantry dies; it should return
// soon after, because its process is killed otherwise. Traceparent finds in it
// the trace that the task is a part of.
//
// # The world outside
//
// A handler reaches the world through its Task, so that a run can be in shadow
// and a contract test can compare it with PHP:
//
//	task.DB(application)   a database of Phorge, and task.Transact in it
//	task.Option(key)       Phorge's configuration
//	task.Lock(name)        the locks that PHP takes too
//	task.Transport(base)   what an HTTP client sends through
//
// The handler names the databases and options in its Handler, and the manifest
// allows the binary to reach them by `phorge: true`. Gantry tells the process
// where they are, and their password, over the connection that it has with it;
// nothing of it is in an argument or a variable. See Site for how few
// connections a process has.
//
// In a shadow run (Handler.Shadow) requests are noted and not sent, writes are
// rolled back, and locks are not taken. What goes past the Task, a shadow run
// cannot hold back.
//
// Processes that a handler starts must stay in its process group: they are
// killed with it. One that leaves the group (setsid, setpgid, daemons) goes on
// running after its task was given up, beside the next run of that task.
//
// Gantry starts the binary, with an environment that holds only what the
// manifest passes through. A test needs no Gantry: see Handler.Execute, and
// Handler.ExecuteAt where a Phorge's databases are to be reached.
package plugins
