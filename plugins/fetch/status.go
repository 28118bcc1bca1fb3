package fetch

import "fmt"

// Status is what came of a request, as an HTTPFutureResponseStatus.
type Status struct {
	Kind Kind
	Code int // of the kind: an HTTP status, or a number of libcurl
}

// Kind says whose code a Status holds.
type Kind string

// The kinds of a Status, by the names that Phorge gives them.
const (
	HTTP  Kind = "HTTP"  // HTTPFutureHTTPResponseStatus
	CURL  Kind = "cURL"  // HTTPFutureCURLResponseStatus
	Parse Kind = "Parse" // HTTPFutureParseResponseStatus; its code is 1
)

// IsTimeout reports whether the time was over before the response was there.
func (s Status) IsTimeout() bool { return s.Kind == CURL && s.Code == codeTimeout }

// IsError reports whether this is anything but a response with a status of 2xx.
func (s Status) IsError() bool {
	return s.Kind != HTTP || s.Code < 200 || s.Code > 299
}

func (s Status) String() string { return fmt.Sprintf("%s/%d", s.Kind, s.Code) }

// Numbers of libcurl, as observed of 7.88 under HTTPSFuture.
const (
	codeProtocol  = 1  // CURLE_UNSUPPORTED_PROTOCOL; also for what is no HTTP
	codeURL       = 3  // CURLE_URL_MALFORMAT
	codeResolve   = 6  // CURLE_COULDNT_RESOLVE_HOST
	codeConnect   = 7  // CURLE_COULDNT_CONNECT
	codeServer    = 8  // CURLE_WEIRD_SERVER_REPLY
	codePartial   = 18 // CURLE_PARTIAL_FILE
	codeMemory    = 27 // CURLE_OUT_OF_MEMORY; for a header that is too long
	codeTimeout   = 28 // CURLE_OPERATION_TIMEDOUT
	codeTLS       = 35 // CURLE_SSL_CONNECT_ERROR
	codeArgument  = 43 // CURLE_BAD_FUNCTION_ARGUMENT; for what follows the last chunk
	codeRedirects = 47 // CURLE_TOO_MANY_REDIRECTS
	codeNothing   = 52 // CURLE_GOT_NOTHING
	codeSend      = 55 // CURLE_SEND_ERROR
	codeReceive   = 56 // CURLE_RECV_ERROR
	codeVerify    = 60 // CURLE_PEER_FAILED_VERIFICATION
	codeEncoding  = 61 // CURLE_BAD_CONTENT_ENCODING
)

// curlError is a failure by libcurl's number.
type curlError struct {
	code int
	err  error // may be nil
}

func (e *curlError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("cURL/%d", e.code)
	}
	return fmt.Sprintf("cURL/%d: %v", e.code, e.err)
}

func (e *curlError) Unwrap() error { return e.err }

// parseError says that libcurl is content with a response and Phorge is not.
type parseError struct{ reason string }

func (e *parseError) Error() string { return e.reason }

// refusedError says that a redirect leads to an address that may not be called.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
