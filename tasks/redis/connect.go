package redis

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/phorge-gantry/gantry/tasks"
)

// silent drops what go-redis writes to the standard error of the process: whatever
// concerns a caller comes as an error as well.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func init() { goredis.SetLogger(silent{}) }

// connect connects to the server, finds out whether it is a cluster, and refuses
// one that could lose tasks.
func (s *Store) connect(ctx context.Context) error {
	o, err := s.config.options()
	if err != nil {
		return err
	}
	where := strings.Join(o.Addrs, ",")
	if o.MasterName != "" {
		where = o.MasterName + " of " + where
	}
	s.place = fmt.Sprintf("queue %s on the Redis %s", s.config.Instance, where)
	if o.MasterName != "" {
		s.client = goredis.NewFailoverClient(o.Failover())
		return s.check(ctx, s.client)
	}
	info, err := s.probe(ctx, o)
	if err != nil {
		return err
	}
	if info["redis_mode"] != "cluster" {
		return s.check(ctx, s.client)
	}
	err = s.client.Close()
	if err != nil {
		return err
	}
	if o.DB != 0 {
		return fmt.Errorf("%s: a cluster has no database %d; use 0", s.place, o.DB)
	}
	cluster := goredis.NewClusterClient(o.Cluster())
	s.client = cluster
	return s.explain(cluster.ForEachShard(ctx, func(ctx context.Context, node *goredis.Client) error {
		return s.check(ctx, node)
	}))
}

// options answers how to connect, from whichever form it was given in.
func (c *Config) options() (*goredis.UniversalOptions, error) {
	o := goredis.UniversalOptions{}
	switch {
	case c.Options != nil:
		o = *c.Options
	case c.URL == "":
		return nil, errors.New("neither the URL of a Redis nor options are given")
	default:
		simple, more, volatile, err := parse(c.URL)
		if err != nil {
			return nil, err
		}
		c.Volatile = c.Volatile || volatile
		o = goredis.UniversalOptions{
			Addrs: append([]string{simple.Addr}, more...), DB: simple.DB,
			Username: simple.Username, Password: simple.Password, TLSConfig: simple.TLSConfig, Protocol: simple.Protocol,
			ClientName: simple.ClientName, DialTimeout: simple.DialTimeout, ReadTimeout: simple.ReadTimeout,
			WriteTimeout: simple.WriteTimeout, PoolSize: simple.PoolSize, PoolTimeout: simple.PoolTimeout,
			MinIdleConns: simple.MinIdleConns, MaxIdleConns: simple.MaxIdleConns, MaxActiveConns: simple.MaxActiveConns,
			ConnMaxIdleTime: simple.ConnMaxIdleTime, ConnMaxLifetime: simple.ConnMaxLifetime,
		}
	}
	if len(o.Addrs) == 0 {
		return nil, errors.New("the options of the Redis name no address")
	}
	// Which calls may be repeated, and how, is known here alone.
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = false // what was sent is waited for
	o.DialerRetries = 1
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = 10 * time.Second // an fsync can take its time
	}
	if o.ClientName == "" {
		o.ClientName = "gantry"
	}
	return &o, nil
}

// parse reads a URL, the further addresses that it names, and whether it accepts
// that tasks are lost. Its errors do not repeat it, because it can hold a password.
func parse(text string) (o *goredis.Options, more []string, volatile bool, err error) {
	u, err := url.Parse(text)
	if err == nil {
		query := u.Query()
		more, volatile = query["addr"], query.Get("volatile") == "true"
		query.Del("addr")
		if volatile {
			query.Del("volatile")
		}
		u.RawQuery = query.Encode()
		o, err = goredis.ParseURL(u.String())
	}
	var broken *url.Error
	if errors.As(err, &broken) {
		err = broken.Err
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("the URL of the Redis must be such as redis://host:6379/0: %w", err)
	}
	return o, more, volatile, nil
}

// probe asks the first address that answers what it is.
func (s *Store) probe(ctx context.Context, o *goredis.UniversalOptions) (info map[string]string, err error) {
	for _, address := range o.Addrs {
		simple := o.Simple()
		simple.Addr = address
		client := goredis.NewClient(simple)
		if info, err = serverInfo(ctx, client, "server"); err == nil {
			s.client = client
			return info, nil
		}
		err = s.explain(errors.Join(err, client.Close()))
	}
	return nil, err
}

func serverInfo(ctx context.Context, c goredis.Cmdable, sections ...string) (map[string]string, error) {
	text, err := c.Info(ctx, sections...).Result()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// check refuses a server that is too old, or that could lose tasks.
func (s *Store) check(ctx context.Context, c goredis.Cmdable) error {
	info, err := serverInfo(ctx, c, "server", "memory", "persistence", "replication")
	if err != nil {
		return s.explain(err)
	}
	version := info["redis_version"]
	if major, err := strconv.Atoi(strings.Split(version, ".")[0]); err != nil || major < 7 {
		return fmt.Errorf("%s: version %q is too old; 7.0 or later is needed", s.place, version)
	}
	if err := s.checkPolicy(info); err != nil {
		return err
	}
	if info["role"] == "slave" && info["redis_mode"] != "cluster" {
		return fmt.Errorf("%w: %s: it is a replica of %s:%s; name the master, or its Sentinels", tasks.ErrUnavailable, s.place, info["master_host"], info["master_port"])
	}
	if info["loading"] != "0" { // then it says nothing of its file yet
		return fmt.Errorf("%w: %s: %s", tasks.ErrUnavailable, s.place, passing["LOADING"])
	}
	if err := s.checkFile(info); err != nil {
		return err
	}
	if info["aof_enabled"] == "1" {
		s.warnOfSync(ctx, c)
		return nil
	}
	s.config.Log.Warn().Msgf("%s: it keeps no append-only file and loses tasks when it ends", s.place)
	return nil
}

func (s *Store) checkFile(info map[string]string) error {
	if info["aof_enabled"] == "1" || s.config.Volatile {
		return nil
	}
	return fmt.Errorf("%s: it keeps no append-only file, so it would lose tasks when it ends; set appendonly yes (CONFIG SET appendonly yes, and in its configuration file), with appendfsync always if not even the last two seconds may be lost, or accept the loss with ?volatile=true in the URL", s.place)
}

func (s *Store) checkPolicy(info map[string]string) error {
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		return fmt.Errorf("%s: its maxmemory-policy is %q, which would drop tasks when memory runs out; set noeviction (CONFIG SET maxmemory-policy noeviction, and in its configuration file)", s.place, policy)
	}
	return nil
}

// warnOfSync says what can be lost. Where CONFIG is not allowed, nothing is known
// and nothing said.
func (s *Store) warnOfSync(ctx context.Context, c goredis.Cmdable) {
	settings, err := c.ConfigGet(ctx, "appendfsync").Result()
	if sync := settings["appendfsync"]; err == nil && sync != "always" {
		s.config.Log.Warn().Str("appendfsync", sync).Msgf("%s: a crash of the host can lose its last two seconds; appendfsync always keeps it", s.place)
	}
}
