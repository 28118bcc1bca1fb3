// Package queueapi is the queue as a service: an http.Handler with which
// programs that are not Phorge enqueue, lease and settle tasks. It works on any
// tasks.Service and speaks the API that Gorge's task queue publishes, so its
// clients can switch without a change; what is more are fences, many outcomes in
// one call, idempotency keys and waiting for work.
//
// openapi.yaml describes every path; a test holds it against routes.go and
// every answer of the other tests against its schemas.
//
// A call goes through ServeHTTP (api.go): a request id, the route, the caller
// (auth.go), its rate, and then the handler of the route, which reads the body
// (request.go), asks the store and answers data or an error; respond.go writes
// either into the envelope. The caller's token alone says which instance it
// works on: nothing in a request can name another one.
//
// Who leases names itself in X-Lease-Owner. What stands in the row is that name
// and the fence of the lease, tasks.Caller; callers see the two apart. Whoever
// settles gives the fence back, and a settlement under another one changes
// nothing. Without a fence the row is looked at first and the name alone
// compared: two processes that call themselves the same can then settle each
// other's tasks. Other than in a Gantry, an expired lease settles nothing: the
// caller renews it first, which works as long as nobody has taken the task.
//
// What a caller does is done whether or not it stays to hear the answer; only
// leases are given back when nobody is there to take them.
package queueapi
