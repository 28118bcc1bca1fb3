package live

import (
	"testing"

	"github.com/phorge-gantry/gantry/cmd/handler-herald/webhook"
	"github.com/phorge-gantry/gantry/contract"
	heraldcases "github.com/phorge-gantry/gantry/contract/cases/herald"
)

// TestWebhooksDrawnAtRandomComeToTheSameInPHPAndGo runs as many cases as
// GANTRY_PROPERTY_CASES says.
func TestWebhooksDrawnAtRandomComeToTheSameInPHPAndGo(t *testing.T) {
	b := openBoth(t, webhook.Handler())
	cases := drawn(t, heraldcases.Generate)
	b.compare(cases)
	if b.called < len(cases)/4 {
		t.Errorf("only %d of %d webhooks were called, too few to prove anything", b.called, len(cases))
	}
}

// TestLiveTheDefaultBlacklistIsPhorges asks both sides about an address of each
// block that Phorge refuses when nobody set security.outbound-blacklist.
func TestLiveTheDefaultBlacklistIsPhorges(t *testing.T) {
	b := openBoth(t, webhook.Handler())
	for _, address := range []string{
		"0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1", "169.254.169.254",
		"172.16.0.0", "172.31.255.255", "192.0.0.255", "192.0.2.1", "192.88.99.1", "192.168.255.255", "198.18.0.0",
		"198.19.255.255", "198.51.100.1", "203.0.113.255", "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255",
	} {
		c := webhookCase("http://" + address + ":1/")
		c.World.Options = nil
		for name, o := range map[string]contract.Observation{"PHP": b.run(c, b.php), "Go": b.run(c, b.own)} {
			if !failedWith(o, `"hook","errorCode":"uri"`) {
				t.Errorf("%s calls %s: %+v", name, address, o)
			}
		}
	}
}
