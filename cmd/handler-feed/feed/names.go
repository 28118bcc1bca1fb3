package feed

// tokens are the names of PhabricatorTokenQuery, by PHID.
var tokens = map[string]string{
	"PHID-TOKN-like-1":  "Like",
	"PHID-TOKN-like-2":  "Dislike",
	"PHID-TOKN-heart-1": "Love",
	"PHID-TOKN-heart-2": "Heartbreak",
	"PHID-TOKN-medal-1": "Orange Medal",
	"PHID-TOKN-medal-2": "Grey Medal",
	"PHID-TOKN-medal-3": "Yellow Medal",
	"PHID-TOKN-medal-4": "Manufacturing Defect?",
	"PHID-TOKN-coin-1":  "Haypence",
	"PHID-TOKN-coin-2":  "Piece of Eight",
	"PHID-TOKN-coin-3":  "Doubloon",
	"PHID-TOKN-coin-4":  "Mountain of Wealth",
	"PHID-TOKN-misc-1":  "Pterodactyl",
	"PHID-TOKN-misc-2":  "Evil Spooky Haunted Tree",
	"PHID-TOKN-misc-3":  "Baby Tequila",
	"PHID-TOKN-misc-4":  "The World Burns",
	"PHID-TOKN-emoji-1": "100",
	"PHID-TOKN-emoji-2": "Party Time",
	"PHID-TOKN-emoji-3": "Y So Serious",
	"PHID-TOKN-emoji-4": "Dat Boi",
	"PHID-TOKN-emoji-5": "Cup of Joe",
	"PHID-TOKN-emoji-6": "Hungry Hippo",
	"PHID-TOKN-emoji-7": "Burninate",
	"PHID-TOKN-emoji-8": "Pirate Logo",
}

// statuses are what maniphest.statuses is unless an administrator sets it.
var statuses = map[string]struct {
	name   string
	closed bool
}{
	"open":      {"Open", false},
	"resolved":  {"Resolved", true},
	"wontfix":   {"Wontfix", true},
	"invalid":   {"Invalid", true},
	"duplicate": {"Duplicate", true},
	"spite":     {"Spite", true},
}

// priorities are what maniphest.priorities is unless an administrator sets it;
// untriaged is what maniphest.default-priority is.
var priorities = map[string]string{
	"100": "Unbreak Now!",
	"90":  "Needs Triage",
	"80":  "High",
	"50":  "Normal",
	"25":  "Low",
	"0":   "Wishlist",
}

const untriaged = "90"
