package mutation

const (
	handlerGo = "cmd/handler-herald/webhook/handler.go"
	requestGo = "cmd/handler-herald/webhook/request.go"
	payloadGo = "cmd/handler-herald/webhook/payload.go"
	objectsGo = "cmd/handler-herald/webhook/objects.go"
	publishGo = "cmd/handler-feed/feed/publisher.go"
	httpGo    = "cmd/handler-feed/feed/http.go"
	storyGo   = "cmd/handler-feed/feed/story.go"
	storyText = "cmd/handler-feed/feed/text.go"
	shownGo   = "cmd/handler-feed/feed/transaction.go"
	fetchGo   = "plugins/fetch/fetch.go"
	statusGo  = "plugins/fetch/status.go"
	jsonGo    = "plugins/phpenc/json.go"
	formGo    = "plugins/phpenc/form.go"
)

// faults are what somebody could get wrong without noticing.
var faults = []fault{
	// What is sent.
	{"a call without its Content-Type", "herald", handlerGo,
		`{Name: "Content-Type", Value: "application/json"},`, ``, "payload-bare"},
	{"the signature under another name", "herald", handlerGo,
		`"X-Phabricator-Webhook-Signature"`, `"X-Phorge-Webhook-Signature"`, "payload-bare"},
	{"a signature by another digest", "herald", payloadGo,
		`hmac.New(sha256.New, `, `hmac.New(sha256.New224, `, "payload-bare"},
	{"a signature of the body without its last newline", "herald", payloadGo,
		`mac.Write([]byte(payload))`, `mac.Write([]byte(payload[:len(payload)-1]))`, "payload-bare"},
	{"a body without its last newline", "herald", jsonGo,
		`return w.String() + "\n"`, `return w.String()`, "payload-bare"},
	{"a body with other indentation", "herald", jsonGo,
		`strings.Repeat("  ", depth)`, `strings.Repeat("    ", depth)`, "payload-bare"},
	{"an empty list as an empty map", "herald", jsonGo,
		`w.WriteString("[]")`, `w.WriteString("{}")`, "payload-bare"},
	{"slashes that are escaped", "herald", jsonGo,
		`jsonWriter{plainSlashes: true}`, `jsonWriter{}`, "payload-triggers-odd"},
	{"the time of the request is another number", "herald", payloadGo,
		`Value: r.dateCreated}`, `Value: r.id}`, "payload-bare"},
	{"a flag that is not there is null", "herald", payloadGo,
		"if !ok {\n\t\treturn false\n\t}", "if !ok {\n\t\treturn nil\n\t}", "payload-flags-missing"},
	{"the transactions oldest first", "herald", objectsGo,
		`ORDER BY id DESC`, `ORDER BY id`, "payload-transactions"},
	{"the name of another program", "herald", fetchGo,
		`"Arcanist/1.0 Gantry"`, `"Gantry/1.0"`, "payload-bare"},
	{"a call without Accept", "herald", fetchGo,
		`, "Accept": {"*/*"}`, ``, "payload-bare"},
	{"a call that asks for no gzip", "herald", fetchGo,
		`header.Set("Accept-Encoding", "gzip")`, `header.Set("Accept-Encoding", "identity")`, "payload-bare"},
	{"a redirect that carries the body on", "herald", fetchGo,
		`withBody = false`, `withBody = true`, "redirect-303"},

	// What is stored.
	{"a request that was sent is left as it was", "herald", handlerGo,
		`status: statusSent,`, `status: statusQueued,`, "status-200"},
	{"a call that failed for good is left as it was", "herald", handlerGo,
		`= resultFail, statusFailed`, `= resultFail, statusQueued`, "status-500"},
	{"the time of the call is not stored", "herald", handlerGo,
		`called: true}`, `called: false}`, "status-200"},
	{"the time of the change is not stored", "herald", requestGo,
		`, dateModified = UNIX_TIMESTAMP()`, ``, "silent"},
	{"the time of the change is that of the request", "herald", requestGo,
		`, dateModified = UNIX_TIMESTAMP()`, `, dateModified = dateCreated`, "silent"},
	{"the time of a call that succeeds is that of its beginning", "herald", handlerGo,
		`status, err := fetch.Do(`, "began := time.Now().Unix()\n" +
			"\tdefer func() { r.db.Exec(ctx, `UPDATE herald_webhookrequest SET lastRequestEpoch = ? WHERE id = ? AND status = 'sent'`, began, r.id) }()\n" +
			"\tstatus, err := fetch.Do(", "slow"},
	{"the time of a change after a success is that of the beginning", "herald", handlerGo,
		`status, err := fetch.Do(`, "began := time.Now().Unix()\n" +
			"\tdefer func() { r.db.Exec(ctx, `UPDATE herald_webhookrequest SET dateModified = ? WHERE id = ? AND status = 'sent'`, began, r.id) }()\n" +
			"\tstatus, err := fetch.Do(", "slow"},
	{"the time of a call that fails is that of its beginning", "herald", handlerGo,
		`status, err := fetch.Do(`, "began := time.Now().Unix()\n" +
			"\tdefer func() { r.db.Exec(ctx, `UPDATE herald_webhookrequest SET lastRequestEpoch = ? WHERE id = ? AND status <> 'sent'`, began, r.id) }()\n" +
			"\tstatus, err := fetch.Do(", "timeout"},
	{"the code of the error is stored as text", "herald", handlerGo,
		`errorCode: int64(status.Code)`, `errorCode: fmt.Sprint(status.Code)`, "status-404"},
	{"the code of the error is not stored", "herald", requestGo,
		`.With("errorCode", o.errorCode)`, ``, "silent"},
	{"a timeout is stored as an error of HTTP", "herald", handlerGo,
		`errorType = errorTypeTimeout`, `errorType = errorTypeHTTP`, "timeout"},
	{"another word for silent mode", "herald", requestGo,
		`errorSilent   = "silent"`, `errorSilent   = "muted"`, "silent"},
	{"another number for a connection that is refused", "herald", statusGo,
		`codeConnect   = 7 `, `codeConnect   = 6 `, "uri-closed"},
	{"another number for a receiver that says nothing", "herald", statusGo,
		`codeNothing   = 52`, `codeNothing   = 56`, "close"},
	{"another number for a certificate that nobody trusts", "herald", statusGo,
		`codeVerify    = 60`, `codeVerify    = 35`, "certificate"},
	{"a status of 300 taken for a success", "herald", statusGo,
		`s.Code > 299`, `s.Code > 300`, "status-300"},

	// What becomes of the task.
	{"another wait for the lock", "herald", handlerGo,
		`lockWait = 15 * time.Second`, `lockWait = 16 * time.Second`, "locked"},
	{"another name of the lock", "herald", handlerGo,
		`"webhook("+r.hook.phid+")"`, `"webhook("+r.phid+")"`, "locked"},
	{"one failure more until a webhook rests", "herald", requestGo,
		`backoffThreshold = 10`, `backoffThreshold = 11`, "backoff"},
	{"a webhook that rests for longer", "herald", requestGo,
		`backoffWindow    = 5 * time.Minute`, `backoffWindow    = 6 * time.Minute`, "backoff"},
	{"nothing is tried again", "herald", requestGo,
		`retryForever = "forever"`, `retryForever = "always"`, "status-500-forever"},
	{"a disabled webhook is called", "herald", requestGo,
		`hookDisabled = "disabled"`, `hookDisabled = "off"`, "disabled"},

	// The feed.
	{"the first wait twice as long", "feed", httpGo,
		`max(task.FailureCount, 1)`, `task.FailureCount+1`, "http-500"},
	{"silent mode the other way round", "feed", httpGo,
		`if phpenc.Truth(phpenc.DecodeJSON(silent))`, `if !phpenc.Truth(phpenc.DecodeJSON(silent))`, "http-silent"},
	{"a story without its id", "feed", httpGo,
		`{Key: "storyID", Value: s.id},`, ``, "http-comment"},
	{"a hook's error is a success", "feed", httpGo,
		`if status.IsError()`, `if status.Code == 0`, "http-404"},
	{"another epoch", "feed", storyGo,
		`int64(s.key >> 32)`, `int64(s.key >> 31)`, "http-comment"},
	{"a story that is gone is looked for again", "feed", storyGo,
		`missing := plugins.Fail(fmt.Errorf(`, `missing := error(fmt.Errorf(`, "publisher-story-missing"},
	{"true as a word in a form", "feed", formGo,
		`text = "1"`, `text = "true"`, "http-data"},
	{"null as an empty text in a form", "feed", formGo,
		"case nil:\n\t\treturn", "case nil:\n\t\ttext = \"\"", "http-data"},
	{"a space as %20 in a form", "feed", formGo,
		`encoded.WriteByte('+')`, `encoded.WriteString("%20")`, "http-comment"},
	{"plain brackets in a form", "feed", formGo,
		`key+"%5B"`, `key+"["`, "http-data"},
	{"follow-ups of the default priority", "feed", publishGo,
		`priority := task.Priority`, `priority := tasks.PriorityDefault`, "publisher-hooks"},
	{"JIRA is told although it is disabled", "feed", publishGo,
		`isEnabled = 1`, `isEnabled >= 0`, "publisher-jira-disabled"},
	{"a text without its full stop", "feed", storyText,
		`author + " created " + object + ".", nil`, `author + " created " + object, nil`, "http-creation"},
	{"the hidden transactions of a story show", "feed", shownGo,
		`case "subpriority", "parent", "token:give", "core:mfa":` + "\n\t\treturn true, true", `case "subpriority", "parent", "token:give", "core:mfa":` + "\n\t\treturn false, true", "publisher-hidden"},
}
