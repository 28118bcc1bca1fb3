package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const whenHelp = `A time is "now"; or counts from now, as "6 hours", "1 day 30 minutes" or "90s";
or is a date, as 2026-12-24, "2026-12-24 18:00" (in this machine's time zone) or
2026-12-24T18:00:00Z; or is an epoch in seconds.`

// units that a time from now is counted in, by the letters they begin with.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
}

var (
	fromNow     = regexp.MustCompile(`^(?:\d+\s*[a-z]+[\s,]*)+$`)
	fromNowPart = regexp.MustCompile(`(\d+)\s*([a-z]+)`)
)

// parseWhen answers the epoch that text names. Dates without a zone are in
// zone.
func parseWhen(text string, now int64, zone *time.Location) (int64, error) {
	text = strings.TrimSpace(text)
	if text == "now" {
		return now, nil
	}
	if fromNow.MatchString(strings.ToLower(text)) {
		return parseFromNow(strings.ToLower(text), now)
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.DateTime, time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return inRange(t.Unix())
		}
	}
	// A small number is a forgotten unit rather than a moment of 1970.
	if epoch, err := strconv.ParseInt(text, 10, 64); err == nil && epoch >= 1e9 {
		return inRange(epoch)
	}
	return 0, fmt.Errorf("%q is not a time; write for example now, \"6 hours\", 2026-12-24, or an epoch", text)
}

func parseFromNow(text string, now int64) (int64, error) {
	var sum float64
	for _, part := range fromNowPart.FindAllStringSubmatch(text, -1) {
		unit, ok := units[part[2]]
		if !ok {
			unit, ok = units[strings.TrimSuffix(part[2], "s")]
		}
		if !ok {
			return 0, fmt.Errorf("%q is not a unit of time; use seconds, minutes, hours, days or weeks", part[2])
		}
		n, _ := strconv.ParseFloat(part[1], 64)
		sum += n * unit.Seconds()
	}
	if sum > math.MaxUint32 {
		return 0, fmt.Errorf("%q is too far in the future for leaseExpires", text)
	}
	return inRange(now + int64(sum))
}

// inRange refuses what the leaseExpires column cannot hold.
func inRange(epoch int64) (int64, error) {
	if epoch < 0 || epoch > math.MaxUint32 {
		return 0, fmt.Errorf("%s is outside what leaseExpires can hold, which ends in 2106", time.Unix(epoch, 0).UTC().Format(time.DateOnly))
	}
	return epoch, nil
}
