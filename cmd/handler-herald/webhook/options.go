package webhook

import (
	"context"
	"fmt"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/fetch"
	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

const (
	optionSilent    = "phabricator.silent"
	optionBlacklist = "security.outbound-blacklist"
)

func isSilent(ctx context.Context, task *plugins.Task) (bool, error) {
	var value rawOption
	err := task.Option(ctx, optionSilent, &value)
	return phpenc.Truth(value.decoded), err
}

// rawOption is the value of an option, as PHP reads it.
type rawOption struct{ decoded any }

// UnmarshalJSON implements json.Unmarshaler.
func (o *rawOption) UnmarshalJSON(data []byte) error {
	o.decoded = phpenc.DecodeJSON(data)
	return nil
}

// invalidURI says that a webhook must not be called.
type invalidURI struct{ err error }

func (e *invalidURI) Error() string { return e.err.Error() }
func (e *invalidURI) Unwrap() error { return e.err }

// check answers whether a URI may be called. The error is an invalidURI if it
// may not.
func check(ctx context.Context, task *plugins.Task, uri string) (*fetch.Checked, error) {
	option := rawOption{phpenc.List(defaultBlacklist)}
	if err := task.Option(ctx, optionBlacklist, &option); err != nil {
		return nil, err
	}
	blocks, err := blocksOf(option.decoded)
	if err != nil {
		return nil, err
	}
	blacklist, err := fetch.ParseBlacklist(blocks)
	if err != nil {
		return nil, &invalidURI{fmt.Errorf("%s: %w", optionBlacklist, err)}
	}
	checked, err := blacklist.Check(ctx, uri)
	if err != nil && ctx.Err() == nil {
		return nil, &invalidURI{err}
	}
	return checked, err
}

// defaultBlacklist is what security.outbound-blacklist is where nobody set it:
// the special and reserved blocks of IANA.
var defaultBlacklist = []string{
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
	// Its IPv6 blocks are left out: only IPv4 addresses are called.
}

// blocksOf answers the blocks that an option holds.
func blocksOf(option any) ([]string, error) {
	list, ok := option.(phpenc.Array)
	if !ok {
		return nil, fmt.Errorf("%s is no list", optionBlacklist)
	}
	var blocks []string
	for _, pair := range list {
		block, ok := phpenc.Text(pair.Value)
		if !ok {
			return nil, fmt.Errorf("%s holds something that is no text", optionBlacklist)
		}
		blocks = append(blocks, block)
	}
	return blocks, nil
}
