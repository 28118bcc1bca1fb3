package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"

	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

// payload answers the body of the call.
func (r *request) payload(transactions []string) (string, error) {
	triggers, ok := r.list("triggerPHIDs")
	if !ok {
		return "", fmt.Errorf("webhook request %s: its triggerPHIDs are no list", r.phid)
	}
	changed, triggered := []phpenc.Array{}, []phpenc.Array{}
	for _, phid := range transactions {
		changed = append(changed, phpenc.Array{{Key: "phid", Value: phid}})
	}
	for _, trigger := range triggers {
		triggered = append(triggered, phpenc.Array{{Key: "phid", Value: trigger.Value}})
	}
	return phpenc.EncodeFormatted(phpenc.Array{
		{Key: "object", Value: phpenc.Array{
			{Key: "type", Value: typeOf(r.objectPHID)},
			{Key: "phid", Value: r.objectPHID},
		}},
		{Key: "triggers", Value: phpenc.List(triggered)},
		{Key: "action", Value: phpenc.Array{
			{Key: "test", Value: r.flag("test")},
			{Key: "silent", Value: r.flag("silent")},
			{Key: "secure", Value: r.flag("secure")},
			{Key: "epoch", Value: r.dateCreated},
		}},
		{Key: "transactions", Value: phpenc.List(changed)},
	}), nil
}

// flag answers a property that is false when it is not there. Whatever it is,
// the receiver gets it.
func (r *request) flag(name string) any {
	value, ok := r.properties().Lookup(name)
	if !ok {
		return false
	}
	return value
}

// list answers a property that is an empty list when it is not there.
func (r *request) list(name string) (list phpenc.Array, ok bool) {
	value, ok := r.properties().Lookup(name)
	if !ok {
		return nil, true
	}
	list, ok = value.(phpenc.Array)
	return list, ok
}

// sign answers to PhabricatorHash::digestHMACSHA256.
func sign(payload, key string) (string, error) {
	if key == "" {
		return "", errors.New("the webhook has no key to sign with; regenerate it in Herald")
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(payload))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// redacted answers where a URI leads, without what may be secret: its login, its
// path and its query.
func redacted(uri string) string {
	parsed, err := url.Parse(uri)
	if err != nil || parsed.Host == "" {
		return "its URI"
	}
	return parsed.Scheme + "://" + parsed.Host
}
