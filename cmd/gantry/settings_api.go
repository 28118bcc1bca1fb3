package main

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
)

// defaultAPI is where gantry serve listens: the port is that of Gorge's task
// queue, so that its clients find ours there.
const defaultAPI = "127.0.0.1:8090"

func validAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return errors.New("must be a host and a port such as 127.0.0.1:8090, or a port alone such as :8090")
	}
	return nil
}

// validRedis never quotes the URL: it may hold a password.
func validRedis(text string) error {
	u, err := url.Parse(text)
	switch {
	case err == nil && u.Host != "" && (u.Scheme == "redis" || u.Scheme == "rediss"):
	case err == nil && u.Host == "" && u.Scheme == "unix" && u.Path != "":
	default:
		return errors.New("must be a URL such as redis://db:6379/0, rediss://db:6379/0 or unix:///run/redis.sock?db=0")
	}
	return nil
}

// redisPassword answers the password of a URL.
func redisPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text // whatever it is, it may be all password
	}
	password, _ := u.User.Password()
	return password
}

// showRedis answers of a URL the user, the address and the database.
func showRedis(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "***"
	}
	shown := u.Scheme + "://"
	if u.User != nil {
		shown += u.User.Username()
		if _, is := u.User.Password(); is {
			shown += ":***"
		}
		shown += "@"
	}
	shown += u.Host + u.Path
	if u.RawQuery != "" {
		shown += "?***"
	}
	return shown
}

// namedInstance is how instances are called: they stand in the keys of a Redis
// and in the log.
var namedInstance = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func validInstance(text string) error {
	if !namedInstance.MatchString(text) {
		return errors.New("the name of an instance has at most 64 letters, digits, hyphens and underscores")
	}
	return nil
}
