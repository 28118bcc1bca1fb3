package conduit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"
)

// envelope is what every Conduit method answers: ConduitAPIResponse.
type envelope struct {
	result     json.RawMessage
	code, info string // not empty: the method failed
}

var title = regexp.MustCompile(`(?is)<title[^>]*>\s*(.*?)\s*</title>`)

// parseEnvelope answers the envelope of an answer. It refuses everything that is
// not wholly one, since what Phorge, PHP and proxies say instead proves nothing.
func parseEnvelope(status int, header http.Header, content []byte) (envelope, error) {
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if status != http.StatusOK || mediaType != "application/json" {
		return envelope{}, notConduit(status, header, content)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(content, &fields); err != nil {
		return envelope{}, fmt.Errorf("the answer is no Conduit envelope: %w", err)
	}
	result, has := fields["result"]
	rawCode, hasCode := fields["error_code"]
	if !has || !hasCode {
		return envelope{}, errors.New("the answer is no Conduit envelope: it has no result or no error_code")
	}
	if isNull(rawCode) {
		return envelope{result: result}, nil
	}
	e := envelope{}
	if err := json.Unmarshal(rawCode, &e.code); err != nil || e.code == "" {
		return envelope{}, fmt.Errorf("the answer is no Conduit envelope: its error_code is %.60q", rawCode)
	}
	_ = json.Unmarshal(fields["error_info"], &e.info) // for people only; anything else than text says nothing
	return e, nil
}

// notConduit says what came instead of an envelope, as far as a person needs it.
func notConduit(status int, header http.Header, content []byte) error {
	said := fmt.Sprintf("the server answered %d %.60q instead of an answer of Conduit", status, header.Get("Content-Type"))
	if to := header.Get("Location"); to != "" {
		return fmt.Errorf("%s, a redirect to %.200q: set the address that it leads to", said, to)
	}
	if page := title.FindSubmatch(content[:min(len(content), 64<<10)]); page != nil {
		said += fmt.Sprintf(", a page with the title %.120q", page[1])
	}
	if strings.HasPrefix(header.Get("Content-Type"), "text/html") && status <= http.StatusInternalServerError {
		said += "; if the Phorge does not know this host name, set conduit_host to the one of its base-uri"
	}
	return errors.New(said)
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }
