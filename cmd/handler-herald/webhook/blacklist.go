package webhook

import (
	"fmt"

	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

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
